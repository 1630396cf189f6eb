#include "hub/blob_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "base/thread_name.h"
#include "hub/digest.h"

namespace quire::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunkBytes = 8 << 20;  // per request
constexpr uint64_t kWindowChunks = 12;     // requested or in memory at the same time
constexpr size_t kReadBytes = 1 << 20;
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

// The unfinished file and the hash of its content.
class PrefixFile {
 public:
  PrefixFile(const RemoteFile& file, const fs::path& path)
      : file_(file), path_(path), digest_(Digest::for_etag(file.etag, file.size)) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) throw Error(cat("cannot create ", path.string(), ": ", std::strerror(errno)));
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd_);
      throw Error(cat(path.string(), ": is not a regular file"));
    }
    existing_ = static_cast<uint64_t>(status.st_size);
  }
  ~PrefixFile() { ::close(fd_); }
  PrefixFile(const PrefixFile&) = delete;
  PrefixFile& operator=(const PrefixFile&) = delete;

  uint64_t size() const { return size_; }

  // Hashes what an earlier download has left.
  void resume(const std::function<void(uint64_t)>& progress) {
    if (existing_ > file_.size) clear();
    std::string buffer(kReadBytes, '\0');
    while (size_ < existing_) {
      const ssize_t count = ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(size_));
      if (count <= 0) break;
      digest_.update({buffer.data(), static_cast<size_t>(count)});
      size_ += static_cast<uint64_t>(count);
      progress(size_);
    }
    if (size_ < existing_) clear();
    // Reserves the space; the size of the file remains that of its content.
    if (size_ < file_.size && ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(file_.size)) != 0 &&
        errno == ENOSPC)
      fail(
          "not enough disk space; remove models with quire rm, or set HF_HOME to a directory on a larger "
          "disk");
  }
  void clear() {
    existing_ = size_ = 0;
    digest_ = Digest::for_etag(file_.etag, file_.size);
    if (::ftruncate(fd_, 0) != 0) fail(std::strerror(errno));
  }
  void append(std::string_view bytes) {
    digest_.update(bytes);
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == ENOSPC)
        fail("no space left on the device; free space and start again, the download is resumed");
      if (count <= 0) fail(std::strerror(errno));
      bytes.remove_prefix(static_cast<size_t>(count));
      size_ += static_cast<uint64_t>(count);
    }
  }
  // Whether the hash of the complete content is the expected one. Ends the use of the digest.
  bool verify() { return digest_.finish() == file_.etag; }
  void sync() { ::fdatasync(fd_); }

 private:
  [[noreturn]] void fail(std::string_view reason) const {
    throw Error(cat("cannot write ", path_.string(), ": ", reason));
  }

  const RemoteFile& file_;
  fs::path path_;
  Digest digest_;
  int fd_ = -1;
  uint64_t existing_ = 0;  // bytes that were there before
  uint64_t size_ = 0;      // bytes that are in the digest
};

// Chunks that several threads fetch and one writes in order.
class ChunkQueue {
 public:
  ChunkQueue(uint64_t begin, uint64_t end) : next_(begin), written_(begin), end_(end) {}

  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // Worker: the next range to fetch, empty at the end. Blocks while the window is full.
  Range take(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop,
                  [&] { return next_ >= end_ || next_ < written_ + kWindowChunks * kChunkBytes; });
    if (stop.stop_requested() || next_ >= end_) return {};
    const Range range{next_, std::min(end_, next_ + kChunkBytes)};
    next_ = range.end;
    return range;
  }
  void deliver(uint64_t begin, std::string bytes) {
    const std::lock_guard lock(mutex_);
    ready_.emplace(begin, std::move(bytes));
    changed_.notify_all();
  }
  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }
  // Writer: the chunk that follows the written ones; empty after kProgressInterval. Throws a worker's error.
  std::string wait_next() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kProgressInterval,
                      [&] { return error_ != nullptr || ready_.contains(written_); });
    const auto it = ready_.find(written_);
    if (it == ready_.end()) {
      if (error_) std::rethrow_exception(error_);
      return {};
    }
    std::string bytes = std::move(it->second);
    ready_.erase(it);
    written_ += bytes.size();
    changed_.notify_all();
    return bytes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<uint64_t, std::string> ready_;
  std::exception_ptr error_;
  uint64_t next_;
  uint64_t written_;
  uint64_t end_;
};

class BlobDownload {
 public:
  BlobDownload(const Settings& settings, std::shared_ptr<const HttpTransport> transport,
               const RemoteFile& file, PrefixFile& out, const std::function<void(uint64_t)>& progress)
      : settings_(settings), transport_(std::move(transport)), file_(file), out_(out), progress_(progress) {}

  void run() {
    try {
      fetch_ranges();
    } catch (const RangeIgnored& reason) {
      log_debug(reason.what(), "; using one connection");
      fetch_all();
    }
  }

 private:
  void fetch_ranges() {
    ChunkQueue queue(out_.size(), file_.size);
    std::atomic<uint64_t> received{out_.size()};
    const uint64_t chunks = (file_.size - out_.size() + kChunkBytes - 1) / kChunkBytes;
    std::vector<std::jthread> workers;
    for (uint64_t i = 0; i < std::min<uint64_t>(chunks, static_cast<uint64_t>(settings_.connections)); ++i) {
      workers.emplace_back([&](const std::stop_token& stop) { work(queue, received, stop); });
    }
    try {
      while (out_.size() < file_.size) {
        out_.append(queue.wait_next());
        progress_(std::max(out_.size(), received.load()));
      }
    } catch (...) {
      for (std::jthread& worker : workers) worker.request_stop();
      throw;
    }
  }

  void work(ChunkQueue& queue, std::atomic<uint64_t>& received, const std::stop_token& stop) {
    name_this_thread("quire-pull");
    try {
      HubClient client(settings_, transport_);
      RemoteFile file = file_;
      for (auto range = queue.take(stop); range.begin < range.end; range = queue.take(stop)) {
        std::string bytes;
        bytes.reserve(range.end - range.begin);
        client.read_range(
            file, range.begin, range.end,
            [&](std::string_view piece) {
              bytes += piece;
              received += piece.size();
            },
            stop);
        queue.deliver(range.begin, std::move(bytes));
      }
    } catch (...) {
      queue.fail(std::current_exception());
    }
  }

  // The server has no ranges: a broken connection starts at the first byte again.
  void fetch_all() {
    HubClient client(settings_, transport_);
    RemoteFile file = file_;
    for (int attempt = 0;; ++attempt) {
      out_.clear();
      try {
        client.read_all(file, [&](std::string_view piece) {
          if (out_.size() + piece.size() > file_.size)
            throw Error(
                cat(file_.repo, ": the server sends more than the ", file_.size, " bytes of ", file_.name));
          out_.append(piece);
          progress_(out_.size());
        });
        if (out_.size() == file_.size) return;
      } catch (const HttpError& error) {
        if (!error.can_retry || attempt >= 3) throw;
      }
      if (attempt >= 3)
        throw Error(cat(file_.repo, ": the server ends ", file_.name, " too early; try again later"));
      std::this_thread::sleep_for(std::chrono::duration<double>(retry_delay(attempt)));
    }
  }

  const Settings& settings_;
  std::shared_ptr<const HttpTransport> transport_;
  const RemoteFile& file_;
  PrefixFile& out_;
  const std::function<void(uint64_t)>& progress_;
};

}  // namespace

void download_blob(const Settings& settings, const std::shared_ptr<const HttpTransport>& transport,
                   const RemoteFile& file, const BlobPaths& paths,
                   const std::function<void(uint64_t)>& progress) {
  PrefixFile out(file, paths.incomplete);
  out.resume(progress);
  const bool resumed = out.size() > 0;
  if (out.size() < file.size) BlobDownload(settings, transport, file, out, progress).run();
  bool valid = out.verify();
  if (!valid && resumed) {
    log_warning(file.repo, ": ", file.name, ": the resumed download has a wrong hash; downloading it again");
    out.clear();
    BlobDownload(settings, transport, file, out, progress).run();
    valid = out.verify();
  }
  if (!valid) {
    fs::remove(paths.incomplete);
    throw Error(cat(file.repo, ": ", file.name, " has a wrong hash after the download (expected ", file.etag,
                    "); the file was removed, try again, or check HF_ENDPOINT and the proxy"));
  }
  out.sync();
  std::error_code error;
  fs::rename(paths.incomplete, paths.blob, error);
  if (error) throw Error(cat("cannot rename ", paths.incomplete.string(), ": ", error.message()));
}

}  // namespace quire::hub
