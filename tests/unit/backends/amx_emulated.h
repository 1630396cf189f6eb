#pragma once

#include "backends/cpu/kernels.h"

namespace quire::cpu {

// AMX-BF16 kernels on emulated tiles, on top of those of AVX512-BF16. A misused tile gives NaN.
void fill_amx_emulated(CpuKernels& kernels);

}  // namespace quire::cpu
