// Products with codes for AVX2, FMA and F16C. Everything here has internal linkage: what the linker might
// share with other units must not be compiled for this instruction set.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx2.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/vec_coded_avx2.inc.h"

#include "backends/cpu/kernels/linear_coded.inc.h"

#include "backends/cpu/kernels/linear_row_tables.inc.h"

}  // namespace

void fill_coded_avx2(CpuKernels& kernels) {
  fill_coded<CodedAvx2>(kernels);
  fill_row_tables<CodedAvx2>(kernels);
}

}  // namespace quire::cpu
