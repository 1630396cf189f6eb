#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace quire {
namespace {

using Words = std::array<uint32_t, 4>;

// The philox4x32-10 lines of the Random123 distribution's known answers (kat_vectors).
TEST(Philox, MatchesThePublishedTestVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomWords, DependOnEachOfTheirArguments) {
  std::set<Words> seen;
  for (const uint64_t big : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    seen.insert(random_words(big, 5, 9));
    seen.insert(random_words(5, big, 9));
    seen.insert(random_words(5, 9, big));
  }
  EXPECT_EQ(seen.size(), 12U);
}

// The first two outputs of SplitMix64 from state 0.
TEST(Mix64, MatchesSplitMix64) {
  constexpr uint64_t kGamma = 0x9E3779B97F4A7C15U;
  EXPECT_EQ(mix64(kGamma), 0xE220A8397B1DCDAFU);
  EXPECT_EQ(mix64(2 * kGamma), 0x6E789E6AA1B965F4U);
}

TEST(DeriveSeed, DiffersBetweenRequestsAndEngines) {
  std::set<uint64_t> seen;
  for (uint64_t base = 0; base < 40; ++base) {
    for (uint64_t index = 0; index < 40; ++index) {
      seen.insert(derive_seed(base, index));
    }
  }
  EXPECT_EQ(seen.size(), 1600U);
}

}  // namespace
}  // namespace quire
