// Attention with dot products of bfloat16 pairs. Queries and softmax weights are rounded to bfloat16;
// products are exact, and sums are float32 in the processor's order of pairs. For bfloat16 and 8-bit caches,
// whose elements bfloat16 represents exactly, and even head sizes. Lanes are 32 bits: the first term of a
// step is in the low half, the second in the high half.

struct PairTerms {
  using F = __m512;
  using Query = uint32_t;
  static constexpr int kDepth = 2;

  static const Query* query_of(const QueryRow& query_row) { return query_row.q_pairs; }
  static F query(const Query* q, int64_t d) { return set1(q[d / 2]); }
  static F weight(const float* weights, int64_t p) {
    return set1(reinterpret_cast<const uint32_t*>(weights)[p / 2]);
  }
  static F multiply(F x, F y, F sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
  }
  static void store_weights(float* weights, int group, F w) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights) + group,
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(w)));
  }

 private:
  static F set1(uint32_t pair) { return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(pair))); }
};

struct WidePairs : PairTerms, WidePlaces<2> {
  F key(int group, int64_t d) const { return _mm512_loadu_ps(key_at(group, d)); }
  F value(int64_t p, Terms terms, int64_t dim, int64_t) const {
    const __m512i both = _mm512_loadu_si512(value_at(p, dim));
    return _mm512_castsi512_ps(terms == kAllTerms    ? both
                               : terms == kFirstTerm ? _mm512_maskz_mov_epi16(0x55555555U, both)
                                                     : _mm512_maskz_mov_epi16(0xaaaaaaaaU, both));
  }
  static void store(uint16_t* to, F v) { _mm512_storeu_ps(to, v); }
  static WidePairs at(float* scratch) {
    WidePairs transposed;
    transposed.values = reinterpret_cast<uint16_t*>(scratch);
    transposed.values_stride = kTransposedDims;
    return transposed;
  }
};

template <class V, class S>
struct Pairs : PairTerms {
  using T = typename S::T;
  using Wide = WidePairs;
  using Transposed = WidePairs;
  static constexpr bool kWidens = true;

  const T* keys[kGroups];  // element (d, i) of a group of 16 positions is keys[group][d * stride + i]
  int64_t stride;
  const T* values[kTile];

  F key(int group, int64_t d) const {
    const T* at = keys[group] + d * stride;
    return join(low_half(at, 16), high_half(at + stride, 16));
  }
  F steps(int group, int64_t d) const {
    const T* first = keys[group] + d * stride;
    const T* second = keys[group + 1] + d * stride;
    if constexpr (sizeof(T) == 2) {
      const __m512i low = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
      return _mm512_castsi512_ps(
          _mm512_inserti64x4(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), 1));
    } else {
      return reinterpret_cast<F>(
          _mm512_cvtne2ps_pbh(S::template load<V>(second), S::template load<V>(first)));
    }
  }
  F value(int64_t p, Terms terms, int64_t dim, int64_t lanes) const {
    const __m512i none = _mm512_setzero_si512();
    return join(terms == kSecondTerm ? none : low_half(values[p] + dim, lanes),
                terms == kFirstTerm ? none : high_half(values[p + 1] + dim, lanes));
  }

 private:
  static F join(__m512i low, __m512i high) { return _mm512_castsi512_ps(_mm512_or_si512(low, high)); }
  static __m512i load(const T* p, int64_t lanes) {
    return _mm512_castps_si512(lanes < 16 ? S::template load_part<V>(p, lanes) : S::template load<V>(p));
  }
  static __m512i low_half(const T* p, int64_t lanes) {
    if constexpr (sizeof(T) == 2) {
      return _mm512_cvtepu16_epi32(
          lanes < 16 ? _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1U << lanes) - 1), p)
                     : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    } else {
      return _mm512_srli_epi32(load(p, lanes), 16);
    }
  }
  static __m512i high_half(const T* p, int64_t lanes) { return load(p, lanes); }
};
