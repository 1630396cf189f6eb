// Concatenates the scheduled tokens of many sequences into the flat arrays that ops read. Owned by an
// executor and used by its thread. All arrays keep their memory, so a steady state allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "device/device.h"
#include "exec/sequence_store.h"
#include "exec/step_arrays.h"
#include "nn/forward_batch.h"
#include "nn/step_tables.h"
#include "ops/shared_prefix.h"

namespace quire {

// A row of the step whose logits are needed.
struct LogitRow {
  int32_t row = 0;        // row of the hidden states
  int32_t scheduled = 0;  // index into StepPlan::scheduled
  int32_t position = 0;   // absolute position of the row; the logits predict position + 1
  bool sample = false;    // sample the next token
  bool prompt = false;    // the next token belongs to the prompt: report its log-probability
};

// The rows of one pooling request in this step.
struct PooledPart {
  int32_t scheduled = 0;  // index into StepPlan::scheduled
  int32_t first_row = 0;  // row of the hidden states for position `begin`
  int32_t begin = 0;      // positions [begin, end)
  int32_t end = 0;
  bool last = false;  // `end` is the end of the prompt
};

class BatchBuilder {
 public:
  // The device outlives the builder. tables: Model::step_tables().
  BatchBuilder(Device& device, const KvLayout& layout, std::vector<ModelStepTable> tables = {});

  // kv, states: KvStore::layers() and KvStore::states(). Submits one copy of all arrays. Throws Error if the
  // plan and the sequences disagree.
  void build(const StepPlan& plan, SequenceStore& sequences, DeviceStream& stream,
             std::span<const KvCacheView> kv, std::span<const LayerState> states = {});

  // Valid until the next build().
  const ForwardBatch& batch() const { return batch_; }
  const KvGroupBatches& kv_groups() const { return kv_groups_; }
  std::span<const LogitRow> logit_rows() const { return logit_rows_; }          // ascending rows
  const StepArray<int32_t>& logit_row_indices() const { return row_indices_; }  // LogitRow::row
  std::span<const PooledPart> pooled_parts() const { return pooled_parts_; }

 private:
  // The arrays of one group of attention layers.
  struct AttentionGroup {
    size_t group = 0;                       // index into KvLayout::groups
    size_t num_blocks = 0;                  // in block_table, so far
    StepArray<int64_t> slot_mapping;        // [num_tokens]
    StepArray<int32_t> block_table_indptr;  // [num_seqs + 1]
    StepArray<int32_t> block_table;         // CSR
    StepArray<int32_t> shared_order;        // [num_seqs]
    StepArray<int32_t> shared_blocks;       // [num_seqs]
    SharedPrefixes shared;
  };

  // A step table of the layers of one group.
  struct GroupTable {
    StepTable table;
    size_t group = 0;  // index into groups_; not read without attention
    StepArray<int32_t> narrow;
    StepArray<int64_t> wide;
  };

  void add_table(ModelStepTable table);
  void fill_tables();
  int32_t num_blocks_of(const ScheduledSequence& scheduled) const;
  void lay_out(const StepPlan& plan);
  // Takes the arrays of a step from `arrays`, StepArrays or StepArraysSize. blocks: of all sequences, in one
  // group.
  template <class Arrays>
  void take_arrays(Arrays& arrays, size_t seqs, size_t tokens, size_t blocks);
  void add_sequence(const ScheduledSequence& scheduled, int32_t index, const SequenceRecord& record);
  void add_blocks(AttentionGroup& group, const ScheduledSequence& scheduled, size_t index,
                  const SequenceRecord& record) const;
  void add_states(SeqId seq, size_t index, const SequenceRecord& record);
  KvGroupBatch view_of(AttentionGroup& group) const;

  int32_t block_size_;
  std::vector<AttentionGroup> groups_;  // empty for models without attention
  std::vector<KvGroupBatch> group_batches_;
  std::vector<GroupTable> tables_;
  std::vector<size_t> table_index_;         // [Model::step_tables()] index into tables_
  std::vector<StepTableView> table_views_;  // [Model::step_tables()]
  std::vector<int32_t> group_of_layer_;     // index into groups_; only valid for layers in a group
  std::vector<size_t> state_groups_;        // indices into KvLayout::groups
  StepArrays arrays_;                       // the memory of all StepArrays
  size_t num_rows_ = 0;                     // rows that have been added
  StepArray<int32_t> token_ids_;            // [num_tokens]
  StepArray<int32_t> positions_;            // [num_tokens]
  StepArray<int32_t> token_types_;          // [num_tokens]
  StepArray<int64_t> no_slots_;             // [num_tokens] of -1, for models without attention
  StepArray<int32_t> cu_seqlens_q_;         // [num_seqs + 1]
  StepArray<int32_t> seq_lens_;             // [num_seqs]
  StepArray<int32_t> first_positions_;      // [num_seqs]
  StepArray<int32_t> state_blocks_;         // [num_seqs, state groups]
  StepArray<int32_t> row_indices_;          // [logit_rows_.size()]
  std::vector<LogitRow> logit_rows_;
  std::vector<PooledPart> pooled_parts_;
  ForwardBatch batch_;
  KvGroupBatches kv_groups_;
};

}  // namespace quire
