// Products with quantized weights for AVX2, FMA and F16C. Everything here has internal linkage, because the
// linker must not share code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx2.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/vec_quantized_avx2.inc.h"

#include "backends/cpu/kernels/linear_quantized.inc.h"

#include "backends/cpu/kernels/linear_row_tables.inc.h"

}  // namespace

void fill_quantized_avx2(CpuKernels& kernels) {
  fill_quantized<QuantizedAvx2>(kernels);
  fill_row_tables<QuantizedAvx2>(kernels);
}

}  // namespace quire::cpu
