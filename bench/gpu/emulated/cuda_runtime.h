// Stands in for the CUDA toolkit's header when a kernel is compiled for the emulated device.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "device.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (emulated::thread_idx())
#define blockIdx (emulated::block_idx())
#define blockDim (emulated::block_dim())
#define gridDim (emulated::grid_dim())

using cudaStream_t = struct Stream*;  // always null

struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}

struct uint4 {
  unsigned x, y, z, w;
};

// The default argument is evaluated where the function is called, in the kernel.
inline void __syncthreads(const emulated::Where& where = emulated::Where::current()) {
  emulated::sync_block(where);
}
inline void __syncwarp(uint32_t mask = ~0U, const emulated::Where& where = emulated::Where::current()) {
  emulated::sync_warp(mask, where);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lane_mask) {
  return emulated::shuffle(mask, value, emulated::lane() ^ lane_mask);
}
template <class A, class B>
auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return T(a) < T(b) ? T(a) : T(b);
}
