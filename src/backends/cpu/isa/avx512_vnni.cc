// Kernels that AVX512-VNNI improves over plain AVX-512. Everything here has internal linkage, because the
// linker must not share code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/vec_int_avx512.inc.h"

#include "backends/cpu/kernels/vec_int_vnni.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/all_int.inc.h"

// Independent sums of 8-bit integer products in registers. Returns the number of operations.
double probe_int8(int64_t rounds, float* sink) {
  constexpr int kChains = 12;
  __m512i sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < rounds; ++i) {
    QUIRE_UNROLL
    for (int j = 0; j < kChains; ++j) sum[j] = _mm512_dpbusd_epi32(sum[j], a, a);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  _mm512_storeu_ps(sink, _mm512_cvtepi32_ps(sum[0]));
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

}  // namespace

void fill_avx512_vnni(CpuKernels& kernels) {
  fill_int<IntVnni>(kernels);
  kernels.fold_group_scales = fold_group_scales<IntVnni>;
  kernels.probe_int8 = probe_int8;
}

}  // namespace quire::cpu
