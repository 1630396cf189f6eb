// The functions of cuda/ptx.cuh for the emulated device. Those that access memory are compiled with the
// kernel, and not inlined, so that a sanitizer checks their accesses and names the line of the kernel that
// calls them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstring>

template <class T>
T& shared_memory() {
  return *static_cast<T*>(emulated::shared_memory());
}

__attribute__((noinline)) inline void cp_async_16(void* dst, const void* src, bool valid) {
  emulated::cp_async(dst, src, 16, valid ? 16 : 0);
}
inline void cp_async_commit() {
  emulated::cp_async_commit();
}
template <int kMaxPending>
void cp_async_wait(const emulated::Where& where = emulated::Where::current()) {
  emulated::cp_async_wait(kMaxPending, where);
}

template <bool kTransposed>
__attribute__((noinline)) void ldmatrix(uint32_t out[4], const void* row) {
  uint64_t word = 0;
  std::memcpy(&word, &row, sizeof(row));
  const emulated::LaneWords* all = emulated::exchange(~0U, &word, 1);
  const int lane = emulated::lane();
  for (int i = 0; i < 4; ++i) {
    uint16_t pair[2];
    for (int j = 0; j < 2; ++j) {
      const int r = kTransposed ? lane % 4 * 2 + j : lane / 4, c = kTransposed ? lane / 4 : lane % 4 * 2 + j;
      const uint16_t* elements = nullptr;
      std::memcpy(&elements, all[i * 8 + r], sizeof(elements));
      pair[j] = elements[c];
    }
    std::memcpy(&out[i], pair, sizeof(pair));
  }
}
inline void ldmatrix_x4(uint32_t out[4], const void* row) {
  ldmatrix<false>(out, row);
}
inline void ldmatrix_x4_trans(uint32_t out[4], const void* row) {
  ldmatrix<true>(out, row);
}

inline void mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], __nv_bfloat16) {
  emulated::mma_16816(d, a, b, c, probe::OperandType::kBf16);
}
inline void mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], __half) {
  emulated::mma_16816(d, a, b, c, probe::OperandType::kFp16);
}

inline uint32_t pack_bf16(float low, float high) {
  return __float2bfloat16_rn(low).bits | uint32_t{__float2bfloat16_rn(high).bits} << 16;
}
