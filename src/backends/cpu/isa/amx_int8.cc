// Integer products that AMX tiles improve over AVX512-VNNI. Everything here has internal linkage, because the
// linker must not share code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/quantize_rows.inc.h"

#include "backends/cpu/kernels/tiles.inc.h"

#include "backends/cpu/kernels/linear_int_tiles.inc.h"

// Fewest rows for which tiles are faster: with fewer, reading the weights takes as long.
constexpr int64_t kFewestRows = 8;

}  // namespace

void fill_amx_int8(CpuKernels& kernels) {
  kernels.int_tile_rows = kFewestRows;
  kernels.quantize_flat = quantize_rows<Avx512, true>;
  kernels.linear_int_tiles[kInt8Rows] = linear_int_tiles<kInt8Rows>;
  kernels.linear_int_tiles[kInt8Groups] = linear_int_tiles<kInt8Groups>;
}

}  // namespace quire::cpu
