// y = x wᵀ with mma.sync: x [num_tokens, k] and w [num_features, k] in bf16 or fp16, y [num_tokens,
// num_features] in float32. Weights are the 16-row operand and tokens the 8-column operand, so that few
// tokens waste little of a tile. k is a multiple of GemmMma::kDepth.
//
// Each element of y is one chain of mma instructions over k in ascending steps of 16. Its bits therefore do
// not depend on the tile sizes, nor on the number of tokens.
#pragma once

#include <launch.cuh>
#include <ptx.cuh>

#include "swizzle.cuh"

// A block computes 16 * kWarps features for kTokens tokens, a multiple of 16. kStages slices of k are in
// shared memory.
template <class T, int kWarps, int kTokens_, int kStages_>
struct GemmMma {
  using Element = T;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kFeatures = 16 * kWarps;
  static constexpr int kTokens = kTokens_;
  static constexpr int kStages = kStages_;
  static constexpr int kDepth = 64;  // elements along K per stage

  struct Shared {
    T w[kStages][kFeatures][kDepth];
    T x[kStages][kTokens][kDepth];
  };
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads)
    gemm_mma(float* y, const typename Config::Element* x, const typename Config::Element* w, int num_tokens,
             int num_features, int k) {
  using T = typename Config::Element;
  constexpr int kDepth = Config::kDepth, kStages = Config::kStages, kRowChunks = kDepth / 8;
  auto& s = shared_memory<typename Config::Shared>();
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int first_feature = blockIdx.x * Config::kFeatures, first_token = blockIdx.y * Config::kTokens;

  // Rows past the end of w and x are zero.
  const auto load = [&](int stage, int k0) {
    for (int i = thread; i < Config::kFeatures * kRowChunks; i += Config::kThreads) {
      const int row = i / kRowChunks, c = i % kRowChunks, feature = first_feature + row;
      cp_async_16(s.w[stage][row] + swizzle(row, c),
                  w + int64_t(min(feature, num_features - 1)) * k + k0 + c * 8, feature < num_features);
    }
    for (int i = thread; i < Config::kTokens * kRowChunks; i += Config::kThreads) {
      const int row = i / kRowChunks, c = i % kRowChunks, token = first_token + row;
      cp_async_16(s.x[stage][row] + swizzle(row, c), x + int64_t(min(token, num_tokens - 1)) * k + k0 + c * 8,
                  token < num_tokens);
    }
  };

  float acc[Config::kTokens / 8][4] = {};
  const int num_steps = k / kDepth;
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < num_steps) load(step, step * kDepth);
    cp_async_commit();
  }
  for (int step = 0; step < num_steps; ++step) {
    cp_async_wait<kStages - 2>();
    // The copies of all threads have arrived, and no warp still reads the stage that the next load
    // overwrites.
    __syncthreads();
    const int next = step + kStages - 1, stage = step % kStages;
    if (next < num_steps) load(next % kStages, next * kDepth);
    cp_async_commit();
#pragma unroll
    for (int kk = 0; kk < kDepth / 16; ++kk) {
      uint32_t a[4];
      const int w_row = warp * 16 + lane % 16;
      ldmatrix_x4(a, s.w[stage][w_row] + swizzle(w_row, kk * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < Config::kTokens / 16; ++j) {
        uint32_t b[4];
        const int x_row = j * 16 + lane / 16 * 8 + lane % 8;
        ldmatrix_x4(b, s.x[stage][x_row] + swizzle(x_row, kk * 2 + lane / 8 % 2));
        mma_16816(acc[2 * j], a, b, acc[2 * j], T{});
        mma_16816(acc[2 * j + 1], a, b + 2, acc[2 * j + 1], T{});
      }
    }
  }

#pragma unroll
  for (int j = 0; j < Config::kTokens / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int feature = first_feature + warp * 16 + e / 2 * 8 + lane / 4;
      const int token = first_token + j * 8 + lane % 4 * 2 + e % 2;
      if (feature < num_features && token < num_tokens)
        y[int64_t(token) * num_features + feature] = acc[j][e];
    }
  }
}

template <class Config>
void run_gemm_mma(float* y, const typename Config::Element* x, const typename Config::Element* w,
                  int num_tokens, int num_features, int k, cudaStream_t stream) {
  const dim3 grid{static_cast<unsigned>((num_features + Config::kFeatures - 1) / Config::kFeatures),
                  static_cast<unsigned>((num_tokens + Config::kTokens - 1) / Config::kTokens), 1};
  launch(gemm_mma<Config>, grid, Config::kThreads, sizeof(typename Config::Shared), stream, y, x, w,
         num_tokens, num_features, k);
}
