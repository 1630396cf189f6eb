// The disk tier of the prefix cache: slots in two files, written and read by one thread that sleeps when it
// has nothing to do. Which slot holds what is the bookkeeping's matter (kv/); here are bytes and checksums.
//
// Promised: a slot is served only if all its checksums agree, so a crash of the process or the machine, at
// any moment, costs at most the blocks that were being written. Not promised: that a block is on the medium
// at a given time. Nothing is synced; a crash of the machine loses what the system had not yet written back.
//
// A full disk or a broken one ends the writing, with one warning; what is there is still read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
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
  int64_t max_bytes = 0;    // of the directory: this model's cache and others'
  std::string fingerprint;  // of everything that a block's bytes depend on
  int32_t block_size = 0;   // tokens
  int64_t bytes_per_block = 0;
};

class DiskCache {
 public:
  // Blocks that wait to be written, at the most; a write beyond is refused.
  static constexpr int32_t kMaxWrites = 32;

  struct Entry {
    int32_t slot = -1;
    CachedBlockName name;
  };

  // Null, with a warning that says why, when the directory cannot be used.
  static std::unique_ptr<DiskCache> open(const DiskCacheOptions& options);
  // Completes the writes that were taken.
  ~DiskCache();

  uint64_t hash_seed() const { return folder_->seed(); }
  int32_t num_slots() const { return num_slots_; }
  size_t num_entries() const { return entries_.size(); }
  // What an earlier process left, least recently written first. Once.
  std::vector<Entry> take_entries() { return std::move(entries_); }
  // Bytes that write() keeps copies in.
  static int64_t staging_bytes(int64_t bytes_per_block);

  // The engine thread's side; none of these waits but wait().
  //
  // Copies the block and writes it later.
  void write(int32_t slot, const CachedBlockName& name, std::span<const std::byte> block);
  // Reads later; `block` belongs to the cache until the outcome is taken.
  void read(int32_t slot, BlockId host_block, std::span<std::byte> block);
  // Empties every slot, behind what was asked for before.
  void clear();
  // Appends what ended. If nothing has and something is under way, waits for the first when asked to.
  void take_outcomes(bool wait, std::vector<DiskOutcome>& outcomes);

 private:
  struct Write {
    int32_t slot = -1;  // -1: clear()
    int32_t staged = -1;
    CachedBlockName name;
  };
  struct Read {
    int32_t slot = -1;
    BlockId host_block = -1;
    std::span<std::byte> block;
  };

  DiskCache(const DiskCacheOptions& options, std::unique_ptr<DiskFolder> folder);
  void restore();
  void run();
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

  // The I/O thread's own.
  std::vector<uint64_t> checksums_;  // [num_slots] of the block in the slot
  std::vector<uint8_t> filled_;      // [num_slots] the slot holds an intact block
  std::vector<uint8_t> backed_;      // [num_slots] the slot takes space of the disk
  std::vector<std::byte> head_;      // [SlotSizes::head] scratch
  uint64_t stamp_ = 0;
  int64_t bytes_used_ = 0;
  int64_t bytes_of_others_ = 0;
  bool writing_ = true;

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<Read> reads_;  // served before writes: somebody waits for them
  std::deque<Write> writes_;
  std::vector<int32_t> free_staged_;
  std::vector<DiskOutcome> outcomes_;
  int32_t num_outstanding_ = 0;  // outcomes still to come
  bool stopping_ = false;

  std::thread thread_;  // last: started when all else is there
};

}  // namespace quire
