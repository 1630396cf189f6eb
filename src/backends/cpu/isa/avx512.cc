// Kernels for AVX-512 F, BW, DQ and VL. Everything here has internal linkage: what the linker might share
// with other units must not be compiled for this instruction set.
#include <immintrin.h>

#include "backends/cpu/kernels.h"
#include "quant/two_of_four.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/all.inc.h"

#include "backends/cpu/kernels/vec_picked_avx512.inc.h"

#include "backends/cpu/kernels/vec_int_avx512.inc.h"

#include "backends/cpu/kernels/all_int.inc.h"

}  // namespace

void fill_avx512(CpuKernels& kernels) {
  fill<Avx512>(kernels);
  fill_two_of_four<PickedAvx512>(kernels);
  fill_int<IntAvx512>(kernels);
}

}  // namespace quire::cpu
