#include "tensor/tensor.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quire {
namespace {

TEST(DType, NamesRoundTrip) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2,
                        DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    EXPECT_EQ(dtype_from_name(dtype_name(t)), t);
  }
  EXPECT_EQ(dtype_from_name("BF16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("F8_E4M3"), DType::kF8E4M3);
  EXPECT_EQ(dtype_from_name("fp8_e5m2"), DType::kF8E5M2);
  EXPECT_FALSE(dtype_from_name("F4").has_value());
}

TEST(DType, EveryFloat16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    } else {
      EXPECT_EQ(f32_to_f16(value), half) << bits;
    }
    const float brain = bf16_to_f32(half);
    if (!std::isnan(brain)) {
      EXPECT_EQ(f32_to_bf16(brain), half) << bits;
    }
  }
}

TEST(DType, Float16RoundsToNearestEven) {
  EXPECT_EQ(f16_to_f32(f32_to_f16(2049.0F)), 2048.0F);
  EXPECT_EQ(f16_to_f32(f32_to_f16(2051.0F)), 2052.0F);
  EXPECT_EQ(f32_to_f16(65519.9F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00) << "rounds to infinity";
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0) << "half of the smallest denormal number rounds to even";
  EXPECT_EQ(f32_to_f16(0x1.8p-25F), 1);
}

TEST(DType, Bfloat16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(DType, Every8BitFloatSurvivesTheRoundTrip) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float e4m3 = f8e4m3_to_f32(byte);
    EXPECT_EQ(std::isnan(e4m3), (code & 0x7f) == 0x7f) << code;
    EXPECT_EQ(f32_to_f8e4m3(e4m3), byte) << code;
    const float e5m2 = f8e5m2_to_f32(byte);
    EXPECT_EQ(std::isnan(e5m2), (code & 0x7f) > 0x7c) << code;
    if (std::isfinite(e5m2)) {
      EXPECT_EQ(f32_to_f8e5m2(e5m2), byte) << code;
    }
  }
}

TEST(DType, Float8RoundsToNearestEvenAndSaturates) {
  // Both neighbors of every interval: values are rounded to the nearest, midpoints to the even code.
  for (int code = 0; code < 0x7e; ++code) {
    const float low = f8e4m3_to_f32(static_cast<uint8_t>(code));
    const float high = f8e4m3_to_f32(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(f32_to_f8e4m3(middle), code + (code & 1)) << code;
    EXPECT_EQ(f32_to_f8e4m3(std::nextafter(middle, low)), code) << code;
    EXPECT_EQ(f32_to_f8e4m3(std::nextafter(middle, high)), code + 1) << code;
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f8e4m3_to_f32(f32_to_f8e4m3(1e9F)), 448.0F);
  EXPECT_EQ(f8e4m3_to_f32(f32_to_f8e4m3(-inf)), -448.0F);
  EXPECT_EQ(f8e5m2_to_f32(f32_to_f8e5m2(65504.0F)), 57344.0F);
  EXPECT_EQ(f8e5m2_to_f32(f32_to_f8e5m2(inf)), 57344.0F);
  EXPECT_EQ(f32_to_f8e4m3(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

TEST(Tensor, SlicesShareMemory) {
  std::vector<float> data(12);
  std::iota(data.begin(), data.end(), 0.0F);
  const TensorView view = make_view(data.data(), DType::kF32, Shape{3, 4});
  const TensorView columns = column_slice(view, 1, 3);
  EXPECT_EQ(columns.shape, (Shape{3, 2}));
  EXPECT_EQ(columns.row<float>(2)[0], 9.0F);
  const TensorView rows = row_slice(columns, 1, 3);
  EXPECT_EQ(rows.row<float>(0)[1], 6.0F);
}

TEST(Tensor, BuffersAreZeroAndAligned) {
  Buffer buffer(size_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
  EXPECT_EQ(buffer.as<uint64_t>()[100000], 0U);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.size(), size_t{3} << 20);
  EXPECT_EQ(Buffer().data(), nullptr);
}

// Sizes around those at which the allocation method changes.
TEST(Tensor, BuffersDoNotOverlapAndNewOnesAreZero) {
  const std::vector<size_t> sizes = {1,       4096,    65535,   65536,    65537,    300001,
                                     2097152, 3000000, 9000000, 16777216, 16777217, 40000000};
  for (int round = 0; round < 3; ++round) {
    std::vector<Buffer> buffers;
    for (int copy = 0; copy < 4; ++copy) {
      for (const size_t size : sizes) {
        Buffer& buffer = buffers.emplace_back(size);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0U) << size;
        for (size_t i = 0; i < size; i += 1000) ASSERT_EQ(buffer.data()[i], std::byte{0}) << size;
        ASSERT_EQ(buffer.data()[size - 1], std::byte{0}) << size;
        std::memset(buffer.data(), static_cast<int>(buffers.size()), size);
      }
      // Every third buffer is freed before the next ones are allocated.
      if (copy == 1) {
        for (size_t i = 0; i < buffers.size(); i += 3) buffers[i] = Buffer();
      }
    }
    for (size_t b = 0; b < buffers.size(); ++b) {
      const Buffer& buffer = buffers[b];
      for (size_t i = 0; i < buffer.size(); i += 1000)
        ASSERT_EQ(buffer.data()[i], static_cast<std::byte>(b + 1)) << "buffer " << b;
    }
  }
}

TEST(Tensor, ReusesTheMemoryOfFreedBuffers) {
  constexpr size_t kSize = 200000;
  Buffer before(kSize);
  auto between = std::make_unique<Buffer>(kSize);
  const Buffer behind(kSize);
  const std::byte* place = between->data();
  std::memset(between->data(), 7, kSize);
  between = nullptr;
  const Buffer again(kSize);
  EXPECT_EQ(again.data(), place);
  EXPECT_TRUE(std::all_of(again.data(), again.data() + kSize, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Tensor, ReturnsFullHugePagesOfFreedBuffersToTheSystem) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const Buffer before(100000);
  auto between = std::make_unique<Buffer>(3 * kHugePage);
  const Buffer behind(100000);
  std::memset(between->data(), 7, 3 * kHugePage);
  const auto begin = reinterpret_cast<uintptr_t>(between->data());
  auto* whole = reinterpret_cast<std::byte*>((begin + kHugePage - 1) / kHugePage * kHugePage);
  const auto resident = [&] {
    unsigned char page = 0;
    EXPECT_EQ(mincore(whole, 4096, &page), 0);
    return (page & 1) != 0;
  };
  EXPECT_TRUE(resident());
  between = nullptr;
  EXPECT_FALSE(resident());
}

TEST(Tensor, BorrowedMemoryStaysAliveAndUnchanged) {
  auto owner = std::make_shared<const std::vector<int>>(100, 7);
  Buffer borrowed = Buffer::borrowed(std::as_bytes(std::span(*owner)).subspan(4), owner);
  EXPECT_EQ(borrowed.size(), 99 * sizeof(int));
  EXPECT_EQ(borrowed.as<int>(), owner->data() + 1);
  EXPECT_EQ(owner.use_count(), 2);
  Buffer moved = std::move(borrowed);
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(moved.as<int>()[98], 7);
  moved = Buffer(64);
  EXPECT_EQ(owner.use_count(), 1);
  moved.as<int>()[0] = 1;
  moved = Buffer::borrowed(std::as_bytes(std::span(*owner)), owner);
  EXPECT_EQ(moved.as<int>(), owner->data());
}

TEST(Tensor, RejectsImpossibleSizes) {
  EXPECT_THROW(Buffer(size_t{1} << 60), Error);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), Error);
}

}  // namespace
}  // namespace quire
