// Kernels that AVX512-BF16 improves over plain AVX-512. Everything here has internal linkage, because the
// linker must not share code compiled for this instruction set with other files.
#include <immintrin.h>

#include "backends/cpu/kernels.h"
#include "quant/sparse_24.h"

namespace quire::cpu {
namespace {

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/math.inc.h"

#include "backends/cpu/kernels/rows.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/linear_bf16.inc.h"

#include "backends/cpu/kernels/linear_sparse_24.inc.h"

#include "backends/cpu/kernels/linear_sparse_24_bf16.inc.h"

#include "backends/cpu/kernels/vec_gathered_avx512.inc.h"

#include "backends/cpu/kernels/kv.inc.h"

#include "backends/cpu/kernels/attention_reader.inc.h"

#include "backends/cpu/kernels/attention_tile.inc.h"

#include "backends/cpu/kernels/attention.inc.h"

#include "backends/cpu/kernels/attention_pairs.inc.h"

void round_row(void* dst, const float* x, int64_t k) {
  auto* at = static_cast<uint16_t*>(dst);
  for (int64_t i = 0; i < k; i += 32) {
    const __m512 low = k - i >= 16 ? Avx512::load(x + i) : Avx512::load_part(x + i, k - i);
    const __m512 high = k - i >= 32  ? Avx512::load(x + i + 16)
                        : k - i > 16 ? Avx512::load_part(x + i + 16, k - i - 16)
                                     : Avx512::zero();
    _mm512_storeu_si512(at + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}

// Independent sums of bfloat16 products in registers. Returns the number of operations.
double probe_bf16(int64_t rounds, float* sink) {
  constexpr int kChains = 12;
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5F), _mm512_set1_ps(-0.5F));
  for (int64_t i = 0; i < rounds; ++i) {
    QUIRE_UNROLL
    for (int j = 0; j < kChains; ++j) sum[j] = _mm512_dpbf16_ps(sum[j], a, a);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  _mm512_storeu_ps(sink, sum[0]);
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

}  // namespace

void fill_avx512_bf16(CpuKernels& kernels) {
  kernels.prepare_x[kStorageBF16] = round_row;
  kernels.linear[kStorageBF16] = linear<Avx512, RoundedBF16>;
  kernels.linear_sparse_24[kStorageBF16] = linear_sparse_24<GatheredAvx512, GatheredPairs>;
  kernels.attend_pairs[kKvBF16] = attend_split<Avx512, KvBF16, Pairs>;
  kernels.attend_pairs[kKvE4M3] = attend_split<Avx512, KvE4M3, Pairs>;
  kernels.attend_pairs[kKvE5M2] = attend_split<Avx512, KvE5M2, Pairs>;
  kernels.attend_pairs[kKvI8] = attend_split<Avx512, KvI8, Pairs>;
  kernels.probe_bf16 = probe_bf16;
}

}  // namespace quire::cpu
