#include "models/weight_cache.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_name.h"

namespace quire {

WeightCache::WeightCache(std::filesystem::path file, std::string fingerprint)
    : path_(std::move(file)), fingerprint_(std::move(fingerprint)), begin_(monotonic_seconds()) {
  try {
    file_ = PackedFile::open(path_, fingerprint_);
  } catch (const Error& error) {
    log_warning("--weight-cache: ", error.what(), "; the weights are packed again");
  }
}

WeightVerification::WeightVerification(const PackedFile& file, std::filesystem::path path,
                                       std::vector<std::string> names,
                                       std::function<void(const std::string&)> on_damage)
    : file_(file),
      path_(std::move(path)),
      names_(std::move(names)),
      on_damage_(std::move(on_damage)),
      thread_([this] { run(); }) {}

WeightVerification::~WeightVerification() {
  stop_ = true;
  thread_.join();
}

void WeightVerification::run() {
  name_this_thread("quire-verify");
  // SCHED_IDLE: runs only when no other thread needs the core. It is not an error if this fails.
  const sched_param no_priority{};
  ::sched_setscheduler(0, SCHED_IDLE, &no_priority);
  try {
    const double begin = monotonic_seconds();
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::optional<bool> intact = file_.intact(i, stop_);
      if (!intact) return;
      if (!*intact) return report(names_[i]);
    }
    log_info("weight cache verified in ", fixed(monotonic_seconds() - begin, 2), " s (", path_.string(), ")");
  } catch (const std::exception& error) {
    log_error("--weight-cache: cannot verify ", path_.string(), ": ", error.what());
  }
}

void WeightVerification::report(const std::string& name) {
  std::error_code error;
  std::filesystem::remove(path_, error);
  on_damage_(cat("the weight cache ", path_.string(), " is damaged: ", name, " does not have its checksum; ",
                 error ? cat("remove the file (", error.message(), ") and start again")
                       : std::string("the file was removed, the next start packs the weights again")));
}

WeightCache::~WeightCache() {
  if (writer_.joinable()) writer_.join();
}

Buffer WeightCache::next(const std::string& name, int64_t bytes, const std::function<Buffer()>& make) {
  Buffer piece;
  if (file_) {
    piece = file_->piece(pieces_.size(), name, static_cast<size_t>(bytes));
    if (piece.size() == 0) {
      log_warning("--weight-cache: ", path_.string(), ": expected ", name, " with ", bytes,
                  " bytes; the remaining weights are packed again");
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

std::unique_ptr<WeightVerification> WeightCache::verify(
    std::function<void(const std::string&)> on_damage) const {
  if (!file_) return nullptr;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(pieces_.size(), file_->num_pieces()); ++i) names.push_back(pieces_[i].name);
  return std::make_unique<WeightVerification>(*file_, path_, std::move(names), std::move(on_damage));
}

void WeightCache::write() const {
  name_this_thread("quire-packer");
  const double begin = monotonic_seconds();
  try {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) throw Error(cat(path_.parent_path().string(), ": cannot be created: ", error.message()));
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
