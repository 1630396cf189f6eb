#include "exec/sequence_store.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

std::optional<ConstrainedOutput> constrained_output(const SequenceInit& init, const SamplingState& sampling) {
  if (init.constraint == nullptr) return std::nullopt;
  return ConstrainedOutput(init, sampling.shared_rules());
}

}  // namespace

SequenceStore::SequenceStore(int32_t num_groups, int32_t vocab_size)
    : num_groups_(num_groups), vocab_size_(vocab_size) {}

void SequenceStore::apply(const StepPlan& plan) {
  for (const SeqId seq : plan.finished) records_.erase(seq);
  for (const auto& init : plan.inits) {
    SamplingState sampling = sampling_state(init);
    std::optional<ConstrainedOutput> constrained = constrained_output(init, sampling);
    records_[init.seq] = std::make_unique<SequenceRecord>(
        SequenceRecord{.tokens = init.prompt_token_ids,
                       .num_prompt_tokens = static_cast<int32_t>(init.prompt_token_ids.size()),
                       .adapter = init.adapter,
                       .block_tables = std::vector<std::vector<BlockId>>(static_cast<size_t>(num_groups_)),
                       .sampling = std::move(sampling),
                       .constrained = std::move(constrained),
                       .pooling = init.pooling,
                       .pooled = {},
                       .beams = nullptr});
  }
  for (const auto& update : plan.block_table_updates) {
    auto& table = at(update.seq).block_tables[static_cast<size_t>(update.group)];
    table.resize(static_cast<size_t>(update.first_index));
    const auto first = plan.block_ids.begin() + update.begin;
    table.insert(table.end(), first, first + update.count);
  }
}

// The prompts of one request share its rules.
SamplingState SequenceStore::sampling_state(const SequenceInit& init) {
  if (const auto rules = last_rules_.lock(); rules != nullptr && rules->params.same_as(init.sampling) &&
                                             rules->words == init.words &&
                                             last_end_token_ids_ == init.end_token_ids) {
    return {rules, init.prompt_token_ids, init.seed, 0, vocab_size_};
  }
  SamplingState state(init.sampling, init.prompt_token_ids, init.end_token_ids, init.seed, 0, vocab_size_,
                      init.words);
  last_rules_ = state.shared_rules();
  last_end_token_ids_ = init.end_token_ids;
  return state;
}

void SequenceStore::fork(SeqId parent, SeqId child, int32_t sample_index) {
  const SequenceRecord& from = at(parent);
  std::unique_ptr<SequenceRecord>& to = records_[child];
  if (to == nullptr) {
    to = std::make_unique<SequenceRecord>(SequenceRecord{from});
  } else {
    *to = from;  // reuses its memory
  }
  to->sampling = from.sampling.fork(sample_index);
}

SequenceRecord& SequenceStore::at(SeqId seq) {
  const auto it = records_.find(seq);
  if (it == records_.end()) throw Error(cat("internal error: unknown sequence ", seq, " in the plan"));
  return *it->second;
}

}  // namespace quire
