#include "../kernels/copy.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "emulated.h"

namespace {

// Sizes around the kernel's unrolled loop, on two blocks.
constexpr int kBlocks = 2;
const size_t kSizes[] = {0, 1, 1023, kBlocks* copy::kThreads* copy::kUnroll, 5000};

std::vector<uint4> numbered(size_t count) {
  std::vector<uint4> values(count);
  for (unsigned i = 0; i < count; ++i) values[i] = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
  return values;
}

TEST(Copy, CopiesEverySize) {
  for (const size_t count : kSizes) {
    emulated::set_seed(count);
    const auto source = numbered(count);
    std::vector<uint4> target(count);
    copy::run_copy(target.data(), source.data(), count * sizeof(uint4), kBlocks, nullptr);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(std::memcmp(&target[i], &source[i], sizeof(uint4)), 0) << i;
  }
}

TEST(Copy, ReadsEveryWord) {
  for (const size_t count : kSizes) {
    const auto source = numbered(count);
    uint32_t expected = 0, sum = 0;
    for (uint32_t i = 0; i < 4 * count; ++i) expected ^= i;
    std::vector<uint32_t> out(kBlocks * copy::kThreads, 1);
    copy::run_read(out.data(), source.data(), count * sizeof(uint4), kBlocks, nullptr);
    for (const uint32_t word : out) sum ^= word;
    EXPECT_EQ(sum, expected) << count;
  }
}

}  // namespace
