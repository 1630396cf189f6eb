// An executor's record of each sequence between steps: tokens, block tables, sampling state. Owned by the
// executor and used by its thread.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/step_plan.h"
#include "exec/constrained_output.h"
#include "sample/beam_search.h"
#include "sample/sampling_state.h"

namespace quire {

// The beam search that the sequences of a request share; a beam's slot is its sample index.
struct BeamGroup {
  SeqId first = -1;  // the sequence of slot 0
  BeamSearch search;
  int64_t step = -1;    // StepPlan::step of the counted rows
  size_t num_rows = 0;  // active beams whose rows of that step are complete
};

struct SequenceRecord {
  std::vector<TokenId> tokens;  // prompt, then generated tokens
  int32_t num_prompt_tokens = 0;
  AdapterRef adapter;
  std::vector<std::vector<BlockId>> block_tables;  // [groups][blocks]
  SamplingState sampling;
  std::optional<ConstrainedOutput> constrained;
  std::optional<PoolingRequest> pooling;
  std::vector<float> pooled;         // sum over the computed tokens so far (TextPooler)
  std::shared_ptr<BeamGroup> beams;  // shared by the request's beams; null without beam search
};

class SequenceStore {
 public:
  SequenceStore(int32_t num_groups, int32_t vocab_size);

  // Applies the plan's `finished`, `inits` and block table updates, in this order.
  void apply(const StepPlan& plan);
  // The child continues from the parent's tokens and blocks as sample `sample_index`; an existing child is
  // overwritten.
  void fork(SeqId parent, SeqId child, int32_t sample_index);
  // Throws Error for an unknown id, which is an internal error: plan and store are inconsistent.
  SequenceRecord& at(SeqId seq);
  size_t size() const { return records_.size(); }

 private:
  SamplingState sampling_state(const SequenceInit& init);

  int32_t num_groups_;
  int32_t vocab_size_;
  std::weak_ptr<const SamplingRules> last_rules_;  // rules of the last added sequence
  std::vector<TokenId> last_end_token_ids_;        // end tokens in last_rules_
  std::unordered_map<SeqId, std::unique_ptr<SequenceRecord>> records_;
};

}  // namespace quire
