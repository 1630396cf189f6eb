// Kernels for AVX2, FMA and F16C. Everything here has internal linkage, because the linker must not share
// code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"
#include "quant/sparse_24.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx2.inc.h"

#include "backends/cpu/kernels/all.inc.h"

#include "backends/cpu/kernels/vec_gathered_avx2.inc.h"

#include "backends/cpu/kernels/vec_int_avx2.inc.h"

#include "backends/cpu/kernels/all_int.inc.h"

}  // namespace

void fill_avx2(CpuKernels& kernels) {
  fill<Avx2>(kernels);
  fill_sparse_24<GatheredAvx2>(kernels);
  fill_int<IntAvx2>(kernels);
}

}  // namespace quire::cpu
