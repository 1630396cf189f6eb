#include "quant/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace quire {
namespace {

TEST(Codec, StorageTypesAreTheThreeFloats) {
  EXPECT_TRUE(is_storage_dtype(DType::kF32));
  EXPECT_TRUE(is_storage_dtype(DType::kBF16));
  EXPECT_TRUE(is_storage_dtype(DType::kF16));
  EXPECT_FALSE(is_storage_dtype(DType::kF64));
  EXPECT_FALSE(is_storage_dtype(DType::kI8));
}

TEST(Codec, EveryHalfSurvivesTheRoundTrip) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> decoded(all.size());
    decode_f32(dtype, all.data(), decoded.data(), static_cast<int64_t>(all.size()));
    std::vector<uint16_t> again(all.size());
    encode_f32(dtype, decoded.data(), again.data(), static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(decoded[i])) {
        EXPECT_TRUE(std::isnan(load_f32(dtype, again.data(), static_cast<int64_t>(i))));
      } else {
        ASSERT_EQ(again[i], all[i]) << dtype_name(dtype) << " " << i;
      }
    }
  }
}

TEST(Codec, RoundsToNearestEven) {
  struct Case {
    DType dtype;
    float value;
    float stored;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {DType::kBF16, 1.0F + 0x1p-8F, 1.0F},  // halfway, the lower neighbour is even
      {DType::kBF16, 1.0F + 0x1p-8F + 0x1p-20F, 1.0F + 0x1p-7F},
      {DType::kBF16, 1.0F + 0x1.8p-7F, 1.0F + 0x1p-6F},  // halfway, the upper neighbour is even
      {DType::kF16, 1.0F + 0x1p-11F, 1.0F},
      {DType::kF16, 1.0F + 0x1.8p-10F, 1.0F + 0x1p-9F},
      {DType::kF16, 65519.0F, 65504.0F},
      {DType::kF16, 65520.0F, inf},
      {DType::kF16, 0x1p-25F, 0.0F},
      {DType::kF16, 0x1.8p-24F, 0x1p-23F},
      {DType::kF32, 0.1F, 0.1F},
  };
  for (const Case& c : cases) {
    for (const float sign : {1.0F, -1.0F}) {
      float cell = 0;
      store_f32(c.dtype, &cell, 0, sign * c.value);
      EXPECT_EQ(load_f32(c.dtype, &cell, 0), sign * c.stored) << dtype_name(c.dtype) << " " << c.value;
    }
  }
}

}  // namespace
}  // namespace quire
