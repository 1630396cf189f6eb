#include "sample/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "base/rng.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

constexpr int kMillion = test::repetitions(1'000'000, 20'000);

struct Runners {
  explicit Runners(std::vector<float> logits, float temperature = 1.0F)
      : values(std::move(logits)), buffers(static_cast<int32_t>(values.size())) {
    row.values = values;
    row.max = block_maxima(values, buffers.block_max.data()).max;
    row.scale = 1.0F / temperature;
  }
  size_t win(const RaceKey& key) { return win_race(row, key, buffers); }

  std::vector<float> values;
  SamplerBuffers buffers;
  Row row;
};

std::vector<float> normal_logits(size_t size, float spread, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> logits(size);
  std::generate(logits.begin(), logits.end(), [&] { return spread * normal(generator); });
  return logits;
}

// Every entry's time, one by one.
size_t earliest(const Runners& runners, const RaceKey& key) {
  const Row& row = runners.row;
  std::vector<float> weights(row.values.size());
  std::vector<double> sums(num_blocks(row.values.size()));
  weigh(row.values, row.max, row.scale, weights.data(), sums.data());
  double best = std::numeric_limits<double>::infinity();
  size_t winner = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double time = arrival(key, row.id(i)) / double{weights[i]};
    if (time < best) {
      best = time;
      winner = i;
    }
  }
  return winner;
}

TEST(Race, TheEarliestOfAllWins) {
  for (const size_t size : {1U, 15U, 16U, 17U, 255U, 256U, 257U, 300U, 5000U, 70001U}) {
    for (const float spread : {0.0F, 0.01F, 1.0F, 5.0F}) {
      std::vector<float> logits = normal_logits(size, spread, static_cast<uint32_t>(size));
      for (size_t i = 1; i < size; i += 7) logits[i] = -std::numeric_limits<float>::infinity();
      Runners runners(logits, 0.8F);
      for (uint64_t position = 0; position < 40; ++position) {
        const RaceKey key = random_words(3, 1, position);
        ASSERT_EQ(runners.win(key), earliest(runners, key)) << size << " entries, spread " << spread;
      }
    }
  }
}

// A list of the tokens that are left and the row in which the others have weight 0 give the same token; so
// does a list without tokens that did not win.
TEST(Race, RemovingOtherTokensDoesNotChangeTheWinner) {
  constexpr size_t kVocab = 3000;
  Runners whole(normal_logits(kVocab, 1.0F, 5));
  Runners list(whole.values);
  for (uint64_t position = 0; position < 200; ++position) {
    const RaceKey key = random_words(8, 0, position);
    const size_t winner = whole.win(key);
    size_t count = 0;
    for (size_t i = 0; i < kVocab; ++i) {
      if ((i + position) % 5 != 0 && i != winner) continue;
      list.buffers.values[count] = whole.values[i];
      list.buffers.ids[count] = static_cast<TokenId>(i);
      ++count;
    }
    take_list(list.row, count, list.buffers);
    list.row.max = whole.row.max;
    EXPECT_EQ(static_cast<size_t>(list.row.id(list.win(key))), winner);
  }
}

double statistic(const std::vector<int>& counts, const std::vector<double>& expected) {
  double sum = 0.0;
  for (size_t i = 0; i < counts.size(); ++i)
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  return sum;
}

// Chi-square has mean f and variance 2 f with f degrees of freedom; four standard deviations are one chance
// in 10,000.
double limit_of(size_t freedom) {
  return static_cast<double>(freedom) + 4.0 * std::sqrt(2.0 * static_cast<double>(freedom));
}

TEST(Race, DrawsFollowTheWeights) {
  const struct {
    const char* name;
    std::vector<float> logits;
    int draws;
  } distributions[] = {{"flat", std::vector<float>(40, 1.5F), kMillion},
                       {"peaked", normal_logits(40, 1.5F, 11), kMillion},
                       {"filtered", normal_logits(12, 0.7F, 12), kMillion}};
  for (const auto& [name, logits, draws] : distributions) {
    Runners runners(logits);
    std::vector<TokenId> ids(logits.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * i * 97 + i);
    if (logits.size() == 12) runners.row.ids = ids.data();
    std::vector<int> counts(logits.size());
    for (int position = 0; position < draws; ++position) {
      ++counts[runners.win(random_words(42, 0, static_cast<uint64_t>(position)))];
    }
    double total = 0.0;
    for (const float logit : logits) total += std::exp(double{logit});
    std::vector<double> expected;
    for (const float logit : logits) expected.push_back(std::exp(double{logit}) / total * draws);
    EXPECT_LT(statistic(counts, expected), limit_of(logits.size() - 1)) << name;
  }
}

// Numbers of pairs (of tokens, positions, samples or seeds) fall evenly into a grid.
TEST(Race, ArrivalsOfNeighboursAreIndependent) {
  using Pair = std::pair<double, double>;
  const struct {
    const char* name;
    std::function<Pair(uint64_t)> of;
  } neighbours[] = {
      {"ids of one draw",
       [](uint64_t i) {
         const RaceKey key = random_words(1, 0, i / 1000);
         const auto id = static_cast<TokenId>(2 * (i % 1000));
         return Pair{arrival(key, id), arrival(key, id + 1)};
       }},
      {"ids of neighbouring groups",
       [](uint64_t i) {
         const RaceKey key = random_words(5, 0, i / 1000);
         const auto id = static_cast<TokenId>(32 * (i % 1000));
         return Pair{arrival(key, id), arrival(key, id + 16)};
       }},
      {"ids that differ by a power of two",
       [](uint64_t i) {
         const RaceKey key = random_words(2, 0, i / 1000);
         const auto id = static_cast<TokenId>(i % 1000);
         return Pair{arrival(key, id), arrival(key, id + 65536)};
       }},
      {"positions",
       [](uint64_t i) {
         const auto id = static_cast<TokenId>(i % 8);
         return Pair{arrival(random_words(3, 0, i / 8 * 2), id),
                     arrival(random_words(3, 0, i / 8 * 2 + 1), id)};
       }},
      {"samples",
       [](uint64_t i) {
         const auto id = static_cast<TokenId>(i % 8);
         return Pair{arrival(random_words(4, 0, i / 8), id), arrival(random_words(4, 1, i / 8), id)};
       }},
      {"seeds",
       [](uint64_t i) {
         const auto id = static_cast<TokenId>(i % 8);
         return Pair{arrival(random_words(2 * i, 0, 0), id), arrival(random_words(2 * i + 1, 0, 0), id)};
       }},
  };
  constexpr size_t kSide = 16;
  const auto cell = [](double number) {
    return std::min(kSide - 1, static_cast<size_t>(std::exp(-number) * kSide));
  };
  for (const auto& [name, of] : neighbours) {
    std::vector<int> counts(kSide * kSide);
    for (int i = 0; i < kMillion; ++i) {
      const Pair pair = of(static_cast<uint64_t>(i));
      ++counts[cell(pair.first) * kSide + cell(pair.second)];
    }
    const std::vector<double> expected(counts.size(), double{kMillion} / static_cast<double>(counts.size()));
    EXPECT_LT(statistic(counts, expected), limit_of(counts.size() - 1)) << name;
  }
}

// The smallest of many arrivals decides, so the lower tail has to be right.
TEST(Race, TheSmallestOfManyArrivalsIsExponential) {
  constexpr int kTokens = 4096;
  constexpr int kDraws = kMillion / 250;
  constexpr int kBins = 20;
  std::vector<int> counts(kBins);
  for (uint64_t position = 0; position < kDraws; ++position) {
    const RaceKey key = random_words(6, 2, position);
    double first = std::numeric_limits<double>::infinity();
    for (TokenId token = 0; token < kTokens; ++token) first = std::min(first, arrival(key, token));
    ++counts[static_cast<size_t>(std::min(kBins - 1.0, std::exp(-first * kTokens) * kBins))];
  }
  const std::vector<double> expected(kBins, double{kDraws} / kBins);
  EXPECT_LT(statistic(counts, expected), limit_of(kBins - 1));
}

TEST(Race, ArrivalsArePositiveAndHaveMeanOne) {
  double sum = 0.0;
  for (int i = 0; i < kMillion; ++i) {
    const double number = arrival(random_words(9, 0, 0), i);
    ASSERT_GT(number, 0.0);
    ASSERT_LT(number, 46.0);  // -log(2^-65) = 45.05
    sum += number;
  }
  EXPECT_NEAR(sum / kMillion, 1.0, 5.0 / std::sqrt(kMillion));
}

// The same tokens on every processor and in every build: builds with sanitizers have no code for wide
// registers.
TEST(Race, DrawsRecordedTokens) {
  Runners runners(normal_logits(5000, 2.0F, 1));
  std::vector<size_t> tokens;
  for (uint64_t position = 0; position < 12; ++position)
    tokens.push_back(runners.win(random_words(7, 0, position)));
  EXPECT_EQ(tokens,
            (std::vector<size_t>{3400, 1150, 988, 3404, 719, 4391, 4087, 4589, 1386, 1835, 4158, 1671}));
}

}  // namespace
}  // namespace quire
