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
  EXPECT_FALSE(is_storage_dtype(DType::kF8E4M3));
}

TEST(Codec, KvTypesAreFloatsAndInt8) {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    EXPECT_TRUE(is_kv_dtype(dtype)) << dtype_name(dtype);
  }
  for (const DType dtype : {DType::kF64, DType::kU8, DType::kI16, DType::kBool})
    EXPECT_FALSE(is_kv_dtype(dtype)) << dtype_name(dtype);
}

TEST(Codec, EveryInt8CodeIsItsValue) {
  for (int code = -127; code <= 127; ++code) {
    int8_t cell = 0;
    store_f32(DType::kI8, &cell, 0, static_cast<float>(code));
    EXPECT_EQ(cell, code);
    EXPECT_EQ(load_f32(DType::kI8, &cell, 0), static_cast<float>(code));
    // With a power-of-two scale the midpoint between two codes is exact; it is rounded to the even code.
    EXPECT_EQ(int8_code((static_cast<float>(code) + 0.5F) * 0.25F, 0.25F),
              code == 127 ? 127 : code + (code & 1));
  }
}

TEST(Codec, Int8ScaleMapsTheLargestElementTo127) {
  const float x[] = {0.5F, -12.7F, 3.0F, 0.0F};
  const float scale = int8_scale(x, 4);
  EXPECT_FLOAT_EQ(scale, 0.1F);
  EXPECT_EQ(int8_code(-12.7F, scale), -127);
  EXPECT_EQ(int8_code(3.0F, scale), 30);
  for (const float v : x) EXPECT_NEAR(scale * static_cast<float>(int8_code(v, scale)), v, scale * 0.5001F);
}

TEST(Codec, Int8ScaleOfZerosAndNonFiniteValues) {
  const float zeros[] = {0.0F, -0.0F};
  EXPECT_EQ(int8_scale(zeros, 2), 0.0F);
  EXPECT_EQ(int8_code(0.0F, 0.0F), 0);
  const float infinite[] = {1.0F, -std::numeric_limits<float>::infinity()};
  const float nan[] = {std::numeric_limits<float>::quiet_NaN(), 1.0F};
  EXPECT_TRUE(std::isnan(int8_scale(infinite, 2)));
  EXPECT_TRUE(std::isnan(int8_scale(nan, 2)));
  EXPECT_EQ(int8_code(1.0F, int8_scale(nan, 2)), 0);
  // A denormal scale is imprecise; the code stays in its range.
  const float tiny[] = {0x1p-146F};
  EXPECT_EQ(int8_code(tiny[0], int8_scale(tiny, 1)), 0);
  const float small[] = {0x1.7p-141F};
  EXPECT_LE(int8_code(small[0], int8_scale(small, 1)), 127);
}

TEST(Codec, All16BitValuesSurviveTheRoundTrip) {
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
      {DType::kBF16, 1.0F + 0x1p-8F, 1.0F},  // halfway, the lower neighbor is even
      {DType::kBF16, 1.0F + 0x1p-8F + 0x1p-20F, 1.0F + 0x1p-7F},
      {DType::kBF16, 1.0F + 0x1.8p-7F, 1.0F + 0x1p-6F},  // halfway, the upper neighbor is even
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
