// Beam search for one prompt: which continuations go on, which are finished texts, and when it is over. The
// rules are those of transformers' beam search.
//
// The search knows beams by their slot, 0 .. width-1. Before the first advance() there is one open beam, the
// prompt, in slot 0. Each step the caller fills the row of every open beam, then calls advance().
//
// Pure bookkeeping: a function of the rows alone, so the result is bitwise the same in any batch. Of equal
// candidates the one from the better beam comes first, of one beam's the lower token id. Owned by the
// executor's sequence records; one thread at a time, but for row(), which threads may fill for different
// slots at once.
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
  float logprob = 0.0F;  // of the raw logits
  float gain = 0.0F;     // what it adds to the beam's score: logprob and logit_bias
  int32_t rank = 0;  // among the raw logits, 1 is the most likely; 0 where the request asks for no logprobs
};

// What the next token of one beam may be.
struct BeamRow {
  std::vector<BeamCandidate> candidates;  // largest gain first, of equal ones the lower id; finite gains only
  std::vector<TokenLogprob> top;          // the alternatives that the request asked for
};

class BeamSearch {
 public:
  // params must have passed validate(). end_token_ids: the model's. max_new_tokens: at least 1, what
  // max_tokens and the model's length leave. Takes the memory of the whole search here, up to a million
  // tokens.
  BeamSearch(const SamplingParams& params, std::span<const TokenId> end_token_ids, int32_t max_new_tokens);

  // Candidates that a row must have, where the masks leave so many.
  size_t candidates_per_row() const { return width_ + end_tokens_.size(); }
  BeamRow& row(int32_t slot) { return rows_[static_cast<size_t>(slot)]; }
  // Open beams: the number of rows that the next advance() reads.
  size_t num_open() const { return open_.size(); }

  // One step's outcome, in slots. Forks come first and no child is a parent; `dropped` slots were open and
  // are not any more; `tokens` are appended to the open beams, best beam first.
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
    bool done = false;  // the rest is empty then
  };
  // Valid until the next call. Must not be called after `done`.
  const Step& advance();

  // The n best finished texts, best first; fewer where the search found fewer.
  std::vector<BeamHypothesis> hypotheses() const;

 private:
  // One token of the tree of all texts.
  struct Node {
    int32_t parent = -1;
    TokenId token = -1;
    float logprob = 0.0F;
    int32_t rank = 0;
    int32_t top = -1;  // index into tops_
  };
  struct Beam {
    int32_t slot = 0;
    int32_t node = -1;   // its last token; -1: the prompt
    double score = 0.0;  // sum of the gains
    bool has_child = false;
    int32_t top = -1;  // where its row's alternatives are kept, once a child needs them
  };
  // A row on its way through the merge: the score of its best candidate not yet taken.
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
  std::vector<TokenId> end_tokens_;  // ascending, without repeats
  int32_t length_ = 0;               // tokens that the open beams have

  std::vector<BeamRow> rows_;  // [width], by slot
  std::vector<Beam> open_;     // best first, at most width
  std::vector<Beam> next_;     // the open beams being chosen; `slot` is the parent's index in open_ at first
  std::vector<Head> heads_;    // a heap
  std::vector<bool> taken_;    // [width], by slot
  std::vector<Node> nodes_;
  std::vector<std::vector<TokenLogprob>> tops_;
  std::vector<Hypothesis> finished_;  // best first, at most width
  Step step_;
};

}  // namespace quire
