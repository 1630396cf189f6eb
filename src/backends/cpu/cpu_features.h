// What this processor and its operating system can run. Read once, at the first call; any thread.
#pragma once

namespace quire {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, with ymm registers saved by the operating system
  bool avx512 = false;       // AVX-512 F, BW, DQ and VL on top of that, with zmm and mask registers saved
  bool avx512_vnni = false;  // AVX512-VNNI on top of that: sums of four products of 8-bit numbers
  bool avx512_bf16 = false;  // AVX512-BF16 on top of that: sums of two products of bfloat16 numbers
  bool amx_bf16 =
      false;  // AMX-TILE and AMX-BF16 on top of that, with leave of the operating system to use them
};

const CpuFeatures& cpu_features();

}  // namespace quire
