// Copies and reads memory with 16-byte accesses. The bandwidth they reach is what other kernels are compared
// with.
#pragma once

#include <cstdint>

#include <launch.cuh>

namespace copy {

constexpr int kThreads = 512, kUnroll = 4;

// dst [count] = src [count]; any grid.
static __global__ void __launch_bounds__(kThreads) copy_memory(uint4* dst, const uint4* src, int64_t count) {
  const int64_t stride = int64_t(gridDim.x) * kThreads;
  int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    uint4 values[kUnroll];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) values[j] = src[i + j * stride];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) dst[i + j * stride] = values[j];
  }
  for (; i < count; i += stride) dst[i] = src[i];
}

// out [number of threads] = exclusive or of all words that the thread reads.
static __global__ void __launch_bounds__(kThreads)
    read_memory(uint32_t* out, const uint4* src, int64_t count) {
  const int64_t stride = int64_t(gridDim.x) * kThreads, thread = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  int64_t i = thread;
  uint32_t sum = 0;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    uint4 values[kUnroll];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) values[j] = src[i + j * stride];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) sum ^= values[j].x ^ values[j].y ^ values[j].z ^ values[j].w;
  }
  for (; i < count; i += stride) sum ^= src[i].x ^ src[i].y ^ src[i].z ^ src[i].w;
  out[thread] = sum;
}

// The number of bytes is a multiple of 16.
inline void run_copy(void* dst, const void* src, size_t bytes, int blocks, cudaStream_t stream) {
  launch(copy_memory, dim3{static_cast<unsigned>(blocks), 1, 1}, kThreads, 0, stream,
         static_cast<uint4*>(dst), static_cast<const uint4*>(src),
         static_cast<int64_t>(bytes / sizeof(uint4)));
}
// out [blocks * kThreads]
inline void run_read(uint32_t* out, const void* src, size_t bytes, int blocks, cudaStream_t stream) {
  launch(read_memory, dim3{static_cast<unsigned>(blocks), 1, 1}, kThreads, 0, stream, out,
         static_cast<const uint4*>(src), static_cast<int64_t>(bytes / sizeof(uint4)));
}

}  // namespace copy
