// Kernels that AVX512-BF16 makes better than plain AVX-512. Everything here has internal linkage: what the
// linker might share with other units must not be compiled for this instruction set.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {

void fill_avx512_bf16(CpuKernels&) {}

}  // namespace quire::cpu
