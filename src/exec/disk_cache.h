// The disk tier of the prefix cache: slots in two files, read and written by one thread, which sleeps without
// work. The bookkeeping in kv/ decides which slot holds which block; this class handles bytes and checksums.
//
// Guaranteed: a slot is read only if all its checksums are correct, so a crash of the process or the machine,
// at any time, costs at most the blocks that were being written. Not guaranteed: that a block is on the
// medium at a given time. Nothing is synced; a crash of the machine loses what the system had not written
// back.
//
// A full or failing disk stops the writes, with one warning; reads continue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "contract/step_plan.h"
#include "contract/step_result.h"
#include "exec/disk_folder.h"
#include "exec/disk_slot.h"
#include "tensor/tensor.h"

namespace quire {

struct DiskCacheOptions {
  std::filesystem::path directory;
  int64_t max_bytes = 0;    // size limit of the directory, all models' caches together
  std::string fingerprint;  // covers everything that a block's bytes depend on
  int32_t block_size = 0;   // tokens
  int64_t bytes_per_block = 0;
};

class DiskCache {
 public:
  // The most blocks that wait to be written; further writes are refused.
  static constexpr int32_t kMaxWrites = 32;

  struct Entry {
    int32_t slot = -1;
    CachedBlockHash key;
  };

  // Returns null, with a warning that gives the reason, if the directory cannot be used.
  static std::unique_ptr<DiskCache> open(const DiskCacheOptions& options);
  // Completes the queued writes.
  ~DiskCache();

  uint64_t hash_seed() const { return folder_->seed(); }
  int32_t num_slots() const { return num_slots_; }
  size_t num_entries() const { return entries_.size(); }
  // Intact slots of an earlier process, least recently written first. Call once.
  std::vector<Entry> take_entries() { return std::move(entries_); }
  // Size of the staging buffers of write().
  static int64_t staging_bytes(int64_t bytes_per_block);

  // Called by the engine thread. Only wait() waits for the disk.
  //
  // Copies the block and writes it asynchronously.
  void write(int32_t slot, const CachedBlockHash& key, std::span<const std::byte> block);
  // Reads asynchronously; `block` belongs to the cache until the outcome is taken.
  void read(int32_t slot, BlockId host_block, std::span<std::byte> block);
  // Empties every slot, after all earlier operations.
  void clear();
  // Appends the outcomes of finished operations.
  void take_outcomes(std::vector<DiskOutcome>& outcomes);
  // Whether an operation has no outcome yet.
  bool busy() const;
  // Waits until there is an outcome or no operation is in flight.
  void wait();
  // Calls `callback` after each outcome, on the I/O thread and under the lock of the members above. Empty =
  // no longer.
  void on_outcome(std::function<void()> callback);

 private:
  struct Write {
    int32_t slot = -1;  // -1 = clear()
    int32_t staged = -1;
    CachedBlockHash key;
  };
  struct Read {
    int32_t slot = -1;
    BlockId host_block = -1;
    std::span<std::byte> block;
  };

  DiskCache(const DiskCacheOptions& options, std::unique_ptr<DiskFolder> folder);
  void restore();
  void run();
  void expect_outcome();
  bool perform(const Write& write);
  bool perform(const Read& read);
  void empty_slots();
  bool make_space(int32_t slot);
  void stop_writing(int error);
  std::span<std::byte> staged(int32_t index);

  std::unique_ptr<DiskFolder> folder_;
  SlotSizes sizes_;
  int64_t bytes_per_block_;
  int64_t max_bytes_;
  int32_t num_slots_ = 0;
  std::vector<Entry> entries_;
  Buffer staging_;  // [kMaxWrites, bytes_per_block]

  // Used by the I/O thread only.
  std::vector<uint64_t> checksums_;  // [num_slots] checksum of the block in the slot
  std::vector<uint8_t> filled_;      // [num_slots] the slot holds an intact block
  std::vector<uint8_t> backed_;      // [num_slots] the slot occupies disk space
  std::vector<std::byte> head_;      // [SlotSizes::head] scratch
  uint64_t stamp_ = 0;
  int64_t bytes_used_ = 0;
  int64_t bytes_of_others_ = 0;
  bool writing_ = true;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<Read> reads_;  // before writes, because requests wait for them
  std::deque<Write> writes_;
  std::vector<int32_t> free_staged_;
  std::vector<DiskOutcome> outcomes_;
  std::function<void()> on_outcome_;
  int32_t num_outstanding_ = 0;  // operations without an outcome
  bool stopping_ = false;

  std::thread thread_;  // last member: starts when the others are initialized
};

}  // namespace quire
