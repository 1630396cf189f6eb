#include "exec/batch_builder.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire {

BatchBuilder::BatchBuilder(const KvLayout& layout)
    : block_size_(layout.block_size), attention_(layout.groups.front().kind != KvGroupKind::kState) {
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    if (layout.groups[g].kind == KvGroupKind::kState) state_groups_.push_back(static_cast<int32_t>(g));
  }
}

void BatchBuilder::build(const StepPlan& plan, SequenceStore& sequences, std::span<const KvCacheView> kv,
                         std::span<const LayerState> states) {
  token_ids_.clear();
  positions_.clear();
  token_types_.clear();
  slot_mapping_.clear();
  cu_seqlens_q_.assign(1, 0);
  seq_lens_.clear();
  block_table_indptr_.assign(1, 0);
  block_table_.clear();
  first_positions_.clear();
  state_blocks_.clear();
  logit_rows_.clear();
  pooled_parts_.clear();
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    add_sequence(plan.scheduled[i], static_cast<int32_t>(i), sequences.at(plan.scheduled[i].seq));
  }
  batch_.token_ids = token_ids_;
  batch_.positions = positions_;
  batch_.token_types = token_types_;
  batch_.slot_mapping = slot_mapping_;
  batch_.attention = AttentionBatch{.num_seqs = static_cast<int32_t>(seq_lens_.size()),
                                    .cu_seqlens_q = cu_seqlens_q_,
                                    .seq_lens = seq_lens_,
                                    .block_table_indptr = block_table_indptr_,
                                    .block_table = block_table_};
  shared_.find(batch_.attention);
  batch_.attention.shared_order = shared_.order();
  batch_.attention.shared_blocks = shared_.blocks();
  batch_.kv = kv;
  batch_.states = StateBatch{.num_seqs = batch_.attention.num_seqs,
                             .cu_rows = cu_seqlens_q_,
                             .positions = first_positions_,
                             .blocks = state_blocks_,
                             .blocks_each = static_cast<int32_t>(state_groups_.size())};
  batch_.layer_states = states;
}

void BatchBuilder::add_sequence(const ScheduledSequence& scheduled, int32_t index,
                                const SequenceRecord& record) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_new_tokens;
  const auto& table = record.block_tables[0];
  if (static_cast<size_t>(end) > record.tokens.size() ||
      (attention_ && static_cast<size_t>(end) > table.size() * static_cast<size_t>(block_size_))) {
    throw Error(cat("internal error: sequence ", scheduled.seq, " is planned up to token ", end, " of ",
                    record.tokens.size(), " in ", table.size(), " blocks"));
  }
  const bool wants_prompt_logprobs = record.sampling.params().prompt_logprobs.has_value();
  if (record.pooling) {
    pooled_parts_.push_back({index, static_cast<int32_t>(token_ids_.size()), begin, end,
                             static_cast<size_t>(end) == record.tokens.size()});
  }
  const int32_t second_text = record.pooling ? record.pooling->second_text : 0;
  for (int32_t position = begin; position < end; ++position) {
    const auto row = static_cast<int32_t>(token_ids_.size());
    const bool sample = scheduled.sample && position + 1 == end;
    const bool prompt = wants_prompt_logprobs && position + 1 < record.num_prompt_tokens;
    if (sample || prompt) logit_rows_.push_back({row, index, position, sample, prompt});
    token_ids_.push_back(record.tokens[static_cast<size_t>(position)]);
    positions_.push_back(position);
    token_types_.push_back(second_text > 0 && position >= second_text ? 1 : 0);
    slot_mapping_.push_back(attention_
                                ? int64_t{table[static_cast<size_t>(position / block_size_)]} * block_size_ +
                                      position % block_size_
                                : -1);
  }
  cu_seqlens_q_.push_back(static_cast<int32_t>(token_ids_.size()));
  seq_lens_.push_back(end);
  if (attention_) {
    const int32_t num_blocks = (end + block_size_ - 1) / block_size_;
    block_table_.insert(block_table_.end(), table.begin(), table.begin() + num_blocks);
  }
  first_positions_.push_back(begin);
  for (const int32_t group : state_groups_) {
    const auto& state = record.block_tables[static_cast<size_t>(group)];
    if (state.size() != 1) {
      throw Error(cat("internal error: sequence ", scheduled.seq, " is planned with ", state.size(),
                      " blocks of states in group ", group));
    }
    state_blocks_.push_back(state.front());
  }
  block_table_indptr_.push_back(static_cast<int32_t>(block_table_.size()));
}

}  // namespace quire
