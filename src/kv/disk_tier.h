// Bookkeeping of the disk cache: the content of each slot, which slots are being written or read, and which
// device blocks are still to be written. Owned by KvManager; engine thread only. O(1) per block.
//
//   last reference on the device removed -> backlog -> write in flight -> cached on disk -> read in flight
//
// A device block in the backlog needs no copy: its content stays until the block is reused, and then it is
// written immediately or dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/ids.h"
#include "contract/step_plan.h"
#include "kv/block_tier.h"

namespace quire {

class DiskTier {
 public:
  // max_writes: the most writes in flight.
  DiskTier(int32_t num_slots, int32_t num_device_blocks, int32_t num_host_blocks, int32_t block_size,
           int32_t max_writes);

  const BlockTier& slots() const { return slots_; }
  // The slot from which this content can be read, or -1.
  int32_t find(const PrefixIndex::Key& key) const;

  // An earlier process has filled the slot. Call in the order in which slots are to be reused.
  void restore(int32_t slot, const PrefixIndex::Key& key);

  // Adds a cached device block without references, unless the disk has its content.
  void add_to_backlog(BlockId device_block, const PrefixIndex::Key& key);
  // The block is about to be reused: if it is in the backlog, starts or drops its write.
  void write_or_drop(BlockId device_block, const BlockTier& device);
  // Moves the writes that may start with this plan to `writes`.
  void take_writes(const BlockTier& device, std::vector<DiskWrite>& writes);
  bool has_writes() const { return backlog_head_ >= 0 || !pending_.empty(); }

  // The host block into which the slot is being read, or -1.
  BlockId reading_into(int32_t slot) const { return reading_[static_cast<size_t>(slot)]; }
  bool read_in_flight(BlockId host_block) const { return host_busy_[static_cast<size_t>(host_block)] != 0; }
  DiskRead begin_read(int32_t slot, BlockId host_block);
  // Ends a read; the slot stays held until free(). Returns false if the host block must not be used.
  bool end_read(int32_t slot, bool ok);
  void free(int32_t slot) { slots_.free(slot); }
  void end_write(int32_t slot, bool ok);

  void remove_all();

  int64_t num_reads() const { return num_reads_; }
  int64_t num_reads_failed() const { return num_reads_failed_; }
  int64_t num_writes() const { return num_writes_; }
  int64_t num_writes_dropped() const { return num_writes_dropped_; }

  void check_integrity(const BlockTier& device) const;

 private:
  bool start_write(BlockId device_block, const PrefixIndex::Key& key);
  void link(BlockId device_block);
  void unlink(BlockId device_block);

  struct Link {
    BlockId prev = -1;
    BlockId next = -1;
    bool listed = false;
  };

  BlockTier slots_;
  std::vector<uint8_t> writing_;    // [num_slots]
  std::vector<BlockId> reading_;    // [num_slots], the host block or -1
  std::vector<uint8_t> host_busy_;  // [num_host_blocks], target of a read
  std::vector<Link> links_;         // [num_device_blocks], the backlog in order of writing
  BlockId backlog_head_ = -1;
  BlockId backlog_tail_ = -1;
  std::vector<DiskWrite> pending_;  // started since the last take_writes()
  int32_t max_writes_;
  int32_t num_writes_in_flight_ = 0;
  int64_t num_reads_ = 0;
  int64_t num_reads_failed_ = 0;
  int64_t num_writes_ = 0;
  int64_t num_writes_dropped_ = 0;
};

}  // namespace quire
