// Kernels for AVX2, FMA and F16C. Everything here has internal linkage: what the linker might share with
// other units must not be compiled for this instruction set.
#include <immintrin.h>

#include "backends/cpu/kernels.h"
#include "quant/two_of_four.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx2.inc.h"

#include "backends/cpu/kernels/all.inc.h"

#include "backends/cpu/kernels/vec_picked_avx2.inc.h"

#include "backends/cpu/kernels/vec_int_avx2.inc.h"

#include "backends/cpu/kernels/all_int.inc.h"

}  // namespace

void fill_avx2(CpuKernels& kernels) {
  fill<Avx2>(kernels);
  fill_two_of_four<PickedAvx2>(kernels);
  fill_int<IntAvx2>(kernels);
}

}  // namespace quire::cpu
