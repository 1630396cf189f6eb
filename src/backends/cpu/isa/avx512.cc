// Kernels for AVX-512 F, BW, DQ and VL. Everything here has internal linkage, because the linker must not
// share code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"
#include "quant/sparse_24.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/all.inc.h"

#include "backends/cpu/kernels/vec_gathered_avx512.inc.h"

#include "backends/cpu/kernels/vec_int_avx512.inc.h"

#include "backends/cpu/kernels/all_int.inc.h"

}  // namespace

void fill_avx512(CpuKernels& kernels) {
  fill<Avx512>(kernels);
  fill_sparse_24<GatheredAvx512>(kernels);
  fill_int<IntAvx512>(kernels);
}

}  // namespace quire::cpu
