// Kernels that AVX512-VNNI makes better than plain AVX-512. Everything here has internal linkage: what the
// linker might share with other units must not be compiled for this instruction set.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {

void fill_avx512_vnni(CpuKernels&) {}

}  // namespace quire::cpu
