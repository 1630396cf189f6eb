// What an executor gives back for a StepPlan: plain, serialisable data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/ids.h"

namespace quire {

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0.0F;  // natural log, of the raw logits (before penalties, temperature and truncation)
};

// The chosen (or given) token of one position with its alternatives.
struct PositionLogprobs {
  TokenLogprob chosen;
  int32_t rank = 0;               // 1 is the most likely token
  std::vector<TokenLogprob> top;  // most likely first; as many as the request asked for
};

struct SampledToken {
  SeqId seq = -1;
  TokenId token = -1;
  float logprob = 0.0F;                    // raw log-probability of the token, always there
  std::vector<PositionLogprobs> logprobs;  // one entry when the request asked for logprobs, else none
};

// The sampler made `child` from `parent`: same tokens before this step's, same block tables. A child that
// exists already (beam search) gives up what it had. No child of a step is a parent of the same step.
struct SequenceFork {
  SeqId parent = -1;
  SeqId child = -1;
};

// Log-probabilities of prompt tokens first_position, first_position + 1, ... of a sequence (position 0 has
// none).
struct PromptLogprobs {
  SeqId seq = -1;
  int32_t first_position = 0;
  std::vector<PositionLogprobs> positions;
};

// What a sequence with SequenceInit::pooling gave, in the step that computed its last token.
struct PooledVector {
  SeqId seq = -1;
  std::vector<float> values;  // an embedding, or the score of each label
};

// A sequence that could not be computed (logits that are not numbers, say); the others of the step are
// unharmed.
struct SequenceFailure {
  SeqId seq = -1;
  std::string message;
};

// A beam search has come to its end: its texts, best first. All its sequences are over.
struct BeamHypothesis {
  std::vector<TokenId> token_ids;           // generated, the end token included
  std::vector<float> logprobs;              // of each, of the raw logits
  std::vector<PositionLogprobs> positions;  // one a token where the request asked for logprobs, else none
  double score = 0.0;    // cumulative log-probability (with logit_bias) / length^length_penalty
  bool stopped = false;  // ended by an end or stop token, else by its length
};
struct BeamResult {
  SeqId seq = -1;                          // the request's first sequence
  std::vector<BeamHypothesis> hypotheses;  // [n], fewer where the search found fewer
};

// How a DiskWrite or DiskRead ended.
struct DiskOutcome {
  int32_t slot = -1;
  BlockId host_block = -1;  // of a read
  bool write = false;
  bool ok = false;  // a read that is not ok found no intact block in the slot
};

struct StepResult {
  int64_t step = 0;
  std::vector<SequenceFork> forks;  // applied before `sampled`
  std::vector<SampledToken>
      sampled;                 // in the order of the plan; several for one sequence are consecutive tokens
  std::vector<SeqId> dropped;  // sequences the sampler ended (beam search)
  std::vector<PromptLogprobs> prompt_logprobs;
  std::vector<PooledVector> pooled;
  std::vector<SequenceFailure> failures;
  std::vector<BeamResult> beams;
  std::vector<DiskOutcome> disk_outcomes;  // of this step and earlier ones
};

}  // namespace quire
