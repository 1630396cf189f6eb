// Dot products of 8-bit integers in zmm registers: 16 columns, four elements along K per lane. Included after
// vec_avx512.inc.h.

struct IntAvx512 {
  using V = Avx512;
  using I = __m512i;
  static constexpr int kLanes = 16;
  // Maximum number of rows per block for which the registers can hold two sums per result.
  static constexpr int kFewRows = 3;
  // Rows of activations that are interleaved.
  static constexpr int kBlockRows = 12;
  // Rows whose sums and results fit into the registers together, two registers each.
  static constexpr int kRunRows = 6;
  // Rows that are multiplied by a panel of integer weights at once.
  static constexpr int kIntRows = kRunRows;
  // Offset of stored 8-bit weights in dot.
  static constexpr int32_t kInt8Zero = 0;

  // 8-bit weights in the form that dot takes.
  struct W8 {
    __m512i size;
    __mmask64 negative;
  };
  static W8 weights8(I codes) {
    const __m512i w = _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(0x80)));
    return {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
  }
  static W8 weights8(const uint8_t* p) { return weights8(_mm512_loadu_si512(p)); }
  // Two products of at most 128 x 127 fit into 16 bits; the sign of the weight is applied to x.
  static I dot(I sum, W8 w, I x) {
    const __m512i signed_x = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
    return add_pairs(sum, _mm512_maddubs_epi16(w.size, signed_x));
  }
  // 4-bit weights, one per byte.
  struct W4 {
    __m512i v;
  };
  static I dot(I sum, W4 w, I x) { return add_pairs(sum, _mm512_maddubs_epi16(w.v, x)); }
  static void weights4(const uint8_t* p, W4* low, W4* high) {
    const __m512i both = _mm512_loadu_si512(p);
    const __m512i mask = _mm512_set1_epi8(15);
    low->v = _mm512_and_si512(both, mask);
    high->v = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
  }

  static I zero() { return _mm512_setzero_si512(); }
  static I set1(int32_t v) { return _mm512_set1_epi32(v); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  // Products of the 16-bit values in 32-bit lanes.
  static I mul16(I a, I b) { return _mm512_madd_epi16(a, b); }
  static I load_u8(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I load_i8(const uint8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V::Narrow to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static V::Narrow sub(V::Narrow a, V::Narrow b) { return _mm512_sub_ps(a, b); }
  static V::Narrow mul(V::Narrow a, V::Narrow b) { return _mm512_mul_ps(a, b); }
  // Byte kByte of each lane.
  template <int kByte>
  static I byte_of(I v) {
    return _mm512_and_si512(_mm512_srli_epi32(v, 8 * kByte), _mm512_set1_epi32(255));
  }
  static I load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static void store(uint8_t* p, I v) { _mm512_storeu_si512(p, v); }

  // Packs 16 lanes of four small integers to bytes.
  static void store_bytes(uint8_t* p, V::F a, V::F b, V::F c, V::F d) {
    _mm512_storeu_si512(p, join_bytes(a, b, c, d));
  }
  static void store_halves(uint8_t* p, const V::F* low, const V::F* high) {
    _mm512_storeu_si512(
        p, _mm512_or_si512(join_bytes(low[0], low[1], low[2], low[3]),
                           _mm512_slli_epi32(join_bytes(high[0], high[1], high[2], high[3]), 4)));
  }
  static void store_u8(uint8_t* p, V::F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }

 private:
  static I add_pairs(I sum, I pairs) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  static I join_bytes(V::F a, V::F b, V::F c, V::F d) {
    const __m512i low = _mm512_or_si512(_mm512_cvtps_epi32(a), _mm512_slli_epi32(_mm512_cvtps_epi32(b), 8));
    const __m512i high = _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtps_epi32(c), 16),
                                         _mm512_slli_epi32(_mm512_cvtps_epi32(d), 24));
    return _mm512_or_si512(low, high);
  }
};
