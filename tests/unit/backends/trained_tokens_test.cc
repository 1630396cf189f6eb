// Trained tokens: rows of embeddings and outputs that are replaced.
#include "ops/trained_tokens.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::fast_isas;
using test::random_buffer;
using test::random_tensor;
using test::same_rows;
using test::TestContext;
using test::TestTensor;

constexpr int64_t kTokenSize = 150;
constexpr int64_t kTokenVocabulary = 20;
constexpr int32_t kFirstTokenRow = 100;

TrainedTokens make_tokens(DType dtype, std::vector<int32_t> ids, uint32_t seed) {
  TrainedTokens tokens{.size = kTokenSize, .dtype = dtype, .ids = std::move(ids), .values = {}};
  tokens.values = random_buffer(dtype, static_cast<int64_t>(tokens.ids.size()) * kTokenSize, seed);
  return tokens;
}

float value_of(const TrainedTokens& tokens, size_t index, int64_t column) {
  return load_f32(tokens.dtype, tokens.values.data(), static_cast<int64_t>(index) * kTokenSize + column);
}

struct Tokens {
  TrainedTokens first = make_tokens(DType::kF32, {1, 4, 19}, 1);
  TrainedTokens second = make_tokens(DType::kBF16, {0, 4}, 2);
  std::vector<int32_t> of_first = {kFirstTokenRow, kFirstTokenRow + 2};
  std::vector<int32_t> of_second = {kFirstTokenRow + 3};
  std::array<TrainedTokensGroup, 2> groups = {{{&first, of_first}, {&second, of_second}}};
};

TEST(ReplaceEmbeddings, ReplacesTheRowsOfTrainedTokens) {
  const Tokens tokens;
  const std::vector<int32_t> ids = {4, 4, 3, 4};
  TestTensor out = random_tensor(DType::kF32, {4, kTokenSize}, 9);
  const TestTensor base = random_tensor(DType::kF32, {4, kTokenSize}, 9);
  checked(reference_ops())
      .run({}, ops::ReplaceEmbeddings{
                   .out = out, .ids = ids, .groups = tokens.groups, .first_row = kFirstTokenRow});
  for (int64_t n = 0; n < kTokenSize; ++n) {
    EXPECT_EQ(out.get(0, n), value_of(tokens.first, 1, n));
    EXPECT_EQ(out.get(1, n), base.get(1, n));
    EXPECT_EQ(out.get(2, n), base.get(2, n));
    EXPECT_EQ(out.get(3, n), value_of(tokens.second, 1, n));
  }
}

TestTensor token_outputs(const Tokens& tokens, const OpTable& table, const OpContext& ctx) {
  const TestTensor x = random_tensor(DType::kF32, {4, kTokenSize}, 5);
  TestTensor out = random_tensor(DType::kF32, {4, kTokenVocabulary}, 9);
  checked(table).run(
      ctx, ops::ReplaceOutputs{.out = out, .x = x, .groups = tokens.groups, .first_row = kFirstTokenRow});
  return out;
}

TEST(ReplaceOutputs, ReplacesTheColumnsOfTrainedTokens) {
  const Tokens tokens;
  const TestTensor x = random_tensor(DType::kF32, {4, kTokenSize}, 5);
  const TestTensor base = random_tensor(DType::kF32, {4, kTokenVocabulary}, 9);
  const TestTensor got = token_outputs(tokens, reference_ops(), {});
  const std::array<const TrainedTokens*, 4> of_row = {&tokens.first, nullptr, &tokens.first, &tokens.second};
  for (int64_t r = 0; r < 4; ++r) {
    std::vector<double> want(static_cast<size_t>(kTokenVocabulary));
    for (int64_t n = 0; n < kTokenVocabulary; ++n) want[static_cast<size_t>(n)] = base.get(r, n);
    const TrainedTokens* own = of_row[static_cast<size_t>(r)];
    for (size_t t = 0; own != nullptr && t < own->ids.size(); ++t) {
      double sum = 0.0;
      for (int64_t k = 0; k < kTokenSize; ++k) sum += static_cast<double>(x.get(r, k)) * value_of(*own, t, k);
      want[static_cast<size_t>(own->ids[t])] = sum;
    }
    for (int64_t n = 0; n < kTokenVocabulary; ++n)
      EXPECT_NEAR(got.get(r, n), want[static_cast<size_t>(n)], 1e-3) << "row " << r << ", token " << n;
  }
}

TEST(ReplaceOutputs, HasTheSameBitsOnEveryLevelAndAnyNumberOfThreads) {
  const Tokens tokens;
  const TestTensor want = token_outputs(tokens, reference_ops(), {});
  for (const CpuIsa& isa : fast_isas()) {
    const TestContext three(*isa.table, 3);
    EXPECT_TRUE(same_rows(token_outputs(tokens, *isa.table, three), want)) << isa.name;
  }
}

}  // namespace
}  // namespace quire
