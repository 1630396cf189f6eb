// What an executor remembers of each sequence between steps: its tokens, its block tables, its sampling
// state.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "contract/step_plan.h"
#include "sample/sampling_state.h"

namespace quire {

struct SequenceRecord {
  std::vector<TokenId> tokens;  // prompt, then what was generated
  int32_t num_prompt_tokens = 0;
  std::vector<std::vector<BlockId>> block_tables;  // [groups][blocks]
  SamplingState sampling;
};

class SequenceStore {
 public:
  SequenceStore(int32_t num_groups, int32_t vocab_size);

  // Forgets, learns and rewrites block tables as the plan says, in that order.
  void apply(const StepPlan& plan);
  // The child continues from the parent's tokens and blocks as sample `sample_index`.
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
