// Instruction sets that the processor and the operating system support. Detected once, on the first call.
// Thread-safe.
#pragma once

namespace quire {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, with ymm registers saved by the operating system
  bool avx512 = false;       // also AVX-512 F, BW, DQ and VL, with zmm and mask registers saved
  bool avx512_vnni = false;  // also AVX512-VNNI: dot products of four 8-bit integers
  bool avx512_bf16 = false;  // also AVX512-BF16: dot products of two bfloat16 values
  bool amx_bf16 = false;     // also AMX-TILE, AMX-BF16 and AMX-INT8, permitted by the operating system
};

const CpuFeatures& cpu_features();

}  // namespace quire
