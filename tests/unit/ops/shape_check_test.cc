#include "ops/shape_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "ops/reference.h"
#include "unit/ops/op_examples.h"

namespace quire {
namespace {

using test::example;
using test::faults;
using test::floats;
using test::ids;
using test::matrix;
using test::Type;

template <class Args>
std::string error_of(const Args& args) {
  try {
    check(args);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

template <class Args>
void expect_error(const Args& args, const std::string& message) {
  EXPECT_THAT(error_of(args), ::testing::HasSubstr(message));
}

TEST(ShapeCheck, EveryOpAcceptsItsExample) {
  for_each_op(AllOps{}, []<class Args>() { EXPECT_EQ(error_of(example(Type<Args>{})), "") << Args::kName; });
}

TEST(ShapeCheck, EveryOpRejectsWrongShapesWithItsNameAndTheirs) {
  for_each_op(AllOps{}, []<class Args>() {
    const auto all = faults(Type<Args>{});
    EXPECT_FALSE(all.empty()) << Args::kName;
    for (const auto& fault : all) {
      Args args = example(Type<Args>{});
      fault.make(args);
      EXPECT_THAT(error_of(args), ::testing::StartsWith(std::string(Args::kName) + ": "));
      EXPECT_THAT(error_of(args), ::testing::HasSubstr(fault.message));
    }
  });
}

TEST(CheckedTable, RunsTheCheckOfEveryOpFirst) {
  const OpTable table = checked(reference_ops());
  for_each_op(AllOps{}, [&]<class Args>() {
    Args args = example(Type<Args>{});
    faults(Type<Args>{}).front().make(args);
    EXPECT_THROW(table.run({}, args), Error) << Args::kName;
  });
}

TEST(ShapeCheck, LinearRejectsABiasOfAnotherSize) {
  PackedLinear biased;
  biased.n = 5;
  biased.k = 3;
  biased.bias = Buffer(4 * sizeof(float));
  expect_error(ops::Linear{.out = floats({2, 5}), .x = floats({2, 3}), .w = biased}, "bias of 16 bytes");
}

TEST(ShapeCheck, AGatedProductHasHalfTheColumnsAndFullPanelsOfGates) {
  PackedLinear gated;
  gated.n = 128;
  gated.k = 3;
  EXPECT_TRUE(can_gate(gated));
  gated.gate = Activation::kSilu;
  const TensorView x = floats({2, 3});
  const TensorView half = floats({2, 64});
  EXPECT_EQ(error_of(ops::Linear{.out = half, .x = x, .w = gated}), "");
  expect_error(ops::Linear{.out = floats({2, 128}), .x = x, .w = gated}, "half of n");
  expect_error(ops::Linear{.out = half, .x = x, .w = gated, .residual = half}, "no residual");
  EXPECT_FALSE(can_gate(matrix(96, 3)));
  gated.format.outlier_threshold = 6.0F;
  EXPECT_FALSE(can_gate(gated));
}

TEST(ShapeCheck, AttentionNeedsBlocksForAllItsTokens) {
  const auto with = [](int32_t length, std::span<const int32_t> rows) {
    const AttentionParams params;
    const AttentionBatch batch = {1, rows, ids({length}), ids({0, 3}), ids({0, 1, 2})};
    return error_of(ops::PagedAttention{.out = floats({2, 4, 8}),
                                        .q = floats({2, 4, 8}),
                                        .cache = test::cache_of(1),
                                        .batch = batch,
                                        .params = params});
  };
  EXPECT_EQ(with(9, ids({0, 2})), "");
  EXPECT_THAT(with(13, ids({0, 2})), ::testing::HasSubstr("13 tokens"));
  EXPECT_THAT(with(1, ids({0, 2})), ::testing::HasSubstr("1 tokens"));
  EXPECT_THAT(with(9, ids({0, 3})), ::testing::HasSubstr("q's rows"));
}

TEST(ShapeCheck, SharedPrefixesMustMatchTheBlockTables) {
  const auto with = [](std::span<const int32_t> order, std::span<const int32_t> blocks) {
    const AttentionParams params;
    const AttentionBatch batch = {2,     ids({0, 1, 2}), ids({7, 8}), ids({0, 2, 4}), ids({5, 6, 5, 7}),
                                  order, blocks};
    return error_of(ops::PagedAttention{.out = floats({2, 4, 8}),
                                        .q = floats({2, 4, 8}),
                                        .cache = test::cache_of(1),
                                        .batch = batch,
                                        .params = params});
  };
  EXPECT_EQ(with(ids({1, 0}), ids({1, 0})), "");
  EXPECT_EQ(with(ids({0, 1}), ids({0, 0})), "");
  EXPECT_THAT(with(ids({0, 1}), ids({2, 0})), ::testing::HasSubstr("must be the same"));
  EXPECT_THAT(with(ids({0, 1}), ids({1, 1})), ::testing::HasSubstr("must be the same"));
  EXPECT_THAT(with(ids({0, 0}), ids({1, 0})), ::testing::HasSubstr("once"));
  EXPECT_THAT(with(ids({0, 2}), ids({1, 0})), ::testing::HasSubstr("2 of 2"));
  EXPECT_THAT(with(ids({0}), ids({1, 0})), ::testing::HasSubstr("1 of 2"));
}

TEST(ShapeCheck, KvWriteAcceptsEveryCacheFormat) {
  for (const DType dtype : {DType::kF32, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    ops::KvWrite args = example(Type<ops::KvWrite>{});
    args.cache.dtype = dtype;
    EXPECT_EQ(error_of(args), "");
  }
}

TEST(ShapeCheck, RelativeAttentionNeedsValidBuckets) {
  ops::RelativeAttention valid = example(Type<ops::RelativeAttention>{});
  const auto with = [&](std::span<const int32_t> buckets) {
    const RelativeParams params = {.buckets = buckets, .num_buckets = 3};
    return error_of(ops::RelativeAttention{
        .out = valid.out, .q = valid.q, .k = valid.k, .v = valid.v, .batch = valid.batch, .params = params});
  };
  EXPECT_THAT(with(ids({0, 3, 1})), ::testing::HasSubstr("3 of 3"));
  EXPECT_THAT(with(ids({0, 1})), ::testing::HasSubstr("2 buckets"));
}

TEST(ShapeCheck, StatesMustBeInTheSequencesBlocks) {
  const auto with = [](std::span<const int32_t> rows, std::span<const int32_t> blocks, int32_t blocks_each) {
    const StateBatch batch = {2, rows, ids({0, 4}), blocks, blocks_each};
    const TensorView x = floats({3, 4, 8});
    const TensorView b = floats({3, 2, 5});
    const TensorView gates = floats({3, 4});
    return error_of(ops::SsmScan{.out = x,
                                 .x = x,
                                 .B = b,
                                 .C = b,
                                 .decay = gates,
                                 .dt = gates,
                                 .D = floats({4}),
                                 .batch = batch,
                                 .state = test::state_of(4)});
  };
  EXPECT_EQ(with(ids({0, 1, 3}), ids({5, 6, 7, 8}), 2), "");
  EXPECT_THAT(with(ids({0, 1, 3}), ids({5, 6, 7, 8}), 1), ::testing::HasSubstr("4 blocks"));
  EXPECT_THAT(with(ids({0, 1, 3}), ids({5, 6}), 1), ::testing::HasSubstr("block 1 of 1"));
  EXPECT_THAT(with(ids({0, 1, 2}), ids({5, 6, 7, 8}), 2), ::testing::HasSubstr("up to the last row"));
}

TEST(KvBytes, CountElementsAndScales) {
  // A block of 16 tokens, 2 heads of 64 dimensions.
  EXPECT_EQ(kv_bytes_per_block(DType::kF32, 16, 2, 64), 2 * 16 * 2 * 64 * 4);
  EXPECT_EQ(kv_bytes_per_block(DType::kF16, 16, 2, 64), 2 * 16 * 2 * 64 * 2);
  EXPECT_EQ(kv_bytes_per_block(DType::kF8E4M3, 16, 2, 64), 2 * 16 * 2 * 64);
  EXPECT_EQ(kv_bytes_per_block(DType::kI8, 16, 2, 64), 2 * 16 * 2 * (64 + 4));
  EXPECT_EQ(kv_element_bytes(DType::kI8, 1, 1, 5), 8) << "scales start at a multiple of 4 bytes";
  EXPECT_EQ(kv_bytes_per_block(DType::kI8, 1, 1, 5), 2 * (8 + 4));
}

}  // namespace
}  // namespace quire
