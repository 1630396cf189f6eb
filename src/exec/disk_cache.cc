#include "exec/disk_cache.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/thread_name.h"

namespace quire {
namespace {

// The keys of this many slots take some tens of MB of memory.
constexpr int64_t kMaxSlots = int64_t{1} << 18;

bool read_all(int fd, std::span<std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

// 0, or the system's error.
int write_all(int fd, std::span<const std::byte> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return 0;
}

// Runs an operation of the I/O thread. Running out of memory, for a log line or the list of a directory,
// makes the operation fail like an error of the disk.
template <typename Operation>
bool attempt(const Operation& operation) noexcept {
  try {
    return operation();
  } catch (...) {
    return false;
  }
}

}  // namespace

int64_t DiskCache::staging_bytes(int64_t bytes_per_block) {
  return kMaxWrites * bytes_per_block;
}

std::unique_ptr<DiskCache> DiskCache::open(const DiskCacheOptions& options) {
  auto folder = DiskFolder::open(options.directory, options.fingerprint);
  if (folder == nullptr) return nullptr;
  const int64_t one_slot = slot_sizes(options.block_size, options.bytes_per_block).slot();
  if (options.max_bytes < one_slot) {
    log_warning("--kv-disk-cache-size ", options.max_bytes, ": one block takes ", one_slot,
                " bytes; running without the disk cache");
    return nullptr;
  }
  return std::unique_ptr<DiskCache>(new DiskCache(options, std::move(folder)));
}

DiskCache::DiskCache(const DiskCacheOptions& options, std::unique_ptr<DiskFolder> folder)
    : folder_(std::move(folder)),
      sizes_(slot_sizes(options.block_size, options.bytes_per_block)),
      bytes_per_block_(options.bytes_per_block),
      max_bytes_(options.max_bytes),
      num_slots_(static_cast<int32_t>(std::min(options.max_bytes / sizes_.slot(), kMaxSlots))),
      staging_(static_cast<size_t>(staging_bytes(options.bytes_per_block))),
      checksums_(static_cast<size_t>(num_slots_)),
      filled_(static_cast<size_t>(num_slots_)),
      backed_(static_cast<size_t>(num_slots_)),
      head_(static_cast<size_t>(sizes_.head)) {
  for (int32_t i = 0; i < kMaxWrites; ++i) free_staged_.push_back(i);
  restore();
  thread_ = std::thread([this] { run(); });
}

DiskCache::~DiskCache() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

// Only heads are read: a block is checked when it is wanted.
void DiskCache::restore() {
  struct stat heads = {};
  struct stat blocks = {};
  if (::fstat(folder_->heads_fd(), &heads) != 0 || ::fstat(folder_->blocks_fd(), &blocks) != 0) return;
  // With a smaller limit than last time, frees the space beyond it.
  if (heads.st_size > num_slots_ * sizes_.head)
    (void)!::ftruncate(folder_->heads_fd(), num_slots_ * sizes_.head);
  if (blocks.st_size > num_slots_ * sizes_.block)
    (void)!::ftruncate(folder_->blocks_fd(), num_slots_ * sizes_.block);
  std::vector<std::byte> heads_read(
      static_cast<size_t>(std::min<int64_t>(heads.st_size / sizes_.head, num_slots_) * sizes_.head));
  if (!read_all(folder_->heads_fd(), heads_read, 0)) heads_read.clear();
  std::vector<std::pair<uint64_t, Entry>> found;
  for (size_t slot = 0; slot * head_.size() < heads_read.size(); ++slot) {
    const std::span<const std::byte> head = std::span(heads_read).subspan(slot * head_.size(), head_.size());
    // A slot that was never written is a hole of both files.
    const bool hole = std::all_of(head.begin(), head.end(), [](std::byte b) { return b == std::byte{0}; });
    backed_[slot] = hole ? 0 : 1;
    bytes_used_ += backed_[slot] * sizes_.slot();
    auto decoded = decode_head(head, static_cast<int32_t>(slot), bytes_per_block_);
    if (!decoded) continue;
    checksums_[slot] = decoded->block_checksum;
    filled_[slot] = 1;
    stamp_ = std::max(stamp_, decoded->stamp);
    found.emplace_back(decoded->stamp, Entry{static_cast<int32_t>(slot), std::move(decoded->key)});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [stamp, entry] : found) entries_.push_back(std::move(entry));
  bytes_of_others_ = folder_->bytes_of_others();
}

std::span<std::byte> DiskCache::staged(int32_t index) {
  return {staging_.data() + index * bytes_per_block_, static_cast<size_t>(bytes_per_block_)};
}

void DiskCache::write(int32_t slot, const CachedBlockHash& key, std::span<const std::byte> block) {
  int32_t index = -1;
  {
    const std::lock_guard lock(mutex_);
    if (free_staged_.empty()) {
      outcomes_.push_back({.slot = slot, .write = true, .ok = false});
      return;
    }
    index = free_staged_.back();
    free_staged_.pop_back();
  }
  std::memcpy(staged(index).data(), block.data(), block.size());
  {
    const std::lock_guard lock(mutex_);
    writes_.push_back({slot, index, key});
    expect_outcome();
  }
  work_.notify_one();
}

void DiskCache::read(int32_t slot, BlockId host_block, std::span<std::byte> block) {
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back({slot, host_block, block});
    expect_outcome();
  }
  work_.notify_one();
}

// Under the lock. The I/O thread can then report the outcome without allocating.
void DiskCache::expect_outcome() {
  outcomes_.reserve(outcomes_.size() + static_cast<size_t>(num_outstanding_) + 1);
  ++num_outstanding_;
}

void DiskCache::clear() {
  {
    const std::lock_guard lock(mutex_);
    writes_.push_back({});
  }
  work_.notify_one();
}

bool DiskCache::busy() const {
  const std::lock_guard lock(mutex_);
  return num_outstanding_ > 0;
}

void DiskCache::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return !outcomes_.empty() || num_outstanding_ == 0; });
}

void DiskCache::on_outcome(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_outcome_ = std::move(callback);
}

void DiskCache::take_outcomes(std::vector<DiskOutcome>& outcomes) {
  const std::lock_guard lock(mutex_);
  outcomes.insert(outcomes.end(), outcomes_.begin(), outcomes_.end());
  outcomes_.clear();
}

void DiskCache::run() {
  name_this_thread("quire-kv-disk");
  // Exceeding a file size limit is then an error of the write instead of the end of the process.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !reads_.empty() || !writes_.empty(); });
    if (stopping_) reads_.clear();
    DiskOutcome outcome;
    if (!reads_.empty()) {
      const Read read = reads_.front();
      reads_.pop_front();
      lock.unlock();
      outcome = {.slot = read.slot, .host_block = read.host_block, .write = false, .ok = attempt([&] {
                                                                                     return perform(read);
                                                                                   })};
      lock.lock();
    } else if (!writes_.empty()) {
      const Write write = std::move(writes_.front());
      writes_.pop_front();
      lock.unlock();
      if (write.slot < 0) {
        attempt([&] {
          empty_slots();
          return true;
        });
        lock.lock();
        continue;
      }
      outcome = {.slot = write.slot, .write = true, .ok = attempt([&] { return perform(write); })};
      lock.lock();
      free_staged_.push_back(write.staged);
    } else {
      return;  // stopping, and all is written
    }
    outcomes_.push_back(outcome);
    --num_outstanding_;
    done_.notify_one();
    if (on_outcome_) on_outcome_();
  }
}

bool DiskCache::perform(const Read& read) {
  const auto slot = static_cast<size_t>(read.slot);
  if (filled_[slot] != 0 && (!read_all(folder_->blocks_fd(), read.block, read.slot * sizes_.block) ||
                             block_checksum(read.block) != checksums_[slot])) {
    filled_[slot] = 0;
  }
  return filled_[slot] != 0;
}

bool DiskCache::perform(const Write& write) {
  const auto slot = static_cast<size_t>(write.slot);
  filled_[slot] = 0;
  if (!writing_ || !make_space(write.slot)) return false;
  const std::span<const std::byte> block = staged(write.staged);
  checksums_[slot] = block_checksum(block);
  encode_head(write.key, write.slot, ++stamp_, block.size(), checksums_[slot], head_);
  int error = write_all(folder_->blocks_fd(), block, write.slot * sizes_.block);
  if (error == 0) error = write_all(folder_->heads_fd(), head_, write.slot * sizes_.head);
  if (error != 0) {
    stop_writing(error);
    return false;
  }
  filled_[slot] = 1;
  return true;
}

// Makes space under the size limit for a slot that occupies none yet, by removing other models' caches.
bool DiskCache::make_space(int32_t slot) {
  uint8_t& backed = backed_[static_cast<size_t>(slot)];
  if (backed != 0) return true;
  while (bytes_used_ + bytes_of_others_ + sizes_.slot() > max_bytes_) {
    const bool removed = bytes_of_others_ > 0 && folder_->remove_oldest_other();
    bytes_of_others_ = folder_->bytes_of_others();
    if (!removed) break;
  }
  if (bytes_used_ + bytes_of_others_ + sizes_.slot() > max_bytes_) return false;
  backed = 1;
  bytes_used_ += sizes_.slot();
  return true;
}

void DiskCache::empty_slots() {
  std::fill(filled_.begin(), filled_.end(), 0);
  if (::ftruncate(folder_->heads_fd(), 0) != 0 || ::ftruncate(folder_->blocks_fd(), 0) != 0) {
    stop_writing(errno);
    return;
  }
  std::fill(backed_.begin(), backed_.end(), 0);
  bytes_used_ = 0;
}

void DiskCache::stop_writing(int error) {
  log_warning("--kv-disk-cache ", folder_->path().string(), ": ", std::strerror(error),
              "; nothing more is written to it");
  writing_ = false;
}

}  // namespace quire
