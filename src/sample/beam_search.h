// Beam search for one prompt: selects active beams and finished hypotheses, and detects the end, with the
// rules of transformers' beam search.
//
// Beams are identified by their slot, 0 .. width-1. Before the first advance() there is one active beam, the
// prompt, in slot 0. Each step the caller fills the row of every active beam, then calls advance().
//
// The result is a function of the rows only, so it is bitwise the same in any batch. Ties go to the better
// beam, then to the lower token id. Owned by the executor's sequence records. Not thread-safe, except that
// row() may be filled by several threads for different slots.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/ids.h"
#include "contract/sampling_params.h"
#include "contract/step_result.h"

namespace quire {

struct BeamCandidate {
  TokenId token = -1;
  float logprob = 0.0F;  // log-probability from the raw logits
  float gain = 0.0F;     // added to the beam's score: logprob + logit_bias
  int32_t rank = 0;      // by raw logits, 1 = most probable; 0 if no logprobs are requested
};

// Candidates for the next token of one beam.
struct BeamRow {
  std::vector<BeamCandidate> candidates;  // by decreasing gain, then ascending id; finite gains only
  std::vector<TokenLogprob> top;          // the requested top logprobs
};

class BeamSearch {
 public:
  // params must have passed validate(). max_new_tokens: at least 1, limited by max_tokens and the model's
  // length. Allocates the memory of the whole search, up to a million tokens.
  BeamSearch(const SamplingParams& params, std::span<const TokenId> end_token_ids, int32_t max_new_tokens);

  // Number of candidates per row, unless the masks leave fewer.
  size_t candidates_per_row() const { return width_ + end_tokens_.size(); }
  BeamRow& row(int32_t slot) { return rows_[static_cast<size_t>(slot)]; }
  // Number of active beams, i.e. of rows that the next advance() reads.
  size_t num_open() const { return open_.size(); }

  // The result of one step, in slots. Forks are applied first, and no child slot is a parent; `dropped` slots
  // become inactive; `tokens` are appended to the active beams, best beam first.
  struct Fork {
    int32_t parent = 0;
    int32_t child = 0;
  };
  struct Token {
    int32_t slot = 0;
    TokenId token = -1;
    float logprob = 0.0F;
  };
  struct Step {
    std::vector<Fork> forks;
    std::vector<int32_t> dropped;
    std::vector<Token> tokens;
    bool done = false;  // if true, the other fields are empty
  };
  // Valid until the next call. Must not be called after `done`.
  const Step& advance();

  // Returns the n best finished hypotheses, best first; fewer if the search found fewer.
  std::vector<BeamHypothesis> hypotheses() const;

 private:
  // One token in the tree of all hypotheses.
  struct Node {
    int32_t parent = -1;
    TokenId token = -1;
    float logprob = 0.0F;
    int32_t rank = 0;
    int32_t top = -1;  // index into tops_
  };
  struct Beam {
    int32_t slot = 0;
    int32_t node = -1;   // last token; -1 = the prompt
    double score = 0.0;  // sum of the gains
    bool has_child = false;
    int32_t top = -1;  // index of the row's top logprobs in tops_, once a child needs them
  };
  // The head of a row during the merge: the score of its best remaining candidate.
  struct Head {
    double score = 0.0;
    int32_t beam = 0;  // index into open_
    size_t next = 0;   // index into the row's candidates
  };
  struct Hypothesis {
    double score = 0.0;
    int32_t node = -1;
    bool stopped = false;
  };

  void start_merge();
  bool next_candidate(Head& taken);
  void select();
  int32_t add_node(Beam& parent, const BeamCandidate& candidate);
  void finish(const Head& taken, const BeamCandidate& candidate, bool stopped);
  bool is_done() const;
  void assign_slots();
  bool ends(TokenId token) const;
  double penalized(double score, int32_t length) const;
  BeamHypothesis text_of(const Hypothesis& hypothesis) const;

  size_t width_;
  size_t num_results_;
  int32_t max_new_tokens_;
  double length_penalty_;
  EarlyStopping early_stopping_;
  bool keeps_positions_;
  std::vector<TokenId> end_tokens_;  // sorted, unique
  int32_t length_ = 0;               // tokens generated per active beam

  std::vector<BeamRow> rows_;  // [width], by slot
  std::vector<Beam> open_;     // best first, at most width
  std::vector<Beam> next_;     // the next active beams; `slot` is first the parent's index in open_
  std::vector<Head> heads_;    // a heap
  std::vector<bool> taken_;    // [width], by slot
  std::vector<Node> nodes_;
  std::vector<std::vector<TokenLogprob>> tops_;
  std::vector<Hypothesis> finished_;  // best first, at most width
  Step step_;
};

}  // namespace quire
