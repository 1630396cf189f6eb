// Kernels that AMX tiles improve over AVX512-BF16. Everything here has internal linkage, because the linker
// must not share code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/linear_bf16.inc.h"

#include "backends/cpu/kernels/tiles.inc.h"

#include "backends/cpu/kernels/linear_amx.inc.h"

}  // namespace

void fill_amx_bf16(CpuKernels& kernels) {
  kernels.linear[kStorageBF16] = linear_amx;
  kernels.linear_sparse_24[kStorageBF16] = nullptr;  // tiles are faster than 2:4 sparsity
  kernels.probe_bf16 = probe_amx_bf16;
}

}  // namespace quire::cpu
