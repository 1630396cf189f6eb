// What this processor and its operating system can run. Read once, at the first call; any thread.
#pragma once

namespace quire {

struct CpuFeatures {
  bool avx2 = false;    // AVX2, FMA and F16C, with ymm registers saved by the operating system
  bool avx512 = false;  // AVX-512 F, BW, DQ and VL on top of that, with zmm and mask registers saved
};

const CpuFeatures& cpu_features();

}  // namespace quire
