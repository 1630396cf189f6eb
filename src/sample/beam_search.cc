#include "sample/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace quire {
namespace {

constexpr size_t kMostNodesAtStart = 1 << 20;

// Heap order: returns true if `a` comes after `b`.
template <typename Head>
bool taken_after(const Head& a, const Head& b) {
  return a.score != b.score ? a.score < b.score : a.beam > b.beam;
}

}  // namespace

BeamSearch::BeamSearch(const SamplingParams& params, std::span<const TokenId> end_token_ids,
                       int32_t max_new_tokens)
    : width_(static_cast<size_t>(params.num_sequences())),
      num_results_(static_cast<size_t>(params.n)),
      max_new_tokens_(max_new_tokens),
      length_penalty_(double{params.length_penalty}),
      early_stopping_(params.early_stopping),
      keeps_positions_(params.logprobs.has_value()),
      end_tokens_(params.stop_token_ids),
      rows_(width_),
      open_(1),
      taken_(width_) {
  if (!params.ignore_eos) end_tokens_.insert(end_tokens_.end(), end_token_ids.begin(), end_token_ids.end());
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  for (BeamRow& row : rows_) row.candidates.reserve(candidates_per_row());
  open_.reserve(width_);
  next_.reserve(width_);
  heads_.reserve(width_);
  finished_.reserve(width_ + 1);
  step_.forks.reserve(width_);
  step_.dropped.reserve(width_);
  step_.tokens.reserve(width_);
  // A step adds one token per continuing beam and one per finished hypothesis.
  nodes_.reserve(std::min(2 * width_ * static_cast<size_t>(max_new_tokens), kMostNodesAtStart));
}

const BeamSearch::Step& BeamSearch::advance() {
  step_.forks.clear();
  step_.dropped.clear();
  step_.tokens.clear();
  ++length_;
  select();
  step_.done = is_done();
  if (step_.done) {
    step_.tokens.clear();
  } else {
    assign_slots();
  }
  return step_;
}

// Processes the candidates of all beams in order of score. Only the first `width` may finish a hypothesis;
// further ones replace them so that `width` beams continue.
void BeamSearch::select() {
  start_merge();
  next_.clear();
  const bool last = length_ == max_new_tokens_;
  Head taken;
  for (size_t place = 0; (last ? place < width_ : next_.size() < width_) && next_candidate(taken); ++place) {
    Beam& parent = open_[static_cast<size_t>(taken.beam)];
    const BeamCandidate& candidate = row(parent.slot).candidates[taken.next];
    const bool stopped = ends(candidate.token);
    if (!stopped && !last) {
      next_.push_back({taken.beam, add_node(parent, candidate), taken.score, false, -1});
      // The first child keeps its parent's slot.
      step_.tokens.push_back({parent.has_child ? -1 : parent.slot, candidate.token, candidate.logprob});
      parent.has_child = true;
    } else if (place < width_) {
      finish(taken, candidate, stopped);
    }
  }
}

void BeamSearch::start_merge() {
  heads_.clear();
  for (size_t i = 0; i < open_.size(); ++i) {
    const BeamRow& candidates = row(open_[i].slot);
    if (candidates.candidates.empty()) continue;
    heads_.push_back({open_[i].score + double{candidates.candidates[0].gain}, static_cast<int32_t>(i), 0});
  }
  std::make_heap(heads_.begin(), heads_.end(), taken_after<Head>);
}

bool BeamSearch::next_candidate(Head& taken) {
  if (heads_.empty()) return false;
  std::pop_heap(heads_.begin(), heads_.end(), taken_after<Head>);
  taken = heads_.back();
  const Beam& beam = open_[static_cast<size_t>(taken.beam)];
  const std::vector<BeamCandidate>& candidates = row(beam.slot).candidates;
  const size_t next = taken.next + 1;
  if (next == candidates.size()) {
    heads_.pop_back();
  } else {
    heads_.back() = {beam.score + double{candidates[next].gain}, taken.beam, next};
    std::push_heap(heads_.begin(), heads_.end(), taken_after<Head>);
  }
  return true;
}

int32_t BeamSearch::add_node(Beam& parent, const BeamCandidate& candidate) {
  if (keeps_positions_ && parent.top < 0) {
    parent.top = static_cast<int32_t>(tops_.size());
    tops_.push_back(std::move(row(parent.slot).top));
  }
  nodes_.push_back({parent.node, candidate.token, candidate.logprob, candidate.rank, parent.top});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

void BeamSearch::finish(const Head& taken, const BeamCandidate& candidate, bool stopped) {
  const double score = penalized(taken.score, length_);
  const auto at =
      std::find_if(finished_.begin(), finished_.end(), [&](const Hypothesis& h) { return h.score < score; });
  if (at == finished_.end() && finished_.size() == width_) return;
  const int32_t node = add_node(open_[static_cast<size_t>(taken.beam)], candidate);
  finished_.insert(at, {score, node, stopped});
  if (finished_.size() > width_) finished_.pop_back();
}

bool BeamSearch::is_done() const {
  if (length_ == max_new_tokens_ || next_.empty()) return true;
  if (finished_.size() < width_) return false;
  if (early_stopping_ == EarlyStopping::kYes) return true;
  // Upper bound of the score of the best active beam: its current score with the most favorable length.
  const bool at_the_end = early_stopping_ == EarlyStopping::kNever && length_penalty_ > 0.0;
  return penalized(next_.front().score, at_the_end ? max_new_tokens_ : length_) <= finished_.back().score;
}

// A beam's first child keeps its slot. Further children get slots of beams without children, active ones
// first, so no child's slot is a parent's.
void BeamSearch::assign_slots() {
  std::fill(taken_.begin(), taken_.end(), false);
  for (const Token& token : step_.tokens) {
    if (token.slot >= 0) taken_[static_cast<size_t>(token.slot)] = true;
  }
  std::vector<int32_t>& orphaned = step_.dropped;
  for (const Beam& beam : open_) {
    if (!beam.has_child) orphaned.push_back(beam.slot);
  }
  std::sort(orphaned.begin(), orphaned.end(), std::greater<>());
  int32_t unused = 0;
  for (size_t i = 0; i < next_.size(); ++i) {
    const int32_t parent = open_[static_cast<size_t>(next_[i].slot)].slot;
    int32_t& slot = step_.tokens[i].slot;
    if (slot < 0 && !orphaned.empty()) {
      slot = orphaned.back();
      orphaned.pop_back();
    } else if (slot < 0) {
      while (taken_[static_cast<size_t>(unused)]) ++unused;
      slot = unused;
    }
    taken_[static_cast<size_t>(slot)] = true;
    if (slot != parent) step_.forks.push_back({parent, slot});
  }
  for (size_t i = 0; i < next_.size(); ++i) next_[i].slot = step_.tokens[i].slot;
  open_.swap(next_);
}

bool BeamSearch::ends(TokenId token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

double BeamSearch::penalized(double score, int32_t length) const {
  return score / std::pow(static_cast<double>(length), length_penalty_);
}

std::vector<BeamHypothesis> BeamSearch::hypotheses() const {
  std::vector<BeamHypothesis> texts;
  for (size_t i = 0; i < std::min(num_results_, finished_.size()); ++i)
    texts.push_back(text_of(finished_[i]));
  return texts;
}

BeamHypothesis BeamSearch::text_of(const Hypothesis& hypothesis) const {
  BeamHypothesis text;
  text.score = hypothesis.score;
  text.stopped = hypothesis.stopped;
  for (int32_t at = hypothesis.node; at >= 0; at = nodes_[static_cast<size_t>(at)].parent) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    text.token_ids.push_back(node.token);
    text.logprobs.push_back(node.logprob);
    if (!keeps_positions_) continue;
    PositionLogprobs& position = text.positions.emplace_back();
    position.chosen = {node.token, node.logprob};
    position.rank = node.rank;
    position.top = tops_[static_cast<size_t>(node.top)];
  }
  std::reverse(text.token_ids.begin(), text.token_ids.end());
  std::reverse(text.logprobs.begin(), text.logprobs.end());
  std::reverse(text.positions.begin(), text.positions.end());
  return text;
}

}  // namespace quire
