// An executor's result for a StepPlan, as plain, serializable data (vLLM: ModelRunnerOutput).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/ids.h"

namespace quire {

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0.0F;  // natural log, of the raw logits (before penalties, temperature and truncation), or
                         // what EngineOptions::logprobs_mode chooses
};

// The sampled token (for a prompt: the prompt's token) of one position, with alternatives.
struct PositionLogprobs {
  TokenLogprob chosen;
  int32_t rank = 0;               // rank of the token; 1 = most likely
  std::vector<TokenLogprob> top;  // most likely first; as many as the request asked for
  bool given = false;             // `top` are the tokens that the request named, in its order
};

struct SampledToken {
  SeqId seq = -1;
  TokenId token = -1;
  // As in TokenLogprob. 0 for a token that a constraint forces, unless the request asked for logprobs.
  float logprob = 0.0F;
  std::vector<PositionLogprobs> logprobs;  // one entry if the request asked for logprobs, otherwise empty
  bool completes = false;  // a constraint allows nothing after this token, so the sequence ends with it
};

// The sampler forked `child` from `parent`, with its tokens before this step and its block tables. An
// existing child (beam search) drops its previous tokens and blocks. No child is also a parent in the same
// step.
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

// Result of a sequence with SequenceInit::pooling, in the step that computed its last token.
struct PooledVector {
  SeqId seq = -1;
  std::vector<float> values;  // an embedding, or the score of each label
};

// A sequence that failed, for example because its logits contain NaN. Does not affect other sequences.
struct SequenceFailure {
  SeqId seq = -1;
  std::string message;
};

// A finished hypothesis of a beam search.
struct BeamHypothesis {
  std::vector<TokenId> token_ids;           // generated tokens, including the end token
  std::vector<float> logprobs;              // per token, of the raw logits
  std::vector<PositionLogprobs> positions;  // per token; empty unless requested
  double score = 0.0;    // cumulative log-probability (with logit_bias) / length^length_penalty
  bool stopped = false;  // ended by an end or stop token, not by its length
};

// The result of a beam search that has ended. All its sequences are finished.
struct BeamResult {
  SeqId seq = -1;                          // the request's first sequence
  std::vector<BeamHypothesis> hypotheses;  // best first; [n], or fewer if the search found fewer
};

// Outcome of a DiskWrite or DiskRead.
struct DiskOutcome {
  int32_t slot = -1;
  BlockId host_block = -1;  // destination of a read
  bool write = false;
  bool ok = false;  // false for a read: the slot does not contain an intact block
};

struct StepResult {
  int64_t step = 0;
  std::vector<SequenceFork> forks;  // applied before `sampled`
  std::vector<SampledToken>
      sampled;  // in the order of the plan; several entries of one sequence are consecutive tokens
  std::vector<SeqId> dropped;  // sequences the sampler ended (beam search)
  std::vector<PromptLogprobs> prompt_logprobs;
  std::vector<PooledVector> pooled;
  std::vector<SequenceFailure> failures;
  std::vector<BeamResult> beams;
  std::vector<DiskOutcome> disk_outcomes;  // I/O of this step or of earlier steps
};

}  // namespace quire
