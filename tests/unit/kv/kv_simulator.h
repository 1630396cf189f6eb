// Simulates the contents of KV blocks: each slot has a hash of the whole history of its token. Plans are
// executed as by an executor, and the slots that a table reads are compared with hashes that are computed
// without a cache.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kv/kv_manager.h"

namespace quire::test {

// A sequence: its tokens and its progress.
struct SimSequence {
  TableId table = -1;
  int32_t request = -1;  // sequences of one request swap together
  uint64_t root = 0;     // root hash of its history
  std::vector<TokenId> token_ids;
  bool running = false;
  bool loading = false;
  bool swapped = false;
  int32_t planned = 0;  // tokens of the plan being made
};

class KvSimulator {
 public:
  KvSimulator(const KvLayout& layout, const KvOptions& options);

  // The expected content of slot `position` of a sequence in a group.
  static uint64_t expected(const SimSequence& sequence, int32_t group, int32_t position);

  // Performs disk writes, copies and disk reads in order, lets every planned sequence write its new tokens
  // and read its past, and commits.
  void perform(std::vector<SimSequence>& sequences);

  // Ends the disk read or write number `choice`. If `fails`, it fails, and the content of the slot is lost.
  // Returns false if none is in flight.
  bool end_disk_io(uint32_t choice, bool fails);
  // The slots that a later process finds on disk. No read or write may be in flight.
  std::vector<StoredBlock> stored() const;
  void restore(const KvSimulator& before);

  KvLayout layout;
  KvManager kv;
  std::vector<BlockCopy> copies;     // in the current plan
  std::vector<DiskRead> disk_reads;  // in the current plan
  int64_t num_checked = 0;           // slots compared

 private:
  uint64_t& slot(KvTier tier, BlockId block, int32_t index);
  void copy(const BlockCopy& copy);
  void compute(const SimSequence& sequence);

  // A slot of the disk; without bytes if it was never written.
  struct Slot {
    CachedBlockHash key;
    std::vector<uint64_t> bytes;
  };
  struct Write {
    DiskWrite plan;
    std::vector<uint64_t> bytes;  // as they were when the plan began
  };

  std::vector<uint64_t> device_;  // [num_blocks, block_size]
  std::vector<uint64_t> host_;    // [num_host_blocks, block_size]
  std::vector<Slot> disk_;        // [num_disk_blocks]
  std::vector<Write> writes_in_flight_;
  std::vector<DiskRead> reads_in_flight_;
  std::vector<DiskWrite> taken_;
};

}  // namespace quire::test
