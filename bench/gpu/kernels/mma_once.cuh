// Many independent mma instructions, to compare the arithmetic of one with a model.
#pragma once

#include <launch.cuh>
#include <ptx.cuh>

namespace mma_once {

constexpr int kThreads = 128, kWarps = kThreads / 32;

// Warp i computes d[i] [16, 8] = a[i] [16, 16] * b[i] [16 = k, 8] + c[i]. b is stored as [8, 16], elements
// along K together. Grid: num_products / kWarps blocks, exactly.
template <class T>
__global__ void __launch_bounds__(kThreads) multiply(float* d, const T* a, const T* b, const float* c) {
  const int64_t warp = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / 4, column = lane % 4 * 2;
  uint32_t a_fragment[4], b_fragment[2];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    a_fragment[i] =
        *reinterpret_cast<const uint32_t*>(a + warp * 256 + (row + i % 2 * 8) * 16 + column + i / 2 * 8);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    b_fragment[i] = *reinterpret_cast<const uint32_t*>(b + warp * 128 + row * 16 + column + i * 8);
  float sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = c[warp * 128 + (row + i / 2 * 8) * 8 + column + i % 2];
  mma_16816(sum, a_fragment, b_fragment, sum, T{});
#pragma unroll
  for (int i = 0; i < 4; ++i) d[warp * 128 + (row + i / 2 * 8) * 8 + column + i % 2] = sum[i];
}

// num_products is a multiple of kWarps.
template <class T>
void run(float* d, const T* a, const T* b, const float* c, int num_products, cudaStream_t stream) {
  launch(multiply<T>, dim3{static_cast<unsigned>(num_products / kWarps), 1, 1}, kThreads, 0, stream, d, a, b,
         c);
}

}  // namespace mma_once
