// Products with codes for AVX-512 F, BW, DQ and VL. Everything here has internal linkage: what the linker
// might share with other units must not be compiled for this instruction set.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/vec_coded_avx512.inc.h"

#include "backends/cpu/kernels/linear_coded.inc.h"

#include "backends/cpu/kernels/linear_row_tables.inc.h"

}  // namespace

void fill_coded_avx512(CpuKernels& kernels) {
  fill_coded<CodedAvx512>(kernels);
  fill_row_tables<CodedAvx512>(kernels);
}

}  // namespace quire::cpu
