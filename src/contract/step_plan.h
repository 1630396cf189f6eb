// One step of the engine as plain, serialisable data: what the scheduler asks of an executor. Sequences are
// described once (SequenceInit) and then only by differences, so that a plan stays small however long the
// sequences are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "contract/ids.h"
#include "contract/pooling.h"
#include "contract/sampling_params.h"

namespace quire {

// A sequence that the executor has not seen yet. The executor keeps its tokens, sampling state and block
// tables until the sequence stands in StepPlan::finished; preemption only empties the block tables.
struct SequenceInit {
  SeqId seq = -1;
  std::vector<TokenId> prompt_token_ids;
  SamplingParams sampling;
  std::vector<TokenId> end_token_ids;  // the model's end tokens, masked while min_tokens is not reached
  uint64_t seed = 0;    // what the samples are drawn from, with the sample's index and the position
  int32_t adapter = 0;  // 0: none
  std::optional<PoolingRequest> pooling;  // gives a vector once the whole prompt is computed, and no token
};

// The part of a sequence that this step computes: tokens [num_computed_tokens, num_computed_tokens +
// num_new_tokens). The tokens themselves are known to the executor (prompt, then what it sampled).
struct ScheduledSequence {
  SeqId seq = -1;
  int32_t num_computed_tokens = 0;
  int32_t num_new_tokens = 0;
  bool sample = false;  // the chunk ends at the last known token: draw what follows. All sequences of a beam
                        // search sample in the same step or none does.
};

// Writes block_ids[begin .. begin+count) of the plan into a sequence's block table of one group, from
// `first_index` on, and cuts the table behind them. first_index 0 is a new or resumed table, first_index =
// size appends.
struct BlockTableUpdate {
  SeqId seq = -1;
  int32_t group = 0;
  int32_t first_index = 0;
  int32_t begin = 0;
  int32_t count = 0;
};

// Where a block of keys and values is.
enum class KvTier : uint8_t {
  kDevice,  // the pool that attention reads
  kHost,    // swap space: KvLayout::num_host_blocks blocks
  kDisk,    // slots of the cache directory: KvLayout::num_disk_blocks of them
};

// A copy of one block between pools, performed before the forward pass, in the order given. For the disk see
// DiskWrite and DiskRead.
struct BlockCopy {
  BlockId src = -1;
  BlockId dst = -1;
  KvTier src_tier = KvTier::kDevice;  // kDevice or kHost
  KvTier dst_tier = KvTier::kDevice;  // kDevice or kHost

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

// What a disk slot holds, stored beside the block so that a later process finds it again.
struct CachedBlockName {
  uint64_t hash_low = 0;
  uint64_t hash_high = 0;
  uint64_t parent_low = 0;
  uint64_t parent_high = 0;
  int32_t group = 0;
  std::vector<TokenId> token_ids;  // [block_size]
};

// Takes the block's bytes as they are before the step's copies, and writes them to the slot later. The
// outcome comes in a StepResult; an executor that has too much to write already may refuse.
struct DiskWrite {
  BlockId src = -1;
  KvTier src_tier = KvTier::kDevice;  // kDevice or kHost
  int32_t slot = -1;
  CachedBlockName name;
};

// Reads the slot into the host block, later. Nothing else touches the host block until the outcome comes in a
// StepResult.
struct DiskRead {
  int32_t slot = -1;
  BlockId host_block = -1;
};

struct StepPlan {
  int64_t step = 0;
  std::vector<SeqId> finished;      // forget these first
  std::vector<SequenceInit> inits;  // then learn these
  std::vector<BlockTableUpdate> block_table_updates;
  std::vector<BlockId> block_ids;      // what the updates point into
  std::vector<DiskWrite> disk_writes;  // before the copies
  std::vector<BlockCopy> copies;
  std::vector<DiskRead> disk_reads;  // behind the copies
  std::vector<ScheduledSequence> scheduled;
  int32_t num_tokens = 0;  // sum of num_new_tokens

  bool empty() const {
    return scheduled.empty() && finished.empty() && inits.empty() && copies.empty() && disk_writes.empty() &&
           disk_reads.empty();
  }
};

}  // namespace quire
