// Random operands that the host can compute too, and a comparison of results on the device.
#pragma once

#include <launch.cuh>

#include <cstddef>
#include <cstdint>

namespace operands {

// kUniform: magnitudes in [2^-12, 1), about uniform. kWide: exponents from -8 to 7, equally likely, so that
// the products of a sum differ by up to 2^30. kTiny: exponents so low that products are subnormal in float32
// (bf16), or subnormal operands (fp16).
enum class Kind { kUniform, kWide, kTiny };

__device__ __host__ inline uint32_t hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return static_cast<uint32_t>((x ^ x >> 31) >> 16);
}

// The exponent of element `random` without the bias of its format.
__device__ __host__ inline int exponent(uint32_t random, Kind kind, bool bf16) {
  const int draw = static_cast<int>(random >> 20 & 15);
  if (kind == Kind::kWide) return draw - 8;
  if (kind == Kind::kTiny) return bf16 ? -64 - draw : -10 - draw % 6;
  int leading_zeros = 0;
  while (leading_zeros < 11 && (random >> (30 - leading_zeros) & 1) == 0) ++leading_zeros;
  return -1 - leading_zeros;
}

// Element `index` of the matrix `seed`, as a bit pattern. Bits 0 to 9 of the random number are the fraction,
// and bit 31 is the sign.
__device__ __host__ inline uint16_t element(uint64_t seed, uint64_t index, Kind kind, bool bf16) {
  const uint32_t random = hash(seed * 0x100000001b3ULL + index);
  const int fraction_bits = bf16 ? 7 : 10, bias = bf16 ? 127 : 15;
  const uint32_t fraction = random & ((1U << fraction_bits) - 1);
  const int biased = exponent(random, kind, bf16) + bias;
  return static_cast<uint16_t>((random >> 31) << 15 |
                               static_cast<uint32_t>(biased < 0 ? 0 : biased) << fraction_bits | fraction);
}

// A float32 accumulator to start from: of the size that a sum of 16 products has, with random bits.
__device__ __host__ inline uint32_t accumulator_bits(uint64_t seed, uint64_t index, Kind kind, bool bf16) {
  const uint32_t random = hash(seed * 0x100000001b3ULL + index), more = hash(~index + seed);
  int exponent = 0;
  if (kind == Kind::kUniform) exponent = -static_cast<int>(more % 6);
  if (kind == Kind::kWide) exponent = static_cast<int>(more % 32) - 16;
  if (kind == Kind::kTiny)
    exponent = bf16 ? -140 + static_cast<int>(more % 16) : -30 + static_cast<int>(more % 8);
  const int biased = exponent + 127;
  return (random & 0x807fffffU) | static_cast<uint32_t>(biased < 0 ? 0 : biased) << 23;
}

// Any grid; out [count].
static __global__ void fill(uint16_t* out, int64_t count, uint64_t seed, Kind kind, bool bf16) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = element(seed, static_cast<uint64_t>(i), kind, bf16);
}

constexpr int kCountBlocks = 32, kCountThreads = 256;
constexpr int kNumCounts = kCountBlocks * kCountThreads / 32;

// Counts the elements whose bits differ. Each warp writes its own count: counts [kNumCounts].
static __global__ void __launch_bounds__(kCountThreads)
    count_differences(uint32_t* counts, const uint32_t* a, const uint32_t* b, int64_t count) {
  const int thread = static_cast<int>(blockIdx.x) * kCountThreads + static_cast<int>(threadIdx.x);
  uint32_t different = 0;
  for (int64_t i = thread; i < count; i += kCountBlocks * kCountThreads) different += a[i] != b[i] ? 1 : 0;
  for (int offset = 16; offset > 0; offset /= 2) different += __shfl_xor_sync(~0U, different, offset);
  if (thread % 32 == 0) counts[thread / 32] = different;
}

inline void run_fill(uint16_t* out, int64_t count, uint64_t seed, Kind kind, bool bf16, int blocks,
                     cudaStream_t stream) {
  launch(fill, dim3{static_cast<unsigned>(blocks), 1, 1}, 256, 0, stream, out, count, seed, kind, bf16);
}
inline void run_count(uint32_t* counts, const float* a, const float* b, int64_t count, cudaStream_t stream) {
  launch(count_differences, dim3{kCountBlocks, 1, 1}, kCountThreads, 0, stream, counts,
         reinterpret_cast<const uint32_t*>(a), reinterpret_cast<const uint32_t*>(b), count);
}

}  // namespace operands
