#include "models/weight_cache.h"

#include <exception>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"

namespace quire {

WeightCache::WeightCache(std::filesystem::path file, std::string fingerprint)
    : path_(std::move(file)), fingerprint_(std::move(fingerprint)), begin_(monotonic_seconds()) {
  try {
    file_ = PackedFile::open(path_, fingerprint_);
  } catch (const Error& error) {
    log_warning("--weight-cache: ", error.what(), "; the weights are packed anew");
  }
}

WeightCache::~WeightCache() {
  if (writer_.joinable()) writer_.join();
}

Buffer WeightCache::next(const std::string& name, int64_t bytes, const std::function<Buffer()>& make) {
  Buffer piece;
  if (file_) {
    piece = file_->piece(pieces_.size(), name, static_cast<size_t>(bytes));
    if (piece.size() == 0) {
      log_warning("--weight-cache: ", path_.string(), ": has no ", name, " of ", bytes,
                  " bytes in its place; what follows is packed anew");
      file_.reset();
    }
  }
  const bool mapped = piece.size() > 0;
  if (!mapped) piece = make();
  pieces_.push_back({name, {piece.data(), piece.size()}});
  const auto size = static_cast<int64_t>(piece.size());
  bytes_ += size;
  if (mapped) mapped_bytes_ += size;
  return piece;
}

std::optional<bool> WeightCache::holds_next(const std::string& name, int64_t bytes) const {
  if (!file_) return std::nullopt;
  return file_->piece(pieces_.size(), name, static_cast<size_t>(bytes)).size() > 0;
}

void WeightCache::finish() {
  if (pieces_.empty()) return;
  if (mapped_bytes_ == bytes_) {
    log_info("weights from cache, ", format_bytes(bytes_), " mapped in ",
             fixed(monotonic_seconds() - begin_, 3), " s (", path_.string(), ")");
    return;
  }
  writer_ = std::thread([this] { write(); });
}

void WeightCache::write() const {
  const double begin = monotonic_seconds();
  try {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) throw Error(cat(path_.parent_path().string(), ": cannot be made: ", error.message()));
    if (write_packed_file(path_, fingerprint_, pieces_)) {
      log_info("weight cache written: ", path_.string(), ", ", format_bytes(bytes_), " in ",
               fixed(monotonic_seconds() - begin, 2), " s");
    } else {
      log_info("weight cache: another process is writing ", path_.string());
    }
  } catch (const std::exception& error) {
    log_warning("--weight-cache: ", error.what(), "; the next start packs the weights again");
  }
}

}  // namespace quire
