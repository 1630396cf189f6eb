#include "ops/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace quire {
namespace {

float storage[4096];

TensorView f32(Shape shape) {
  return make_view(storage, DType::kF32, shape);
}

void expect_refusal(const std::function<void()>& check, const std::string& shape) {
  try {
    check();
    FAIL() << "accepted; the fault was in " << shape;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(shape));
  }
}

PackedLinear matrix(int64_t n, int64_t k) {
  PackedLinear w;
  w.n = n;
  w.k = k;
  return w;
}

TEST(Checks, LinearTakesMatchingShapesAlone) {
  check_linear(f32({2, 5}), f32({2, 3}), matrix(5, 3), {});
  check_linear(f32({2, 5}), f32({2, 3}), matrix(5, 3), f32({2, 5}));
  expect_refusal([] { check_linear(f32({2, 5}), f32({2, 4}), matrix(5, 3), {}); }, "[2, 4]");
  expect_refusal([] { check_linear(f32({2, 6}), f32({2, 3}), matrix(5, 3), {}); }, "[2, 6]");
  expect_refusal([] { check_linear(f32({3, 5}), f32({2, 3}), matrix(5, 3), {}); }, "[3, 5]");
  expect_refusal([] { check_linear(f32({2, 5}), f32({2, 3}), matrix(5, 3), f32({1, 5})); }, "[1, 5]");
  expect_refusal(
      [] {
        check_linear(make_view(storage, DType::kBF16, {2, 5}), f32({2, 3}), matrix(5, 3), {});
      },
      "bfloat16");
  PackedLinear biased = matrix(5, 3);
  biased.bias = Buffer(4 * sizeof(float));
  expect_refusal([&] { check_linear(f32({2, 5}), f32({2, 3}), biased, {}); }, "bias of 16 bytes");
}

TEST(Checks, AGatedProductHasHalfTheColumnsAndWholePanelsOfGates) {
  PackedLinear gated = matrix(128, 3);
  EXPECT_TRUE(can_gate(gated));
  gated.gate = Activation::kSilu;
  check_linear(f32({2, 64}), f32({2, 3}), gated, {});
  expect_refusal([&] { check_linear(f32({2, 128}), f32({2, 3}), gated, {}); }, "half of n");
  expect_refusal([&] { check_linear(f32({2, 64}), f32({2, 3}), gated, f32({2, 64})); }, "no residual");
  EXPECT_FALSE(can_gate(matrix(96, 3)));
  gated.format.outlier_threshold = 6.0F;
  EXPECT_FALSE(can_gate(gated));
}

TEST(Checks, EmbeddingRefusesIdsOutsideTheTable) {
  const std::vector<int32_t> good = {0, 9};
  const std::vector<int32_t> high = {0, 10};
  const std::vector<int32_t> low = {-1, 0};
  check_embedding(f32({2, 4}), f32({10, 4}), good);
  expect_refusal([&] { check_embedding(f32({2, 4}), f32({10, 4}), high); }, "10 of 10");
  expect_refusal([&] { check_embedding(f32({2, 4}), f32({10, 4}), low); }, "-1 of 10");
  expect_refusal([&] { check_embedding(f32({3, 4}), f32({10, 4}), good); }, "[3, 4]");
  expect_refusal(
      [&] {
        check_embedding(f32({2, 4}), make_view(storage, DType::kI8, {10, 4}), good);
      },
      "int8");
  check_embedding_packed(f32({2, 4}), matrix(10, 4), good);
  expect_refusal([&] { check_embedding_packed(f32({2, 4}), matrix(10, 4), high); }, "10 of 10");
}

TEST(Checks, NormsNeedTheWeightOfTheLastDimension) {
  check_norm(f32({2, 3, 8}), f32({2, 3, 8}), f32({8}), {});
  expect_refusal([] { check_norm(f32({2, 8}), f32({2, 8}), f32({7}), {}); }, "[7]");
  expect_refusal([] { check_norm(f32({2, 9}), f32({2, 8}), f32({8}), {}); }, "[2, 9]");
  expect_refusal([] { check_norm(f32({2, 8}), f32({2, 8}), f32({8}), f32({6})); }, "[6]");
}

TEST(Checks, RopeNeedsPositionsInsideItsTable) {
  const std::vector<int32_t> good = {0, 4};
  const std::vector<int32_t> bad = {0, 5};
  check_rope(f32({2, 3, 8}), good, f32({5, 6}));
  expect_refusal([&] { check_rope(f32({2, 3, 8}), bad, f32({5, 6})); }, "5 of 5");
  expect_refusal([&] { check_rope(f32({2, 3, 8}), good, f32({5, 10})); }, "[5, 10]");
  expect_refusal([&] { check_rope(f32({2, 3, 8}), good, f32({5, 5})); }, "[5, 5]");
  expect_refusal([&] { check_rope(f32({3, 3, 8}), good, f32({5, 6})); }, "positions [2]");
}

TEST(Checks, AttentionNeedsBlocksForAllItsTokens) {
  const KvCacheView cache = {reinterpret_cast<std::byte*>(storage), 1024, 0, DType::kF32, 4, 1, 8};
  const std::vector<int32_t> cu = {0, 2};
  const std::vector<int32_t> lens = {9};
  const std::vector<int32_t> too_long = {13};
  const std::vector<int32_t> too_short = {1};
  const std::vector<int32_t> indptr = {0, 3};
  const std::vector<int32_t> blocks = {0, 1, 2};
  const TensorView q = f32({2, 4, 8});
  check_paged_attention(q, q, cache, {1, cu, lens, indptr, blocks});
  expect_refusal([&] { check_paged_attention(q, q, cache, {1, cu, too_long, indptr, blocks}); }, "13 tokens");
  expect_refusal([&] { check_paged_attention(q, q, cache, {1, cu, too_short, indptr, blocks}); }, "1 tokens");
  expect_refusal(
      [&] {
        check_paged_attention(q, f32({2, 4, 9}), cache, {1, cu, lens, indptr, blocks});
      },
      "[2, 4, 9]");
  expect_refusal(
      [&] {
        check_paged_attention(q, f32({3, 4, 8}), cache, {1, cu, lens, indptr, blocks});
      },
      "[3, 4, 8]");
}

TEST(Checks, SharedPrefixesAreWhatTheBlockTablesSay) {
  const KvCacheView cache = {reinterpret_cast<std::byte*>(storage), 1024, 0, DType::kF32, 4, 1, 8};
  const std::vector<int32_t> cu = {0, 1, 2}, lens = {7, 8}, indptr = {0, 2, 4}, ids = {5, 6, 5, 7};
  const TensorView q = f32({2, 4, 8});
  const auto check = [&](std::vector<int32_t> order, std::vector<int32_t> blocks) {
    check_paged_attention(q, q, cache, {2, cu, lens, indptr, ids, order, blocks});
  };
  check({1, 0}, {1, 0});
  check({0, 1}, {0, 0});
  expect_refusal([&] { check({0, 1}, {2, 0}); }, "must be the same");
  expect_refusal([&] { check({0, 1}, {1, 1}); }, "must be the same");
  expect_refusal([&] { check({0, 0}, {1, 0}); }, "once");
  expect_refusal([&] { check({0, 2}, {1, 0}); }, "2 of 2");
  expect_refusal([&] { check({0}, {1, 0}); }, "1 of 2");
}

TEST(Checks, TheCacheHasOneOfItsFormats) {
  const std::vector<int64_t> slots = {0, -1};
  for (const DType dtype : {DType::kF32, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    const KvCacheView cache = {reinterpret_cast<std::byte*>(storage), 1024, 0, dtype, 4, 2, 8};
    check_kv_write(cache, f32({2, 2, 8}), f32({2, 2, 8}), slots);
  }
  const KvCacheView cache = {reinterpret_cast<std::byte*>(storage), 1024, 0, DType::kI16, 4, 2, 8};
  expect_refusal([&] { check_kv_write(cache, f32({2, 2, 8}), f32({2, 2, 8}), slots); }, "number formats");
}

TEST(KvBytes, CountElementsAndScales) {
  // A block of 16 tokens, 2 heads of 64.
  EXPECT_EQ(kv_bytes_per_block(DType::kF32, 16, 2, 64), 2 * 16 * 2 * 64 * 4);
  EXPECT_EQ(kv_bytes_per_block(DType::kF16, 16, 2, 64), 2 * 16 * 2 * 64 * 2);
  EXPECT_EQ(kv_bytes_per_block(DType::kF8E4M3, 16, 2, 64), 2 * 16 * 2 * 64);
  EXPECT_EQ(kv_bytes_per_block(DType::kI8, 16, 2, 64), 2 * 16 * 2 * (64 + 4));
  EXPECT_EQ(kv_element_bytes(DType::kI8, 1, 1, 5), 8) << "scales begin at a multiple of 4 bytes";
  EXPECT_EQ(kv_bytes_per_block(DType::kI8, 1, 1, 5), 2 * (8 + 4));
}

TEST(Checks, KvWriteAndGatesMatchTheirRows) {
  const KvCacheView cache = {reinterpret_cast<std::byte*>(storage), 1024, 0, DType::kF32, 4, 2, 8};
  const std::vector<int64_t> slots = {0, -1};
  check_kv_write(cache, f32({2, 2, 8}), f32({2, 2, 8}), slots);
  expect_refusal([&] { check_kv_write(cache, f32({2, 3, 8}), f32({2, 2, 8}), slots); }, "[2, 3, 8]");
  expect_refusal([&] { check_kv_write(cache, f32({3, 2, 8}), f32({3, 2, 8}), slots); }, "slots [2]");
  std::vector<int32_t> ids(4);
  check_route_experts(ids, f32({2, 2}), f32({2, 6}), {.num_chosen = 2, .num_groups = 3, .chosen_groups = 1});
  expect_refusal([&] { check_route_experts(ids, f32({2, 2}), f32({2, 6}), {.num_chosen = 3}); }, "3 chosen");
  expect_refusal(
      [&] {
        check_route_experts(ids, f32({2, 2}), f32({2, 6}), {.num_chosen = 2, .num_groups = 4});
      },
      "4 groups");
  check_combine_rows(f32({2, 8}), f32({3, 8}), ids, f32({2, 2}), {});
  expect_refusal([&] { check_combine_rows(f32({2, 8}), f32({3, 7}), ids, f32({2, 2}), {}); }, "[3, 7]");
  ids[1] = 3;
  expect_refusal([&] { check_combine_rows(f32({2, 8}), f32({3, 8}), ids, f32({2, 2}), {}); }, "3 of 3");
  check_gated_activation(f32({2, 4}), f32({2, 8}));
  expect_refusal([] { check_gated_activation(f32({2, 4}), f32({2, 7})); }, "[2, 7]");
}

TEST(Checks, RelativeAttentionHasABucketForEachDistance) {
  const std::vector<int32_t> cu = {0, 1, 3};
  const AttentionBatch batch = {.num_seqs = 2, .cu_seqlens_q = cu};
  const std::vector<int32_t> buckets = {0, 2, 1}, wrong = {0, 3, 1};
  const RelativeParams params = {.buckets = buckets, .num_buckets = 3};
  const auto check = [&](const TensorView& q, const TensorView& k, const RelativeParams& p) {
    check_relative_attention(q, q, k, k, batch, p);
  };
  check(f32({3, 2, 4}), f32({3, 2, 4}), params);
  expect_refusal([&] { check(f32({3, 2, 4}), f32({3, 1, 4}), params); }, "[3, 1, 4]");
  expect_refusal(
      [&] {
        check(f32({3, 2, 4}), f32({3, 2, 4}), {.buckets = wrong, .num_buckets = 3});
      },
      "3 of 3");
  expect_refusal([&] { check(f32({2, 2, 4}), f32({2, 2, 4}), params); }, "last row");
}

TEST(Checks, StatesHaveAPartForEachHeadInTheSequencesBlocks) {
  const std::vector<int32_t> cu = {0, 1, 3}, first = {0, 4}, blocks = {5, 6, 7, 8};
  const std::vector<StatePlace> places = {{0, 64}, {1, 0}, {1, 64}, {0, 128}};
  const StateBatch batch = {2, cu, first, blocks, 2};
  const StateView state = {reinterpret_cast<std::byte*>(storage), 1024, places};
  const StateView one = {reinterpret_cast<std::byte*>(storage), 1024, std::span(places).first(1)};
  check_causal_conv(f32({3, 8}), f32({4, 8}), {}, batch, one);
  expect_refusal([&] { check_causal_conv(f32({3, 8}), f32({4, 7}), {}, batch, one); }, "[4, 7]");
  expect_refusal([&] { check_causal_conv(f32({3, 8}), f32({9, 8}), {}, batch, one); }, "[9, 8]");
  expect_refusal([&] { check_causal_conv(f32({3, 8}), f32({4, 8}), {}, batch, state); }, "4 of 1");
  const auto scan = [&](const TensorView& x, const TensorView& b, const StateBatch& seqs,
                        const StateView& view) {
    check_ssm_scan(x, x, b, b, f32({3, 4}), f32({3, 4}), f32({4}), seqs, view);
  };
  scan(f32({3, 4, 8}), f32({3, 2, 5}), batch, state);
  expect_refusal([&] { scan(f32({3, 4, 8}), f32({3, 3, 5}), batch, state); }, "[3, 3, 5]");
  expect_refusal([&] { scan(f32({3, 4, 8}), f32({3, 2, 5}), batch, one); }, "1 of 4");
  expect_refusal([&] { scan(f32({3, 4, 8}), f32({3, 2, 5}), {2, cu, first, blocks, 1}, state); }, "4 blocks");
  const std::vector<int32_t> few = {5, 6};
  expect_refusal(
      [&] {
        scan(f32({3, 4, 8}), f32({3, 2, 5}), {2, cu, first, few, 1}, state);
      },
      "block 1 of 1");
  const std::vector<int32_t> short_rows = {0, 1, 2};
  expect_refusal(
      [&] {
        scan(f32({3, 4, 8}), f32({3, 2, 5}), {2, short_rows, first, blocks, 2}, state);
      },
      "up to the last row");
  const auto select = [&](const TensorView& x, const TensorView& b, const TensorView& rate) {
    check_selective_scan(x, x, x, b, b, rate, f32({100}), batch,
                         {state.base, 1024, std::span(places).first(2)});
  };
  select(f32({3, 100}), f32({3, 5}), f32({5, 100}));
  expect_refusal([&] { select(f32({3, 100}), f32({3, 4}), f32({5, 100})); }, "[3, 4]");
  const auto delta = [&](const TensorView& q, const TensorView& v) {
    check_delta_rule(v, q, q, v, f32({3, 4}), f32({3, 4}), batch, state);
  };
  delta(f32({3, 2, 5}), f32({3, 4, 8}));
  expect_refusal([&] { delta(f32({2, 2, 5}), f32({3, 4, 8})); }, "[2, 2, 5]");
  expect_refusal([&] { delta(f32({3, 3, 5}), f32({3, 4, 8})); }, "[3, 3, 5]");
}

}  // namespace
}  // namespace quire
