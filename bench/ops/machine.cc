#include "machine.h"

#include <immintrin.h>

#include <atomic>

namespace quire::bench {
namespace {

#if defined(__AVX512F__)
using Vec = __m512;
Vec set1(float v) {
  return _mm512_set1_ps(v);
}
Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
Vec add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
#else
using Vec = __m256;
Vec set1(float v) {
  return _mm256_set1_ps(v);
}
Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
Vec add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
#endif
constexpr int kLanes = static_cast<int>(sizeof(Vec) / sizeof(float));
constexpr int kChains = 12;  // more than latency times units of any core so far

float any_lane(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  return lanes[0];
}

}  // namespace

double fma_rounds(ThreadPool& pool, int64_t rounds) {
  std::atomic<float> sink{0.0F};
  const int threads = pool.num_threads();
  // More ranges than threads, so that all take part however late they wake.
  const int64_t ranges = 16 * threads;
  pool.parallel_for(ranges, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      Vec sum[kChains];
      for (int i = 0; i < kChains; ++i) sum[i] = set1(static_cast<float>(i));
      const Vec a = set1(0.999F);
      const Vec b = set1(0.001F);
      for (int64_t i = 0; i < rounds; ++i) {
        for (auto& s : sum) s = fma(s, a, b);
      }
      Vec total = sum[0];
      for (int i = 1; i < kChains; ++i) total = add(total, sum[i]);
      sink.store(any_lane(total), std::memory_order_relaxed);
    }
  });
  return 2.0 * kLanes * kChains * static_cast<double>(rounds) * static_cast<double>(ranges);
}

double bf16_rounds([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] int64_t rounds) {
#if defined(__AVX512BF16__)
  std::atomic<float> sink{0.0F};
  const int64_t ranges = 16 * int64_t{pool.num_threads()};
  pool.parallel_for(ranges, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      __m512 sum[kChains];
      for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
      const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.999F), _mm512_set1_ps(0.999F));
      const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.001F), _mm512_set1_ps(0.001F));
      for (int64_t i = 0; i < rounds; ++i) {
        for (auto& s : sum) s = _mm512_dpbf16_ps(s, a, b);
      }
      __m512 total = sum[0];
      for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sum[i]);
      sink.store(_mm512_reduce_add_ps(total), std::memory_order_relaxed);
    }
  });
  return 4.0 * 16 * kChains * static_cast<double>(rounds) * static_cast<double>(ranges);
#else
  return 0.0;
#endif
}

double vnni_rounds([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] int64_t rounds) {
#if defined(__AVX512VNNI__)
  std::atomic<int> sink{0};
  const int64_t ranges = 16 * int64_t{pool.num_threads()};
  pool.parallel_for(ranges, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      __m512i sum[kChains];
      for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
      const __m512i a = _mm512_set1_epi8(3);
      const __m512i b = _mm512_set1_epi8(static_cast<char>(r));
      for (int64_t i = 0; i < rounds; ++i) {
        for (auto& s : sum) s = _mm512_dpbusd_epi32(s, a, b);
      }
      __m512i total = sum[0];
      for (int i = 1; i < kChains; ++i) total = _mm512_add_epi32(total, sum[i]);
      sink.store(_mm512_reduce_add_epi32(total), std::memory_order_relaxed);
    }
  });
  return 8.0 * 16 * kChains * static_cast<double>(rounds) * static_cast<double>(ranges);
#else
  return 0.0;
#endif
}

float read_all(ThreadPool& pool, const float* data, int64_t bytes) {
  std::atomic<float> sink{0.0F};
  constexpr int64_t kChunk = 256 * 1024;
  pool.parallel_for(bytes, kChunk, [&](int64_t begin, int64_t end, int) {
    const float* p = data + begin / 4;
    const int64_t n = (end - begin) / 4;
    Vec sum[8];
    for (auto& s : sum) s = set1(0.0F);
    for (int64_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes) {
      for (int j = 0; j < 8; ++j) sum[j] = add(sum[j], load(p + i + j * kLanes));
    }
    Vec total = sum[0];
    for (int j = 1; j < 8; ++j) total = add(total, sum[j]);
    sink.store(any_lane(total), std::memory_order_relaxed);
  });
  return sink.load();
}

}  // namespace quire::bench
