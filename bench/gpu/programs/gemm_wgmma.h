// y = x wᵀ with wgmma and TMA, through CUTLASS: x [num_tokens, k] and w [num_features, k] in bf16 or fp16, y
// [num_tokens, num_features] in float32. Weights are the 64-row operand: a block computes 128 features (two
// consumer warp groups) for `tile_tokens` tokens. The sums are over k in ascending steps of 16. Needs compute
// capability 9.0. num_features is a multiple of 4, k is a multiple of 8.
#pragma once

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

// The tile sizes that are compiled for a type: bf16 has all, fp16 only 64.
constexpr int kWgmmaTiles[] = {16, 32, 64, 128, 256};
bool has_wgmma(OperandType type, int tile_tokens);

// Throws std::runtime_error with CUTLASS's message.
void run_gemm_wgmma(OperandType type, int tile_tokens, const WgmmaProblem& problem, cudaStream_t stream);

namespace wgmma {
// One function per compiled kernel. They are in two files, which compile side by side.
void bf16_16(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_32(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_64(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_128(const WgmmaProblem& problem, cudaStream_t stream);
void bf16_256(const WgmmaProblem& problem, cudaStream_t stream);
void fp16_64(const WgmmaProblem& problem, cudaStream_t stream);
}  // namespace wgmma

}  // namespace probe
