#include "exec/batch_builder.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire {

BatchBuilder::BatchBuilder(const KvLayout& layout) : block_size_(layout.block_size) {
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    const KvGroupSpec& group = layout.groups[g];
    if (!is_attention_group(group)) {
      state_groups_.push_back(g);
      continue;
    }
    for (const int32_t layer : group.layers) {
      const auto index = static_cast<size_t>(layer);
      if (group_of_layer_.size() <= index) group_of_layer_.resize(index + 1, 0);
      group_of_layer_[index] = static_cast<int32_t>(groups_.size());
    }
    groups_.emplace_back().group = g;
  }
}

void BatchBuilder::clear() {
  token_ids_.clear();
  positions_.clear();
  token_types_.clear();
  cu_seqlens_q_.assign(1, 0);
  seq_lens_.clear();
  first_positions_.clear();
  state_blocks_.clear();
  logit_rows_.clear();
  pooled_parts_.clear();
  group_batches_.clear();
  for (AttentionGroup& group : groups_) {
    group.slot_mapping.clear();
    group.block_table_indptr.assign(1, 0);
    group.block_table.clear();
  }
}

void BatchBuilder::build(const StepPlan& plan, SequenceStore& sequences, std::span<const KvCacheView> kv,
                         std::span<const LayerState> states) {
  clear();
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    add_sequence(plan.scheduled[i], static_cast<int32_t>(i), sequences.at(plan.scheduled[i].seq));
  }
  batch_.token_ids = token_ids_;
  batch_.positions = positions_;
  batch_.token_types = token_types_;
  for (AttentionGroup& group : groups_) group_batches_.push_back(view_of(group));
  if (groups_.empty()) {
    no_slots_.assign(token_ids_.size(), -1);
    batch_.slot_mapping = no_slots_;
    batch_.attention = AttentionBatch{.num_seqs = static_cast<int32_t>(seq_lens_.size()),
                                      .cu_seqlens_q = cu_seqlens_q_,
                                      .seq_lens = seq_lens_};
  } else {
    batch_.slot_mapping = group_batches_.front().slot_mapping;
    batch_.attention = group_batches_.front().attention;
  }
  batch_.kv = kv;
  kv_groups_ = {};
  if (groups_.size() > 1) kv_groups_ = {group_batches_, group_of_layer_};
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
  if (static_cast<size_t>(end) > record.tokens.size()) {
    throw Error(cat("internal error: the plan schedules sequence ", scheduled.seq, " up to token ", end,
                    ", it has ", record.tokens.size(), " tokens"));
  }
  const bool wants_prompt_logprobs = record.sampling.params().wants_prompt_logprobs();
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
  }
  cu_seqlens_q_.push_back(static_cast<int32_t>(token_ids_.size()));
  seq_lens_.push_back(end);
  first_positions_.push_back(begin);
  for (AttentionGroup& group : groups_) add_blocks(group, scheduled, record);
  add_states(scheduled.seq, record);
}

void BatchBuilder::add_blocks(AttentionGroup& group, const ScheduledSequence& scheduled,
                              const SequenceRecord& record) {
  const std::vector<BlockId>& table = record.block_tables[group.group];
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_new_tokens;
  const int32_t num_blocks = (end + block_size_ - 1) / block_size_;
  if (static_cast<size_t>(num_blocks) > table.size()) {
    throw Error(cat("internal error: the plan schedules sequence ", scheduled.seq, " up to token ", end,
                    ", its block table in KV group ", group.group, " has ", table.size(), " blocks of ",
                    block_size_, " tokens"));
  }
  for (int32_t position = scheduled.num_computed_tokens; position < end; ++position) {
    const int64_t block = table[static_cast<size_t>(position / block_size_)];
    group.slot_mapping.push_back(block * block_size_ + position % block_size_);
  }
  group.block_table.insert(group.block_table.end(), table.begin(), table.begin() + num_blocks);
  group.block_table_indptr.push_back(static_cast<int32_t>(group.block_table.size()));
}

void BatchBuilder::add_states(SeqId seq, const SequenceRecord& record) {
  for (const size_t group : state_groups_) {
    const std::vector<BlockId>& state = record.block_tables[group];
    if (state.size() != 1) {
      throw Error(cat("internal error: sequence ", seq, " has ", state.size(), " blocks in the state group ",
                      group, ", it must have 1"));
    }
    state_blocks_.push_back(state.front());
  }
}

KvGroupBatch BatchBuilder::view_of(AttentionGroup& group) const {
  KvGroupBatch out = {.slot_mapping = group.slot_mapping,
                      .attention = {.num_seqs = static_cast<int32_t>(seq_lens_.size()),
                                    .cu_seqlens_q = cu_seqlens_q_,
                                    .seq_lens = seq_lens_,
                                    .block_table_indptr = group.block_table_indptr,
                                    .block_table = group.block_table}};
  group.shared.find(out.attention);
  out.attention.shared_order = group.shared.order();
  out.attention.shared_blocks = group.shared.blocks();
  return out;
}

}  // namespace quire
