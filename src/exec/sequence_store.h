// What an executor remembers of each sequence between steps: its tokens, its block tables, its sampling
// state.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "contract/step_plan.h"
#include "sample/beam_search.h"
#include "sample/sampling_state.h"

namespace quire {

// The beam search that a request's sequences carry on together; a beam's slot is its sample index.
struct BeamGroup {
  SeqId first = -1;  // the sequence of slot 0
  BeamSearch search;
  int64_t step = -1;    // StepPlan::step of the rows counted
  size_t num_rows = 0;  // open beams whose rows that step has given so far
};

struct SequenceRecord {
  std::vector<TokenId> tokens;  // prompt, then what was generated
  int32_t num_prompt_tokens = 0;
  std::vector<std::vector<BlockId>> block_tables;  // [groups][blocks]
  SamplingState sampling;
  std::optional<PoolingRequest> pooling;
  std::vector<float> pooled;         // what its computed tokens gave so far (TextPooler)
  std::shared_ptr<BeamGroup> beams;  // shared by the request's beams; null without beam search
};

class SequenceStore {
 public:
  SequenceStore(int32_t num_groups, int32_t vocab_size);

  // Forgets, learns and rewrites block tables as the plan says, in that order.
  void apply(const StepPlan& plan);
  // The child continues from the parent's tokens and blocks as sample `sample_index`; a child that exists
  // already gives up its own.
  void fork(SeqId parent, SeqId child, int32_t sample_index);
  // Throws Error for an unknown id: the plan and the store disagree, which is a defect of ours.
  SequenceRecord& at(SeqId seq);
  size_t size() const { return records_.size(); }

 private:
  int32_t num_groups_;
  int32_t vocab_size_;
  std::unordered_map<SeqId, std::unique_ptr<SequenceRecord>> records_;
};

}  // namespace quire
