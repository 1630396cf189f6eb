// y = x wᵀ with wgmma and TMA, through CUTLASS: x [num_tokens, k] and w [num_features, k] in bf16 or fp16, y
// [num_tokens, num_features] in float32. Weights are the 64-row operand: a block computes 64 features (one
// consumer warp group) or 128 (two). The sums are over k in ascending steps of 16. Needs compute capability
// 9.0. num_features is a multiple of 4, k is a multiple of 8.
#pragma once

#include <string>

#include <cuda_runtime_api.h>

#include "../arithmetic.h"

namespace probe {

struct WgmmaProblem {
  float* y;
  const void* x;
  const void* w;
  int num_tokens;
  int num_features;
  int k;
};

// The part of y that a block computes.
struct WgmmaTile {
  int features, tokens;
  bool operator==(const WgmmaTile&) const = default;
};
inline std::string name_of(const WgmmaTile& tile) {
  return "wgmma " + std::to_string(tile.features) + " x " + std::to_string(tile.tokens);
}

// The tiles that are compiled for a type: bf16 has all, fp16 only 128 x 64.
constexpr WgmmaTile kWgmmaTiles[] = {{64, 16}, {64, 32}, {128, 32}, {128, 64}, {128, 128}, {128, 256}};
bool has_wgmma(OperandType type, const WgmmaTile& tile);

// Throws std::runtime_error with CUTLASS's message.
void run_gemm_wgmma(OperandType type, const WgmmaTile& tile, const WgmmaProblem& problem,
                    cudaStream_t stream);

namespace wgmma {
// One function per compiled kernel. They are in two files, which compile side by side.
void bf16_64x16(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_64x32(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_128x32(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_128x64(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_128x128(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_128x256(const WgmmaProblem& problem, cudaStream_t stream);
void fp16_128x64(const WgmmaProblem& problem, cudaStream_t stream);
}  // namespace wgmma

}  // namespace probe
