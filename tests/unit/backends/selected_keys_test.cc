// Sparse attention to selected keys, and top-k selection of keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention_testing.h"
#include "ops/reference.h"
#include "ops/topk_to_bitmask.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

using test::CacheSetup;
using test::describe;
using test::expect_near;
using test::fast_isas;
using test::kFormats;
using test::multiplies_pairs;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::Sequences;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

TEST(TopkBitmask, SetsAllPositionsOfSelectedBlocks) {
  const KeyBlocks blocks = {.size = 16, .count = 3, .local = 2};
  // Blocks of 16 up to position 100: the seventh block has five positions.
  std::vector<float> scores = {1.0F, 5.0F, 4.0F, 9.0F, 0.0F, -1.0F, -2.0F};
  std::array<uint64_t, 2> words = {~uint64_t{0}, ~uint64_t{0}};
  topk_blocks_to_bitmask(scores.data(), 101, blocks, words.data());
  EXPECT_EQ(words[0], uint64_t{0xffff} << 48);
  EXPECT_EQ(words[1], (uint64_t{0xffff} << 16) | (uint64_t{0x1f} << 32));
  std::vector<float> few = {1.0F, 5.0F, 4.0F};
  topk_blocks_to_bitmask(few.data(), 40, blocks, words.data());
  EXPECT_EQ(words[0], (uint64_t{1} << 40) - 1);
}

TEST(TopkBitmask, TiesGoToTheFirst) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> scores = {3.0F, -1.0F, 0.0F, 3.0F, -0.0F, none, 7.0F, 0.0F};
  const auto best = [&](int64_t count) {
    uint64_t word = 0;
    topk_to_bitmask(scores.data(), 8, count, &word);
    return word;
  };
  EXPECT_EQ(best(1), 0b01000000U);
  EXPECT_EQ(best(2), 0b01000001U);
  EXPECT_EQ(best(3), 0b01001001U);
  EXPECT_EQ(best(4), 0b01001101U);
  EXPECT_EQ(best(5), 0b01011101U);
  EXPECT_EQ(best(7), 0b11011111U);
  EXPECT_EQ(best(8), 0b11111111U);
  EXPECT_EQ(best(100), 0b11111111U);
}

TEST(TopkBitmask, MatchesSorting) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  for (const int64_t n : {1, 63, 64, 65, 1000}) {
    std::vector<float> scores(static_cast<size_t>(n));
    // Some values occur several times.
    for (float& x : scores) x = std::round(normal(rng) * 50.0F) / 7.0F;
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    for (const int64_t count : {int64_t{1}, n / 3 + 1, n - 1, n}) {
      std::vector<uint64_t> want(static_cast<size_t>((n + 63) / 64), 0);
      std::vector<uint64_t> got(want.size(), ~uint64_t{0});
      for (int64_t i = 0; i < count; ++i) {
        const int64_t p = order[static_cast<size_t>(i)];
        want[static_cast<size_t>(p / 64)] |= uint64_t{1} << (p % 64);
      }
      if (count == 0) continue;
      topk_to_bitmask(scores.data(), n, count, got.data());
      EXPECT_EQ(got, want) << count << " of " << n;
    }
  }
}

std::vector<CacheSetup> selection_setups() {
  std::vector<CacheSetup> all;
  for (const DType dtype : kFormats) {
    all.push_back({.block_size = 7, .dtype = dtype});
    all.push_back({.heads = 20, .kv_heads = 1, .head_dim = 20, .dtype = dtype});
  }
  return all;
}

// Selects some scattered positions, the row itself, and for later rows none in the first tiles.
bool some(size_t sequence, int32_t row, int32_t p) {
  if (p == row) return true;
  if (row > 300 && p < 200) return false;
  return (p * 2654435761U >> 7) % 5 == (sequence + static_cast<size_t>(row)) % 5;
}

TEST(SelectedKeys, AttentionIgnoresOtherKeys) {
  const std::vector<int32_t> lengths = {1, 40, 130, test::repetitions(600, 350)};
  for (const CacheSetup& setup : selection_setups()) {
    Sequences plain(reference_ops(), setup, lengths);
    plain.select_keys(some);
    const TestTensor want = plain.run_all(TestContext(reference_ops(), 2, 1024, 1024, 56));
    for (const CpuIsa& isa : fast_isas()) {
      if (multiplies_pairs(isa, setup.dtype)) continue;
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      Sequences sequences(*isa.table, setup, lengths);
      sequences.select_keys(some);
      expect_near(sequences.run_all(TestContext(*isa.table, 2, 1024, 1024, 56)), want, 8e-6F, 4e-6F,
                  "against the reference");
    }
  }
}

TEST(SelectedKeys, SelectingAllKeysEqualsDenseAttention) {
  const std::vector<int32_t> lengths = {1, 64, 65, test::repetitions(700, 200)};
  for (const CacheSetup& setup : selection_setups()) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      Sequences sequences(*isa.table, setup, lengths);
      const TestContext ctx(*isa.table, 2, 1024, 1024, 56);
      const TestTensor want = sequences.run_all(ctx);
      sequences.select_keys([](size_t, int32_t, int32_t) { return true; });
      EXPECT_TRUE(same_rows(sequences.run_all(ctx), want));
    }
  }
}

TEST(SelectedKeys, KvHeadsHaveSeparateSelections) {
  const std::vector<int32_t> lengths = {1, 130, test::repetitions(600, 350)};
  const auto by_head = [](size_t s, int32_t row, int64_t head, int32_t p) {
    return p == row || some(s, row, (p + 17 * static_cast<int32_t>(head)) % 600);
  };
  for (const CacheSetup& setup : selection_setups()) {
    if (setup.kv_heads < 2) continue;
    Sequences plain(reference_ops(), setup, lengths);
    plain.select_keys_per_head(setup.kv_heads, by_head);
    const TestTensor want = plain.run_all(TestContext(reference_ops(), 2, 1024, 1024, 56));
    Sequences same(reference_ops(), setup, lengths);
    same.select_keys([&](size_t s, int32_t row, int32_t p) { return by_head(s, row, 0, p); });
    EXPECT_FALSE(same_rows(same.run_all(TestContext(reference_ops(), 2, 1024, 1024, 56)), want));
    for (const CpuIsa& isa : fast_isas()) {
      if (multiplies_pairs(isa, setup.dtype)) continue;
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      Sequences sequences(*isa.table, setup, lengths);
      sequences.select_keys_per_head(setup.kv_heads, by_head);
      expect_near(sequences.run_all(TestContext(*isa.table, 2, 1024, 1024, 56)), want, 8e-6F, 4e-6F,
                  "against the reference");
    }
  }
}

TEST(SelectedKeys, ResultsDoNotDependOnTheBatch) {
  const int32_t length = test::repetitions(700, 350);
  const std::vector<int32_t> lengths = {40, length, length + 1};
  for (const CacheSetup& setup : selection_setups()) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      Sequences sequences(*isa.table, setup, lengths);
      sequences.select_keys(some);
      const TestTensor together = sequences.run_all(TestContext(*isa.table, 2, 2048, 1024, 56));
      for (const int32_t at : {length - 1, length / 2, 64}) {
        const TestTensor alone =
            sequences.run({1, at, 1}, {1, at + 1, 1}, TestContext(*isa.table, 1, 2048, 1024, 56));
        EXPECT_TRUE(same_row(alone, 0, together, 40 + at)) << at;
      }
    }
  }
}

// Queries and head weights of an indexer, and a cache of its keys.
struct Indexer {
  static constexpr int32_t kHeads = 9;
  static constexpr int32_t kDim = 24;

  Indexer(const OpTable& ops, DType dtype, int32_t block_size, std::vector<int32_t> sizes)
      : table(ops),
        lengths(std::move(sizes)),
        queries(random_tensor(DType::kF32, {rows(), kHeads, kDim}, 1)),
        weights(random_tensor(DType::kF32, {rows(), kHeads}, 2)),
        keys(random_tensor(DType::kF32, {rows(), 1, kDim}, 3)) {
    for (const int32_t n : lengths) {
      for (int32_t p = 0; p < n; p += block_size) table_ids.push_back(static_cast<int32_t>(table_ids.size()));
      indptr.push_back(static_cast<int32_t>(table_ids.size()));
    }
    std::shuffle(table_ids.begin(), table_ids.end(), std::mt19937(3));
    const int64_t bytes = kv_part_bytes(dtype, block_size, 1, kDim);
    pool.assign(table_ids.size() * static_cast<size_t>(bytes), std::byte{0xff});
    cache = {pool.data(), bytes, 0, dtype, block_size, 1, kDim};
    std::vector<int64_t> slots;
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int32_t p = 0; p < lengths[s]; ++p) {
        const int32_t block = table_ids[static_cast<size_t>(indptr[s] + p / block_size)];
        slots.push_back(int64_t{block} * block_size + p % block_size);
      }
    }
    table.run(OpContext{}, ops::KvWrite{.cache = cache, .k = keys, .slot_mapping = slots});
  }
  int64_t rows() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  // Returns the selection masks of rows [from[s], to[s]) of each sequence; for block selection, of all heads
  // one after another. Rows are tokens; `tokens` consecutive tokens share a key.
  std::vector<std::vector<uint64_t>> choose(const std::vector<int32_t>& from, const std::vector<int32_t>& to,
                                            int32_t count, const OpContext& ctx,
                                            const KeyBlocks* blocks = nullptr, int32_t tokens = 1) const {
    std::vector<int32_t> cu = {0};
    for (size_t s = 0; s < lengths.size(); ++s) cu.push_back(cu.back() + to[s] - from[s]);
    TestTensor q(DType::kF32, {cu.back(), kHeads, kDim}, 4);
    TestTensor w(DType::kF32, {cu.back(), kHeads}, 4);
    int32_t begin = 0;
    for (size_t s = 0; s < lengths.size(); begin += lengths[s++]) {
      for (int32_t p = from[s]; p < to[s]; ++p) {
        const int32_t row = cu[s] + p - from[s];
        std::copy_n(queries.view().row<float>(begin + p / tokens), kHeads * kDim, q.view().row<float>(row));
        std::copy_n(weights.view().row<float>(begin + p / tokens), kHeads, w.view().row<float>(row));
      }
    }
    constexpr int64_t kWords = 12;
    const int64_t heads = blocks == nullptr ? 1 : kHeads;
    std::vector<uint64_t> bits(static_cast<size_t>(cu.back() * heads * kWords), 0);
    const AttentionBatch batch = {static_cast<int32_t>(lengths.size()), cu, to, indptr, table_ids};
    const SparseMask selected = {bits.data(), kWords, heads};
    if (blocks == nullptr) {
      table.run(ctx, ops::TopkKeys{.mask = selected,
                                   .q = q,
                                   .weights = w,
                                   .keys = cache,
                                   .batch = batch,
                                   .count = count,
                                   .tokens_per_key = tokens});
    } else {
      table.run(ctx,
                ops::TopkBlocks{.mask = selected, .q = q, .keys = cache, .batch = batch, .blocks = *blocks});
    }
    std::vector<std::vector<uint64_t>> rows;
    for (int32_t r = 0; r < cu.back(); ++r)
      rows.emplace_back(selected.row(r), selected.row(r) + heads * kWords);
    return rows;
  }
  std::vector<std::vector<uint64_t>> choose_all(int32_t count, const OpContext& ctx) const {
    return choose(std::vector<int32_t>(lengths.size(), 0), lengths, count, ctx);
  }

  const OpTable& table;
  std::vector<int32_t> lengths;
  TestTensor queries;  // [rows of all sequences, heads, dim]
  TestTensor weights;
  TestTensor keys;
  std::vector<std::byte> pool;
  KvCacheView cache;
  std::vector<int32_t> indptr = {0};
  std::vector<int32_t> table_ids;
};

TEST(TopkKeys, SelectsTheHighestScores) {
  constexpr int32_t kCount = 50;
  const std::vector<int32_t> lengths = {30, 650};
  for (const CpuIsa& isa : usable_isas()) {
    SCOPED_TRACE(std::string(isa.name));
    const Indexer indexer(*isa.table, DType::kF32, 16, lengths);
    const auto rows = indexer.choose_all(kCount, TestContext(*isa.table, 2, 1024, 1024, 16));
    for (int32_t at = 0; at < 650; at += 13) {
      const int32_t row = 30 + at;
      std::vector<double> scores;
      for (int32_t p = 0; p <= at; ++p) {
        double score = 0.0;
        for (int32_t h = 0; h < Indexer::kHeads; ++h) {
          double dot = 0.0;
          for (int32_t i = 0; i < Indexer::kDim; ++i)
            dot += double{indexer.queries.get(row, h * Indexer::kDim + i)} * indexer.keys.get(30 + p, i);
          score += indexer.weights.get(row, h) * std::max(dot, 0.0);
        }
        scores.push_back(score);
      }
      std::vector<double> sorted = scores;
      std::ranges::sort(sorted, std::greater<>());
      const double lowest = sorted[std::min(sorted.size(), size_t{kCount}) - 1];
      int32_t set = 0;
      for (int32_t p = 0; p < 650; ++p) {
        const bool selected =
            (rows[static_cast<size_t>(row)][static_cast<size_t>(p / 64)] >> (p % 64) & 1U) != 0;
        set += selected ? 1 : 0;
        if (p > at) {
          EXPECT_FALSE(selected) << row << " sees " << p;
        } else if (std::fabs(scores[static_cast<size_t>(p)] - lowest) > 1e-4) {
          EXPECT_EQ(selected, scores[static_cast<size_t>(p)] > lowest) << row << " at " << p;
        }
      }
      EXPECT_EQ(set, std::min(at + 1, kCount));
    }
    for (size_t row = 0; row < 30; ++row) EXPECT_EQ(rows[row][0], (uint64_t{1} << (row + 1)) - 1);
  }
}

TEST(TopkKeys, ResultsDoNotDependOnTheBatch) {
  const int32_t length = test::repetitions(650, 200);
  const std::vector<int32_t> lengths = {30, length, test::repetitions(200, 70)};
  for (const DType dtype : kFormats) {
    for (const int32_t block_size : {7, 16}) {
      for (const CpuIsa& isa : usable_isas()) {
        SCOPED_TRACE(std::string(isa.name) + ", " + std::string(dtype_name(dtype)));
        const Indexer indexer(*isa.table, dtype, block_size, lengths);
        const auto together = indexer.choose_all(40, TestContext(*isa.table, 2, 1024, 1024, 16));
        for (const int32_t at : {length - 1, length - 138, 45, 39, 3}) {
          const auto alone =
              indexer.choose({1, at, 1}, {1, at + 1, 1}, 40, TestContext(*isa.table, 1, 1024, 1024, 16));
          EXPECT_EQ(alone[0], together[static_cast<size_t>(30 + at)]) << at;
        }
      }
    }
  }
}

// A key of several tokens is visible starting at the last of them.
TEST(TopkKeys, KeysMayRepresentSeveralTokens) {
  constexpr int32_t kTokens = 3;
  for (const int32_t block_size : {7, 16}) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name));
      const TestContext ctx(*isa.table, 2, 1024, 1024, 16);
      const Indexer indexer(*isa.table, DType::kF32, block_size, {210});
      const auto keys = indexer.choose_all(20, ctx);
      const auto tokens = indexer.choose({0}, {630}, 20, ctx, nullptr, kTokens);
      for (size_t row = 0; row < 630; ++row) {
        if ((row + 1) % kTokens == 0) {
          EXPECT_EQ(tokens[row], keys[row / kTokens]) << row;
        }
        int set = 0;
        for (const uint64_t word : tokens[row]) set += std::popcount(word);
        EXPECT_EQ(set, std::min<int>(20, static_cast<int>(row + 1) / kTokens)) << row;
      }
    }
  }
}

// For each head, the blocks with the highest maximum score, and the last blocks.
TEST(TopkBlocks, SelectsTheHighestMaximumScores) {
  constexpr KeyBlocks kBlocks = {.size = 48, .count = 4, .local = 2};
  for (const CpuIsa& isa : usable_isas()) {
    SCOPED_TRACE(std::string(isa.name));
    const Indexer indexer(*isa.table, DType::kF32, 16, {30, 650});
    const auto rows =
        indexer.choose({0, 0}, {30, 650}, 1, TestContext(*isa.table, 2, 1024, 1024, 16), &kBlocks);
    for (int32_t at = 0; at < 650; at += 13) {
      const int32_t row = 30 + at;
      const int32_t own = at / kBlocks.size;
      for (int32_t h = 0; h < Indexer::kHeads; ++h) {
        std::vector<double> best(static_cast<size_t>(own) + 1, -1e9);
        for (int32_t p = 0; p <= at; ++p) {
          double dot = 0.0;
          for (int32_t i = 0; i < Indexer::kDim; ++i)
            dot += double{indexer.queries.get(row, h * Indexer::kDim + i)} * indexer.keys.get(30 + p, i);
          best[static_cast<size_t>(p / kBlocks.size)] =
              std::max(best[static_cast<size_t>(p / kBlocks.size)], dot);
        }
        for (int32_t b = std::max(0, own + 1 - kBlocks.local); b <= own; ++b)
          best[static_cast<size_t>(b)] = 1e9;
        std::vector<double> sorted = best;
        std::ranges::sort(sorted, std::greater<>());
        const double lowest = sorted[std::min(sorted.size(), size_t{kBlocks.count}) - 1];
        const uint64_t* words = rows[static_cast<size_t>(row)].data() + h * 12;
        for (int32_t p = 0; p < 650; ++p) {
          const bool selected = (words[p / 64] >> (p % 64) & 1U) != 0;
          const double score = p <= at ? best[static_cast<size_t>(p / kBlocks.size)] : -2e9;
          if (std::fabs(score - lowest) > 1e-4 || score > 1e8) {
            EXPECT_EQ(selected, score >= lowest) << row << ", head " << h << " at " << p;
          }
        }
      }
    }
  }
}

TEST(TopkBlocks, ResultsDoNotDependOnTheBatch) {
  constexpr KeyBlocks kBlocks = {.size = 32, .count = 5, .local = 1};
  const int32_t length = test::repetitions(650, 330);
  const std::vector<int32_t> lengths = {30, length, 200};
  for (const DType dtype : kFormats) {
    for (const int32_t block_size : {7, 16}) {
      for (const CpuIsa& isa : usable_isas()) {
        SCOPED_TRACE(std::string(isa.name) + ", " + std::string(dtype_name(dtype)));
        const Indexer indexer(*isa.table, dtype, block_size, lengths);
        const auto together =
            indexer.choose({0, 0, 0}, lengths, 1, TestContext(*isa.table, 2, 1024, 1024, 16), &kBlocks);
        for (const int32_t at : {length - 1, length - 138, 200, 159, 3}) {
          const auto alone = indexer.choose({1, at, 1}, {1, at + 1, 1}, 1,
                                            TestContext(*isa.table, 1, 1024, 1024, 16), &kBlocks);
          EXPECT_EQ(alone[0], together[static_cast<size_t>(30 + at)]) << at;
        }
      }
    }
  }
}

TEST(TopkKeys, AllFormatsAreCloseToFloat32) {
  for (const CpuIsa& isa : usable_isas()) {
    const Indexer exact(*isa.table, DType::kF32, 16, {650});
    const auto want = exact.choose({649}, {650}, 100, TestContext(*isa.table, 2, 1024, 1024, 16)).back();
    for (const DType dtype : kFormats) {
      const Indexer rounded(*isa.table, dtype, 16, {650});
      const auto got = rounded.choose({649}, {650}, 100, TestContext(*isa.table, 2, 1024, 1024, 16)).back();
      int common = 0;
      for (size_t i = 0; i < want.size(); ++i) common += std::popcount(want[i] & got[i]);
      EXPECT_GE(common, 80) << isa.name << ", " << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace quire
