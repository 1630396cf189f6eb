#include "quant/sparse_24.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "quant/codec.h"

namespace quire {
namespace {

uint32_t code_of(const std::vector<std::byte>& packed, int64_t row, int64_t four) {
  uint32_t codes = 0;
  std::memcpy(&codes, packed.data() + row * 4, sizeof(codes));
  return codes >> (4 * four) & 15U;
}

// The second, then the first kept weight.
std::vector<float> weights_of(const std::vector<std::byte>& packed, int64_t row, int64_t four) {
  std::vector<float> two(2);
  const auto* at = packed.data() + Sparse24::kCodeBytes + four * Sparse24::quad_bytes(2) + row * 4;
  decode_f32(DType::kBF16, at, two.data(), 2);
  return two;
}

TEST(Sparse24, StoresPositionsAndNonzeroWeights) {
  // Row 3 of the panel: 0 5 -0 7 | 9 4 0 0 | 0 0 3 0 | zeros.
  std::vector<uint16_t> panel(32 * 32);
  const auto set = [&](int64_t column, float v) {
    panel[static_cast<size_t>((column / 2 * 32 + 3) * 2 + column % 2)] = f32_to_bf16(v);
  };
  set(1, 5.0F);
  set(2, -0.0F);
  set(3, 7.0F);
  set(4, 9.0F);
  set(5, 4.0F);
  set(10, 3.0F);
  const auto* bytes = reinterpret_cast<const std::byte*>(panel.data());
  std::vector<std::byte> packed(Sparse24::panel_bytes(2, 32));
  pack_sparse_24(bytes, DType::kBF16, 32, KeptOrder::kAscending, packed.data());
  EXPECT_EQ(code_of(packed, 3, 0), 1U + 4 * 3);
  EXPECT_EQ(weights_of(packed, 3, 0), (std::vector<float>{7.0F, 5.0F}));
  EXPECT_EQ(code_of(packed, 3, 1), 0U + 4 * 1);
  EXPECT_EQ(weights_of(packed, 3, 1), (std::vector<float>{4.0F, 9.0F}));
  // One nonzero weight, and a zero.
  EXPECT_EQ(code_of(packed, 3, 2), 2U + 4 * 3);
  EXPECT_EQ(weights_of(packed, 3, 2), (std::vector<float>{0.0F, 3.0F}));

  pack_sparse_24(bytes, DType::kBF16, 32, KeptOrder::kOddFirst, packed.data());
  EXPECT_EQ(code_of(packed, 3, 0), 1U + 4 * 3);
  EXPECT_EQ(code_of(packed, 3, 1), 1U + 4 * 0);
  EXPECT_EQ(weights_of(packed, 3, 1), (std::vector<float>{9.0F, 4.0F}));
  EXPECT_EQ(code_of(packed, 3, 2), 3U + 4 * 2);
}

TEST(Sparse24, ChecksEachGroupOfFourOfTheGivenRows) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    // Row 0: two nonzero weights in each group of four; row 1: three in the last full group; row 2: a short
    // last group.
    constexpr int64_t kColumns = 11;
    std::vector<float> all(3 * 12);
    const TensorView view = {all.data(), dtype, Shape{3, kColumns}, 12};
    const auto set = [&](int64_t row, int64_t i, float v) { store_f32(dtype, all.data(), row * 12 + i, v); };
    for (const int64_t i : {0, 3, 5, 6, 8, 9}) set(0, i, 1.0F);
    set(0, 1, -0.0F);
    for (const int64_t i : {8, 9, 10}) set(1, i, 1.0F);
    for (const int64_t i : {9, 10}) set(2, i, 1.0F);
    EXPECT_TRUE(is_sparse_24(view, 0, 1));
    EXPECT_FALSE(is_sparse_24(view, 1, 2));
    EXPECT_TRUE(is_sparse_24(view, 2, 3));
    EXPECT_FALSE(is_sparse_24(view, 0, 3));
  }
}

}  // namespace
}  // namespace quire
