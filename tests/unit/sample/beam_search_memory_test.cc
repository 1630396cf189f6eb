// Steps of a beam search do not allocate memory; it is allocated when the search begins.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "sample/beam_search.h"
#include "sample/sampler.h"
#include "support/allocations.h"

namespace quire {
namespace {

TEST(BeamSearchMemory, StepsDoNotAllocate) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers have their own `new`";
  constexpr size_t kVocab = 1000;
  constexpr int32_t kSteps = 100;
  SamplingParams params;
  params.use_beam_search = true;
  params.n = 6;
  params.min_tokens = kSteps;
  params.logit_bias = {{5, 1.0F}};
  const std::vector<TokenId> end_tokens = {1, 2};
  const SamplingState state(params, {}, end_tokens, 0, 0, kVocab);
  SamplerWorkspace workspace(kVocab);
  std::vector<float> logits(kVocab);
  BeamSearch search(params, end_tokens, kSteps);
  std::vector<int32_t> open = {0};
  open.reserve(6);
  int64_t before = 0;
  for (int32_t step = 0; step < kSteps; ++step) {
    if (step == 1) before = test::allocation_count();  // the first edits enlarge the sampler's workspace
    for (const int32_t slot : open) {
      for (size_t i = 0; i < kVocab; ++i) {
        const uint64_t bits =
            mix64((static_cast<uint64_t>(step) * 6 + static_cast<uint64_t>(slot)) * kVocab + i);
        logits[i] = static_cast<float>(bits % 10000) / 1000.0F;
      }
      ASSERT_TRUE(
          fill_beam_row(logits, state, search.candidates_per_row(), workspace, search.row(slot)).ok());
    }
    const BeamSearch::Step& result = search.advance();
    ASSERT_EQ(result.done, step + 1 == kSteps);
    open.clear();
    for (const auto& token : result.tokens) open.push_back(token.slot);
  }
  EXPECT_EQ(test::allocation_count() - before, 0);
  EXPECT_EQ(search.hypotheses().size(), 6U);
}

}  // namespace
}  // namespace quire
