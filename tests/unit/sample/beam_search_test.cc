#include "sample/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Text = std::vector<TokenId>;
// Log-probabilities of the next token after a text.
using LanguageModel = std::function<std::vector<float>(const Text&)>;

SamplingParams beam_params(int32_t width, int32_t n = 1) {
  SamplingParams params;
  params.use_beam_search = true;
  params.beam_width = width;
  params.n = n;
  return params;
}

BeamRow row_of(const std::vector<float>& logprobs, size_t count) {
  BeamRow row;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    if (std::isfinite(logprobs[i]))
      row.candidates.push_back({static_cast<TokenId>(i), logprobs[i], logprobs[i], 0});
  }
  std::stable_sort(row.candidates.begin(), row.candidates.end(),
                   [](const BeamCandidate& a, const BeamCandidate& b) { return a.gain > b.gain; });
  row.candidates.resize(std::min(count, row.candidates.size()));
  return row;
}

// Applies the results of the search, like executor and scheduler, and checks that they are valid.
class Beams {
 public:
  Beams(const SamplingParams& params, const Text& end_tokens, int32_t max_new_tokens)
      : search_(params, end_tokens, max_new_tokens), texts_{{0, {}}} {}

  // Runs until the end; returns the number of steps.
  int run(const LanguageModel& model) {
    for (int steps = 1;; ++steps) {
      if (step(model).done) return steps;
    }
  }

  const BeamSearch::Step& step(const LanguageModel& model) {
    EXPECT_EQ(search_.num_open(), texts_.size());
    for (const auto& [slot, text] : texts_)
      search_.row(slot) = row_of(model(text), search_.candidates_per_row());
    const BeamSearch::Step& step = search_.advance();
    if (step.done) return step;
    std::set<int32_t> parents;
    std::set<int32_t> children;
    for (const auto& [parent, child] : step.forks) {
      parents.insert(parent);
      EXPECT_TRUE(children.insert(child).second) << "slot " << child << " is the target of two forks";
      EXPECT_TRUE(texts_.contains(parent));
      texts_[child] = texts_[parent];
    }
    for (const int32_t child : children) EXPECT_FALSE(parents.contains(child)) << "slot " << child;
    for (const int32_t slot : step.dropped) EXPECT_EQ(texts_.erase(slot), 1U) << "slot " << slot;
    std::set<int32_t> written;
    for (const auto& token : step.tokens) {
      EXPECT_TRUE(texts_.contains(token.slot));
      EXPECT_TRUE(written.insert(token.slot).second);
      texts_[token.slot].push_back(token.token);
    }
    EXPECT_EQ(written.size(), texts_.size()) << "each open beam has one new token";
    return step;
  }

  BeamSearch& search() { return search_; }
  const std::map<int32_t, Text>& texts() const { return texts_; }

 private:
  BeamSearch search_;
  std::map<int32_t, Text> texts_;  // texts of the active beams, by slot
};

struct Scored {
  Text text;
  double score = 0.0;
};

// A simple implementation of the same rules, with fully sorted lists and without slots and tree.
std::vector<Scored> plain_search(const SamplingParams& params, const Text& end_tokens, int32_t max_new_tokens,
                                 const LanguageModel& model) {
  const auto width = static_cast<size_t>(params.num_sequences());
  const auto penalized = [&](double score, size_t length) {
    return score / std::pow(static_cast<double>(length), double{params.length_penalty});
  };
  const auto ends = [&](TokenId token) {
    return std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
  };
  const auto better = [](const Scored& a, const Scored& b) { return a.score > b.score; };
  std::vector<Scored> open = {{}};
  std::vector<Scored> finished;
  for (size_t length = 1;; ++length) {
    const bool last = length == static_cast<size_t>(max_new_tokens);
    std::vector<Scored> all;
    for (const Scored& beam : open) {
      const std::vector<float> logprobs = model(beam.text);
      std::vector<Scored> of_beam;
      for (size_t token = 0; token < logprobs.size(); ++token) {
        if (!std::isfinite(logprobs[token])) continue;
        of_beam.push_back({beam.text, beam.score + double{logprobs[token]}});
        of_beam.back().text.push_back(static_cast<TokenId>(token));
      }
      all.insert(all.end(), of_beam.begin(), of_beam.end());
    }
    std::stable_sort(all.begin(), all.end(), better);
    open.clear();
    for (size_t place = 0; place < all.size(); ++place) {
      const bool ended = last || ends(all[place].text.back());
      if (ended && place < width) finished.push_back({all[place].text, penalized(all[place].score, length)});
      if (!ended && open.size() < width) open.push_back(all[place]);
    }
    std::stable_sort(finished.begin(), finished.end(), better);
    finished.resize(std::min(finished.size(), width));
    if (last || open.empty()) break;
    if (finished.size() < width) continue;
    if (params.early_stopping == EarlyStopping::kYes) break;
    const bool far = params.early_stopping == EarlyStopping::kNever && params.length_penalty > 0.0F;
    if (penalized(open[0].score, far ? static_cast<size_t>(max_new_tokens) : length) <= finished.back().score)
      break;
  }
  finished.resize(std::min(finished.size(), static_cast<size_t>(params.n)));
  return finished;
}

// Synthetic log-probabilities. coarse: many are equal. holes: many are impossible.
LanguageModel synthetic_model(uint64_t seed, size_t vocab_size, bool coarse, bool holes) {
  return [=](const Text& text) {
    uint64_t state = mix64(seed);
    for (const TokenId token : text) state = mix64(state ^ static_cast<uint64_t>(token + 1));
    std::vector<float> logits(vocab_size);
    double sum = 0.0;
    for (size_t i = 0; i < vocab_size; ++i) {
      const uint64_t bits = mix64(state + i);
      logits[i] = static_cast<float>(bits % 4096) / 700.0F;
      if (coarse) logits[i] = std::floor(logits[i]);
      if (holes && (bits >> 20) % 3 != 0) logits[i] = -std::numeric_limits<float>::infinity();
      sum += std::exp(double{logits[i]});
    }
    for (float& logit : logits) logit -= static_cast<float>(std::log(sum));
    return logits;
  };
}

TEST(BeamSearch, MatchesSortingAllCandidates) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const auto draw = [&](uint64_t what, uint64_t count) { return mix64(seed * 31 + what) % count; };
    SamplingParams params = beam_params(1 + static_cast<int32_t>(draw(1, 7)));
    params.n = 1 + static_cast<int32_t>(draw(2, static_cast<uint64_t>(params.beam_width)));
    params.length_penalty = std::vector<float>{0.0F, 0.6F, 1.0F, 2.0F, -0.5F}[draw(3, 5)];
    params.early_stopping =
        std::vector{EarlyStopping::kNo, EarlyStopping::kYes, EarlyStopping::kNever}[draw(4, 3)];
    const size_t vocab = 2 + draw(5, 12);
    const auto max_new_tokens = static_cast<int32_t>(1 + draw(6, 12));
    Text end_tokens;
    for (uint64_t i = draw(7, 4); i > 0; --i) end_tokens.push_back(static_cast<TokenId>(draw(7 + i, vocab)));
    const LanguageModel model = synthetic_model(seed, vocab, draw(11, 3) == 0, draw(12, 3) == 0);

    Beams beams(params, end_tokens, max_new_tokens);
    beams.run(model);
    const std::vector<BeamHypothesis> found = beams.search().hypotheses();
    const std::vector<Scored> expected = plain_search(params, end_tokens, max_new_tokens, model);
    ASSERT_EQ(found.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].token_ids, expected[i].text) << "seed " << seed << " text " << i;
      EXPECT_EQ(found[i].score, expected[i].score) << "seed " << seed << " text " << i;
      const bool ended =
          std::find(end_tokens.begin(), end_tokens.end(), found[i].token_ids.back()) != end_tokens.end();
      EXPECT_EQ(found[i].stopped, ended);
      double sum = 0.0;
      for (const float logprob : found[i].logprobs) sum += double{logprob};
      EXPECT_NEAR(sum / std::pow(found[i].logprobs.size(), params.length_penalty), found[i].score, 1e-5);
    }
  }
}

TEST(BeamSearch, AWideSearchFindsTheBestText) {
  const LanguageModel model = synthetic_model(5, 4, false, false);
  double best = -1e9;
  Text best_text;
  for (TokenId a = 0; a < 4; ++a) {
    for (TokenId b = 0; b < 4; ++b) {
      for (TokenId c = 0; c < 4; ++c) {
        const double score = double{model({})[static_cast<size_t>(a)]} +
                             double{model({a})[static_cast<size_t>(b)]} +
                             double{model({a, b})[static_cast<size_t>(c)]};
        if (score > best) best = score, best_text = {a, b, c};
      }
    }
  }
  Beams beams(beam_params(16), {}, 3);
  EXPECT_EQ(beams.run(model), 3);
  EXPECT_EQ(beams.search().hypotheses()[0].token_ids, best_text);
  EXPECT_NEAR(beams.search().hypotheses()[0].score, best / 3, 1e-12);
}

TEST(BeamSearch, TiesGoToTheBetterBeamAndTheLowerToken) {
  Beams beams(beam_params(3, 3), {}, 2);
  const LanguageModel flat = [](const Text&) { return std::vector<float>(5, -1.0F); };
  const BeamSearch::Step& first = beams.step(flat);
  ASSERT_EQ(first.tokens.size(), 3U);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(first.tokens[static_cast<size_t>(i)].token, i);
  EXPECT_TRUE(beams.step(flat).done);
  const auto found = beams.search().hypotheses();
  EXPECT_THAT(found[0].token_ids, ElementsAre(0, 0));
  EXPECT_THAT(found[1].token_ids, ElementsAre(0, 1));
  EXPECT_THAT(found[2].token_ids, ElementsAre(0, 2));
}

TEST(BeamSearch, TheFirstChildKeepsItsSlotAndOthersUseFreeSlots) {
  Beams beams(beam_params(4), {}, 9);
  // After a text that ends with 2, token 0 is by far the most probable one. All other texts are improbable.
  const LanguageModel model = [](const Text& text) {
    std::vector<float> logprobs = {-1.0F, -1.1F, -0.9F, -1.2F, -9.0F};
    if (!text.empty() && text.back() != 2) {
      for (float& logprob : logprobs) logprob -= 20.0F;
    }
    return logprobs;
  };
  beams.step(model);
  EXPECT_EQ(beams.texts().size(), 4U);
  int32_t survivor = -1;
  for (const auto& [slot, text] : beams.texts()) {
    if (text.back() == 2) survivor = slot;
  }
  const BeamSearch::Step& step = beams.step(model);
  ASSERT_EQ(step.forks.size(), 3U);
  for (const auto& fork : step.forks) EXPECT_EQ(fork.parent, survivor);
  EXPECT_EQ(step.tokens[0].slot, survivor) << "the best child";
  EXPECT_THAT(step.dropped, IsEmpty());
}

TEST(BeamSearch, BeamsWithoutContinuationsAreDroppedAndTheirSlotsReused) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Beams beams(beam_params(3, 3), {}, 9);
  const LanguageModel model = [&](const Text& text) -> std::vector<float> {
    if (text.size() == 1)
      return text[0] == 0 ? std::vector<float>{kNever, -1.0F, kNever} : std::vector<float>(3, kNever);
    return {-1.0F, -2.0F, -3.0F};
  };
  beams.step(model);
  EXPECT_EQ(beams.search().num_open(), 3U);
  const BeamSearch::Step& narrow = beams.step(model);
  EXPECT_EQ(narrow.dropped.size(), 2U);
  EXPECT_EQ(beams.search().num_open(), 1U);
  const BeamSearch::Step& wide = beams.step(model);
  EXPECT_EQ(wide.forks.size(), 2U);
  EXPECT_EQ(beams.search().num_open(), 3U);
}

TEST(BeamSearch, EndsWithFewerTextsIfNoMoreArePossible) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Beams beams(beam_params(3, 3), {1}, 9);
  const LanguageModel model = [&](const Text& text) -> std::vector<float> {
    return text.empty() ? std::vector<float>{-1.0F, -0.5F} : std::vector<float>{kNever, -0.25F};
  };
  EXPECT_EQ(beams.run(model), 2);
  const auto found = beams.search().hypotheses();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].token_ids, ElementsAre(1));
  EXPECT_THAT(found[1].token_ids, ElementsAre(0, 1));
}

int steps_with(EarlyStopping early, float end, float best) {
  SamplingParams params = beam_params(2);
  params.early_stopping = early;
  Beams beams(params, {0}, 20);
  return beams.run([=](const Text&) { return std::vector<float>{end, best, best - 0.3F}; });
}

TEST(BeamSearch, EarlyStoppingDeterminesTheEnd) {
  // Two texts are finished after two tokens. The best active beam has a higher score, and keeps it.
  EXPECT_EQ(steps_with(EarlyStopping::kYes, -0.8F, -0.6F), 2);
  EXPECT_EQ(steps_with(EarlyStopping::kNo, -0.8F, -0.6F), 20);
  // It has a lower score. With a cost of zero for all further tokens, up to length 20, it would exceed
  // theirs: up to 14 tokens.
  EXPECT_EQ(steps_with(EarlyStopping::kYes, -0.5F, -1.2F), 2);
  EXPECT_EQ(steps_with(EarlyStopping::kNo, -0.5F, -1.2F), 2);
  EXPECT_EQ(steps_with(EarlyStopping::kNever, -0.5F, -1.2F), 15);
}

TEST(BeamSearch, ReturnsAlternativesOfEachTokenOnRequest) {
  SamplingParams params = beam_params(2, 2);
  params.logprobs = 1;
  BeamSearch search(params, {}, 2);
  search.row(0).candidates = {{3, -0.5F, -0.5F, 1}, {4, -1.0F, -1.0F, 2}};
  search.row(0).top = {{3, -0.5F}};
  const BeamSearch::Step& step = search.advance();
  ASSERT_EQ(step.tokens.size(), 2U);
  for (const auto& token : step.tokens) {
    const bool three = token.token == 3;
    search.row(token.slot).candidates = {{7, three ? -0.25F : -5.0F, three ? -0.25F : -5.0F, 2}};
    search.row(token.slot).top = {{three ? 8 : 9, -0.1F}};
  }
  ASSERT_TRUE(search.advance().done);
  const auto found = search.hypotheses();
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[0].positions.size(), 2U);
  EXPECT_EQ(found[0].positions[0].chosen.token, 3);
  EXPECT_EQ(found[0].positions[0].rank, 1);
  EXPECT_EQ(found[0].positions[0].top[0].token, 3);
  EXPECT_EQ(found[0].positions[1].chosen.logprob, -0.25F);
  EXPECT_EQ(found[0].positions[1].top[0].token, 8);
  EXPECT_EQ(found[1].positions[0].rank, 2);
  EXPECT_EQ(found[1].positions[0].top[0].token, 3) << "both tokens are from one row";
  EXPECT_EQ(found[1].positions[1].top[0].token, 9);
}

}  // namespace
}  // namespace quire
