// The bytes behind a KvManager, simulated: each slot of a block holds a number that stands for the whole
// history of its token. Plans are performed as an executor performs them, and what a table reads is compared
// with what was written for that history, which is computed without any cache.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kv/kv_manager.h"

namespace quire::testing {

// A sequence as its owner sees it: tokens, and where it is in its life.
struct SimSequence {
  TableId table = -1;
  int32_t request = -1;  // sequences of one request swap together
  uint64_t root = 0;     // of its history
  std::vector<TokenId> token_ids;
  bool running = false;
  bool loading = false;
  bool swapped = false;
  int32_t planned = 0;  // tokens of the plan being made
};

class KvSimulator {
 public:
  KvSimulator(const KvLayout& layout, const KvOptions& options);

  // What slot `position` of a sequence must hold in a group.
  static uint64_t expected(const SimSequence& sequence, int32_t group, int32_t position);

  // Performs disk writes, copies and disk reads in order, lets every planned sequence write its new tokens
  // and read its past, and commits.
  void perform(std::vector<SimSequence>& sequences);

  // Ends one of the disk's reads and writes, chosen by `choice`: it fails when `fails`, and then what was in
  // the slot is lost. False when there is none.
  bool end_disk_io(uint32_t choice, bool fails);
  // What a later process finds on the disk. Nothing may be in flight.
  std::vector<StoredBlock> stored() const;
  void restore(const KvSimulator& before);

  KvLayout layout;
  KvManager kv;
  std::vector<BlockCopy> copies;     // of the plan being made
  std::vector<DiskRead> disk_reads;  // of the plan being made
  int64_t num_checked = 0;           // slots compared

 private:
  uint64_t& slot(KvTier tier, BlockId block, int32_t index);
  void copy(const BlockCopy& copy);
  void compute(const SimSequence& sequence);

  // A slot of the disk; one never written has no name.
  struct Slot {
    CachedBlockName name;
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

}  // namespace quire::testing
