#include "exec/batch_builder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

BatchBuilder::BatchBuilder(Device& device, const KvLayout& layout, std::vector<ModelStepTable> tables)
    : block_size_(layout.block_size), arrays_(device) {
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
  for (ModelStepTable& table : tables) add_table(std::move(table));
}

// Layers of one group share a table.
void BatchBuilder::add_table(ModelStepTable table) {
  const auto layer = static_cast<size_t>(table.layer);
  const auto group = static_cast<size_t>(layer < group_of_layer_.size() ? group_of_layer_[layer] : 0);
  const auto known = std::ranges::find_if(tables_, [&](const GroupTable& other) {
    return other.group == group && other.table.name == table.table.name;
  });
  table_index_.push_back(static_cast<size_t>(known - tables_.begin()));
  if (known == tables_.end()) tables_.push_back({.table = std::move(table.table), .group = group});
}

void BatchBuilder::fill_tables() {
  for (GroupTable& own : tables_) {
    HostBatch host = batch_.host;
    if (!groups_.empty()) host.slot_mapping = groups_[own.group].slot_mapping.host;
    if (own.table.fill) {
      own.table.fill(host, own.narrow.host);
    } else {
      own.table.fill_wide(host, own.wide.host);
    }
  }
  table_views_.clear();
  for (const size_t index : table_index_)
    table_views_.push_back({tables_[index].narrow.device, tables_[index].wide.device});
  batch_.tables = table_views_;
}

int32_t BatchBuilder::num_blocks_of(const ScheduledSequence& scheduled) const {
  return (scheduled.num_computed_tokens + scheduled.num_new_tokens + block_size_ - 1) / block_size_;
}

template <class Arrays>
void BatchBuilder::take_arrays(Arrays& arrays, size_t seqs, size_t tokens, size_t blocks) {
  for (StepArray<int32_t>* array : {&token_ids_, &positions_, &token_types_, &row_indices_})
    *array = arrays.template take<int32_t>(tokens);
  cu_seqlens_q_ = arrays.template take<int32_t>(seqs + 1);
  seq_lens_ = arrays.template take<int32_t>(seqs);
  first_positions_ = arrays.template take<int32_t>(seqs);
  state_blocks_ = arrays.template take<int32_t>(seqs * state_groups_.size());
  if (groups_.empty()) no_slots_ = arrays.template take<int64_t>(tokens);
  for (AttentionGroup& group : groups_) {
    group.slot_mapping = arrays.template take<int64_t>(tokens);
    group.block_table_indptr = arrays.template take<int32_t>(seqs + 1);
    group.block_table = arrays.template take<int32_t>(blocks);
    group.shared_order = arrays.template take<int32_t>(seqs);
    group.shared_blocks = arrays.template take<int32_t>(seqs);
  }
  for (GroupTable& own : tables_) {
    const size_t count = own.table.count(tokens, seqs);
    if (own.table.fill) {
      own.narrow = arrays.template take<int32_t>(count);
    } else {
      own.wide = arrays.template take<int64_t>(count);
    }
  }
}

// Takes memory for the arrays of the step.
void BatchBuilder::lay_out(const StepPlan& plan) {
  const size_t seqs = plan.scheduled.size();
  size_t tokens = 0;
  size_t blocks = 0;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    tokens += static_cast<size_t>(scheduled.num_new_tokens);
    blocks += static_cast<size_t>(num_blocks_of(scheduled));
  }
  StepArraysSize size;
  take_arrays(size, seqs, tokens, blocks);
  arrays_.start(size.bytes);
  take_arrays(arrays_, seqs, tokens, blocks);
  for (AttentionGroup& group : groups_) {
    group.num_blocks = 0;
    group.block_table_indptr.host[0] = 0;
  }
  cu_seqlens_q_.host[0] = 0;
  num_rows_ = 0;
  logit_rows_.clear();
  pooled_parts_.clear();
  group_batches_.clear();
}

void BatchBuilder::build(const StepPlan& plan, SequenceStore& sequences, DeviceStream& stream,
                         std::span<const KvCacheView> kv, std::span<const LayerState> states) {
  lay_out(plan);
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    add_sequence(plan.scheduled[i], static_cast<int32_t>(i), sequences.at(plan.scheduled[i].seq));
  }
  row_indices_ = row_indices_.first(logit_rows_.size());
  for (size_t i = 0; i < logit_rows_.size(); ++i) row_indices_.host[i] = logit_rows_[i].row;
  batch_.token_ids = token_ids_.device;
  batch_.positions = positions_.device;
  batch_.token_types = token_types_.device;
  const bool attends = !groups_.empty();
  batch_.host = {.token_ids = token_ids_.host,
                 .positions = positions_.host,
                 .slot_mapping = attends ? groups_.front().slot_mapping.host : no_slots_.host,
                 .seq_lens = seq_lens_.host};
  for (AttentionGroup& group : groups_) group_batches_.push_back(view_of(group));
  if (groups_.empty()) {
    std::ranges::fill(no_slots_.host, -1);
    batch_.slot_mapping = no_slots_.device;
    batch_.attention = AttentionBatch{.num_seqs = static_cast<int32_t>(plan.scheduled.size()),
                                      .cu_seqlens_q = cu_seqlens_q_.device,
                                      .seq_lens = seq_lens_.device};
  } else {
    batch_.slot_mapping = group_batches_.front().slot_mapping;
    batch_.attention = group_batches_.front().attention;
  }
  batch_.kv = kv;
  kv_groups_ = {};
  if (groups_.size() > 1) kv_groups_ = {group_batches_, group_of_layer_};
  batch_.states = StateBatch{.num_seqs = batch_.attention.num_seqs,
                             .cu_rows = cu_seqlens_q_.device,
                             .positions = first_positions_.device,
                             .blocks = state_blocks_.device,
                             .blocks_each = static_cast<int32_t>(state_groups_.size())};
  batch_.layer_states = states;
  fill_tables();
  arrays_.upload(stream);
}

void BatchBuilder::add_sequence(const ScheduledSequence& scheduled, int32_t index,
                                const SequenceRecord& record) {
  const int32_t begin = scheduled.num_computed_tokens;
  const int32_t end = begin + scheduled.num_new_tokens;
  if (static_cast<size_t>(end) > record.tokens.size()) {
    throw Error(cat("internal error: the plan schedules sequence ", scheduled.seq, " up to token ", end,
                    ", it has ", record.tokens.size(), " tokens"));
  }
  const auto at = static_cast<size_t>(index);
  for (AttentionGroup& group : groups_) add_blocks(group, scheduled, at, record);
  const bool wants_prompt_logprobs = record.sampling.params().wants_prompt_logprobs();
  if (record.pooling) {
    pooled_parts_.push_back({index, static_cast<int32_t>(num_rows_), begin, end,
                             static_cast<size_t>(end) == record.tokens.size()});
  }
  const int32_t second_text = record.pooling ? record.pooling->second_text : 0;
  for (int32_t position = begin; position < end; ++position, ++num_rows_) {
    const bool sample = scheduled.sample && position + 1 == end;
    const bool prompt = wants_prompt_logprobs && position + 1 < record.num_prompt_tokens;
    if (sample || prompt)
      logit_rows_.push_back({static_cast<int32_t>(num_rows_), index, position, sample, prompt});
    token_ids_.host[num_rows_] = record.tokens[static_cast<size_t>(position)];
    positions_.host[num_rows_] = position;
    token_types_.host[num_rows_] = second_text > 0 && position >= second_text ? 1 : 0;
  }
  cu_seqlens_q_.host[at + 1] = static_cast<int32_t>(num_rows_);
  seq_lens_.host[at] = end;
  first_positions_.host[at] = begin;
  add_states(scheduled.seq, at, record);
}

void BatchBuilder::add_blocks(AttentionGroup& group, const ScheduledSequence& scheduled, size_t index,
                              const SequenceRecord& record) const {
  const std::vector<BlockId>& table = record.block_tables[group.group];
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_new_tokens;
  const auto num_blocks = static_cast<size_t>(num_blocks_of(scheduled));
  if (num_blocks > table.size()) {
    throw Error(cat("internal error: the plan schedules sequence ", scheduled.seq, " up to token ", end,
                    ", its block table in KV group ", group.group, " has ", table.size(), " blocks of ",
                    block_size_, " tokens"));
  }
  size_t row = num_rows_;
  for (int32_t position = scheduled.num_computed_tokens; position < end; ++position) {
    const int64_t block = table[static_cast<size_t>(position / block_size_)];
    group.slot_mapping.host[row++] = block * block_size_ + position % block_size_;
  }
  std::copy_n(table.begin(), num_blocks,
              group.block_table.host.begin() + static_cast<ptrdiff_t>(group.num_blocks));
  group.num_blocks += num_blocks;
  group.block_table_indptr.host[index + 1] = static_cast<int32_t>(group.num_blocks);
}

void BatchBuilder::add_states(SeqId seq, size_t index, const SequenceRecord& record) {
  size_t next = index * state_groups_.size();
  for (const size_t group : state_groups_) {
    const std::vector<BlockId>& state = record.block_tables[group];
    if (state.size() != 1) {
      throw Error(cat("internal error: sequence ", seq, " has ", state.size(), " blocks in the state group ",
                      group, ", it must have 1"));
    }
    state_blocks_.host[next++] = state.front();
  }
}

KvGroupBatch BatchBuilder::view_of(AttentionGroup& group) const {
  const auto num_seqs = static_cast<int32_t>(seq_lens_.host.size());
  group.shared.find({.num_seqs = num_seqs,
                     .cu_seqlens_q = cu_seqlens_q_.host,
                     .seq_lens = seq_lens_.host,
                     .block_table_indptr = group.block_table_indptr.host,
                     .block_table = group.block_table.host});
  const size_t num_shared = group.shared.order().size();
  std::ranges::copy(group.shared.order(), group.shared_order.host.begin());
  std::ranges::copy(group.shared.blocks(), group.shared_blocks.host.begin());
  return {.slot_mapping = group.slot_mapping.device,
          .attention = {.num_seqs = num_seqs,
                        .cu_seqlens_q = cu_seqlens_q_.device,
                        .seq_lens = seq_lens_.device,
                        .block_table_indptr = group.block_table_indptr.device,
                        .block_table = group.block_table.device,
                        .shared_order = group.shared_order.device.first(num_shared),
                        .shared_blocks = group.shared_blocks.device.first(num_shared)}};
}

}  // namespace quire
