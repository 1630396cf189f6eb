// Products of quantized weights with int8 activations for AVX-512 F, BW, DQ and VL. Everything here has
// internal linkage, because the linker must not share code compiled for this instruction set with other
// files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/vec_int_avx512.inc.h"

#include "backends/cpu/kernels/vec_quantized_avx512.inc.h"

#include "backends/cpu/kernels/linear_quantized.inc.h"

#include "backends/cpu/kernels/linear_int.inc.h"

#include "backends/cpu/kernels/linear_quantized_int.inc.h"

#include "backends/cpu/kernels/linear_quantized_int_tiled.inc.h"

}  // namespace

void fill_quantized_int_avx512(CpuKernels& kernels) {
  fill_quantized_int<IntAvx512, QuantizedAvx512>(kernels);
}

}  // namespace quire::cpu
