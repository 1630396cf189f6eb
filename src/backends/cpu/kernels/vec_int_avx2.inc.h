// Dot products of 8-bit integers in ymm registers: 8 columns, four elements along K per lane. Included after
// vec_avx2.inc.h; the interface is that of vec_int_avx512.inc.h.

struct IntAvx2 {
  using V = Avx2;
  using I = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kFewRows = 1;
  static constexpr int kBlockRows = 4;
  // Rows whose sums and results fit into the registers together.
  static constexpr int kRunRows = 2;
  static constexpr int kIntRows = 4;
  static constexpr int32_t kInt8Zero = 0;

  struct W8 {
    __m256i size;
    __m256i sign;
  };
  static W8 weights8(I codes) {
    const __m256i w = _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
    return {_mm256_abs_epi8(w), w};
  }
  static W8 weights8(const uint8_t* p) { return weights8(load(p)); }
  // Two products of at most 128 x 127 fit into 16 bits; the sign of the weight is applied to x.
  static I dot(I sum, W8 w, I x) {
    return add_pairs(sum, _mm256_maddubs_epi16(w.size, _mm256_sign_epi8(x, w.sign)));
  }
  // 4-bit weights, one per byte.
  struct W4 {
    __m256i v;
  };
  static I dot(I sum, W4 w, I x) { return add_pairs(sum, _mm256_maddubs_epi16(w.v, x)); }
  static void weights4(const uint8_t* p, W4* low, W4* high) {
    const __m256i both = load(p);
    const __m256i mask = _mm256_set1_epi8(15);
    low->v = _mm256_and_si256(both, mask);
    high->v = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
  }

  static I zero() { return _mm256_setzero_si256(); }
  static I set1(int32_t v) { return _mm256_set1_epi32(v); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I mul16(I a, I b) { return _mm256_madd_epi16(a, b); }
  static I load_u8(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I load_i8(const uint8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static V::Narrow to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static V::Narrow sub(V::Narrow a, V::Narrow b) { return _mm256_sub_ps(a, b); }
  static V::Narrow mul(V::Narrow a, V::Narrow b) { return _mm256_mul_ps(a, b); }
  template <int kByte>
  static I byte_of(I v) {
    return _mm256_and_si256(_mm256_srli_epi32(v, 8 * kByte), _mm256_set1_epi32(255));
  }
  static I load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store(uint8_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }

  static void store_bytes(uint8_t* p, V::F a, V::F b, V::F c, V::F d) {
    store(p, join_bytes(a.a, b.a, c.a, d.a));
    store(p + 32, join_bytes(a.b, b.b, c.b, d.b));
  }
  static void store_halves(uint8_t* p, const V::F* low, const V::F* high) {
    store(p, _mm256_or_si256(join_bytes(low[0].a, low[1].a, low[2].a, low[3].a),
                             _mm256_slli_epi32(join_bytes(high[0].a, high[1].a, high[2].a, high[3].a), 4)));
    store(p + 32,
          _mm256_or_si256(join_bytes(low[0].b, low[1].b, low[2].b, low[3].b),
                          _mm256_slli_epi32(join_bytes(high[0].b, high[1].b, high[2].b, high[3].b), 4)));
  }
  static void store_u8(uint8_t* p, V::F v) {
    alignas(32) int32_t lanes[16];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_cvtps_epi32(v.a));
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes + 8), _mm256_cvtps_epi32(v.b));
    for (int i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(lanes[i]);
  }

 private:
  static I add_pairs(I sum, I pairs) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static I join_bytes(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256i low = _mm256_or_si256(_mm256_cvtps_epi32(a), _mm256_slli_epi32(_mm256_cvtps_epi32(b), 8));
    const __m256i high = _mm256_or_si256(_mm256_slli_epi32(_mm256_cvtps_epi32(c), 16),
                                         _mm256_slli_epi32(_mm256_cvtps_epi32(d), 24));
    return _mm256_or_si256(low, high);
  }
};
