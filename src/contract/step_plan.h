// The scheduler's plan for one step of an executor, as plain, serializable data (vLLM: SchedulerOutput).
// Sequences are described in full once (SequenceInit) and then only by differences, so the size of a plan
// does not depend on the lengths of the sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "contract/adapter.h"
#include "contract/ids.h"
#include "contract/output_constraint.h"
#include "contract/pooling.h"
#include "contract/sampling_params.h"
#include "contract/sampling_words.h"

namespace quire {

// A sequence that is new to the executor. The executor keeps its tokens, sampling state and block tables
// until the sequence appears in StepPlan::finished; preemption only empties the block tables.
struct SequenceInit {
  SeqId seq = -1;
  std::vector<TokenId> prompt_token_ids;
  SharedSamplingParams sampling;
  std::vector<TokenId> end_token_ids;  // the model's end tokens, masked while min_tokens is not reached
  uint64_t seed = 0;  // random numbers depend on it, on the sample's index and on the position
  AdapterRef adapter;
  SharedConstraint constraint;            // constraint on the output, with a state for each sequence
  SharedSamplingWords words;              // bad words and sequence breakers of `sampling`
  std::optional<PoolingRequest> pooling;  // pool once the whole prompt is computed, instead of sampling
};

// The part of a sequence that this step computes: tokens [num_computed_tokens, num_computed_tokens +
// num_new_tokens). The executor has the token ids (the prompt, then the tokens it sampled).
struct ScheduledSequence {
  SeqId seq = -1;
  int32_t num_computed_tokens = 0;
  int32_t num_new_tokens = 0;
  bool sample = false;  // the chunk ends at the last token of the sequence: sample the next one. The
                        // sequences of a beam search all sample in the same step, or none does.
};

// Writes block_ids[begin .. begin+count) of the plan into a sequence's block table of one group, from
// `first_index` on, and truncates the table after them. first_index = 0 starts a new or resumed table;
// first_index = the table's size appends.
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
  kDisk,    // slots in the cache directory: at most KvLayout::num_disk_blocks
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

// Identity of a cached block, stored with it in its disk slot so that a later process can look it up.
struct CachedBlockHash {
  uint64_t hash_low = 0;
  uint64_t hash_high = 0;
  uint64_t parent_low = 0;
  uint64_t parent_high = 0;
  int32_t group = 0;
  std::vector<TokenId> token_ids;  // [block_size]
};

// Copies the block's bytes before the step's block copies, and writes them to the slot asynchronously. A
// later StepResult has the outcome. An executor whose write queue is full may report a failure at once.
struct DiskWrite {
  BlockId src = -1;
  KvTier src_tier = KvTier::kDevice;  // kDevice or kHost
  int32_t slot = -1;
  CachedBlockHash key;
};

// Reads the slot into the host block asynchronously. The host block is not used for anything else until a
// StepResult has the outcome.
struct DiskRead {
  int32_t slot = -1;
  BlockId host_block = -1;
};

struct StepPlan {
  int64_t step = 0;
  std::vector<SeqId> finished;      // removed from the executor before anything else
  std::vector<SequenceInit> inits;  // added next
  std::vector<BlockTableUpdate> block_table_updates;
  std::vector<BlockId> block_ids;      // ranges of it belong to block_table_updates
  std::vector<DiskWrite> disk_writes;  // performed before `copies`
  std::vector<BlockCopy> copies;
  std::vector<DiskRead> disk_reads;  // performed after `copies`
  std::vector<ScheduledSequence> scheduled;
  int32_t num_tokens = 0;  // sum of num_new_tokens

  bool empty() const {
    return scheduled.empty() && finished.empty() && inits.empty() && copies.empty() && disk_writes.empty() &&
           disk_reads.empty();
  }
};

}  // namespace quire
