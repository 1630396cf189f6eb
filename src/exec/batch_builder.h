// Lays the scheduled parts of many sequences one behind the other, as the kernels read them. Its vectors keep
// their capacity, so a steady state allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "exec/sequence_store.h"
#include "nn/forward_batch.h"
#include "ops/shared_prefix.h"

namespace quire {

// A row of the step whose logits somebody wants.
struct LogitRow {
  int32_t row = 0;        // of the hidden states
  int32_t scheduled = 0;  // index into StepPlan::scheduled
  int32_t position = 0;   // absolute position of the row; the logits are about position + 1
  bool sample = false;    // draw the next token
  bool prompt = false;    // the next token is the prompt's: report its log-probability
};

// The step's rows of a sequence that asks for a vector.
struct PooledPart {
  int32_t scheduled = 0;  // index into StepPlan::scheduled
  int32_t first_row = 0;  // of the hidden states, that of position `begin`
  int32_t begin = 0;      // positions
  int32_t end = 0;
  bool last = false;  // `end` is the text's
};

class BatchBuilder {
 public:
  explicit BatchBuilder(const KvLayout& layout);

  // kv, states: of each layer, as KvStore has them.
  void build(const StepPlan& plan, SequenceStore& sequences, std::span<const KvCacheView> kv,
             std::span<const LayerState> states = {});

  const ForwardBatch& batch() const { return batch_; }                  // valid until the next build()
  std::span<const LogitRow> logit_rows() const { return logit_rows_; }  // ascending rows
  std::span<const PooledPart> pooled_parts() const { return pooled_parts_; }

 private:
  void add_sequence(const ScheduledSequence& scheduled, int32_t index, const SequenceRecord& record);

  int32_t block_size_;
  bool attention_;                           // the first group is one of keys and values
  std::vector<int32_t> state_groups_;        // the groups with states
  std::vector<int32_t> token_ids_;           // [num_tokens]
  std::vector<int32_t> positions_;           // [num_tokens]
  std::vector<int32_t> token_types_;         // [num_tokens]
  std::vector<int64_t> slot_mapping_;        // [num_tokens]
  std::vector<int32_t> cu_seqlens_q_;        // [num_seqs + 1]
  std::vector<int32_t> seq_lens_;            // [num_seqs]
  std::vector<int32_t> block_table_indptr_;  // [num_seqs + 1]
  std::vector<int32_t> block_table_;         // CSR
  std::vector<int32_t> first_positions_;     // [num_seqs]
  std::vector<int32_t> state_blocks_;        // [num_seqs, state groups]
  SharedPrefixes shared_;
  std::vector<LogitRow> logit_rows_;
  std::vector<PooledPart> pooled_parts_;
  ForwardBatch batch_;
};

}  // namespace quire
