// The slots of the disk cache as bookkeeping: which content each holds, which are being written or read, and
// which device blocks are still to be written. Owned by KvManager; engine thread only. O(1) for a block.
//
//   last reference on the device goes -> backlog -> write in flight -> found on the disk -> read in flight
//
// A device block in the backlog needs no copy of its own: its content stays until the block is reused, and
// then it is written at once or not at all.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/ids.h"
#include "contract/step_plan.h"
#include "kv/block_tier.h"

namespace quire {

class DiskTier {
 public:
  // max_writes: how many may be handed out and not ended.
  DiskTier(int32_t num_slots, int32_t num_device_blocks, int32_t num_host_blocks, int32_t block_size,
           int32_t max_writes);

  const BlockTier& slots() const { return slots_; }
  // The slot that can be read for this content, or -1.
  int32_t find(const PrefixIndex::Key& key) const;

  // The slot holds this already, from an earlier process. Call in the order in which slots may be reused.
  void restore(int32_t slot, const PrefixIndex::Key& key);

  // A published device block without a reference: to be written unless the disk has it.
  void add_to_backlog(BlockId device_block, const PrefixIndex::Key& key);
  // The block of the backlog is about to be reused: its write is handed out now, or dropped.
  void write_or_drop(BlockId device_block, const BlockTier& device);
  // Moves the writes that may begin with this plan to `writes`.
  void take_writes(const BlockTier& device, std::vector<DiskWrite>& writes);
  bool has_writes() const { return backlog_head_ >= 0 || !pending_.empty(); }

  // The host block that a read of the slot goes to, or -1.
  BlockId reading_into(int32_t slot) const { return reading_[static_cast<size_t>(slot)]; }
  bool read_in_flight(BlockId host_block) const { return host_busy_[static_cast<size_t>(host_block)] != 0; }
  DiskRead begin_read(int32_t slot, BlockId host_block);
  // Ends a read; the slot stays held until release(). False when there is nothing in the host block that may
  // be served.
  bool end_read(int32_t slot, bool ok);
  void release(int32_t slot) { slots_.release(slot); }
  void end_write(int32_t slot, bool ok);

  void forget_all();

  int64_t num_reads() const { return num_reads_; }
  int64_t num_reads_failed() const { return num_reads_failed_; }
  int64_t num_writes() const { return num_writes_; }
  int64_t num_writes_dropped() const { return num_writes_dropped_; }

  void check_integrity(const BlockTier& device) const;

 private:
  bool hand_out(BlockId device_block, const PrefixIndex::Key& key);
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
  std::vector<uint8_t> host_busy_;  // [num_host_blocks], a read goes there
  std::vector<Link> links_;         // [num_device_blocks], the backlog, first to be written first
  BlockId backlog_head_ = -1;
  BlockId backlog_tail_ = -1;
  std::vector<DiskWrite> pending_;  // handed out since the last take_writes()
  int32_t max_writes_;
  int32_t num_writes_in_flight_ = 0;
  int64_t num_reads_ = 0;
  int64_t num_reads_failed_ = 0;
  int64_t num_writes_ = 0;
  int64_t num_writes_dropped_ = 0;
};

}  // namespace quire
