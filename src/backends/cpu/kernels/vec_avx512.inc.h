// 16 float32 lanes in one zmm register. Has the same interface as the pair of ymm registers in
// vec_avx2.inc.h, and the same results in each lane. Included in a separate namespace by files compiled for
// AVX-512 F, BW, DQ and VL.

struct Avx512 {
  using F = __m512;
  using M = __mmask16;

  // For products: `Narrow` is one register of kNarrowLanes lanes.
  using Narrow = __m512;
  static constexpr int kNarrowLanes = 16;
  // Accumulators of 16 lanes that fit into the registers in addition to the operands.
  static constexpr int kMaxAccumulators = 24;

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float v) { return _mm512_set1_ps(v); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  // The first n lanes, n in [0, 16]; other lanes are zero, or not stored.
  static F load_part(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store_part(float* p, F v, int64_t n) { _mm512_mask_storeu_ps(p, first(n), v); }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }    // a b + c
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b
  static F fms(F a, F b, F c) { return _mm512_fmsub_ps(a, b, c); }    // a b - c
  static F max(F a, F b) { return _mm512_max_ps(a, b); }              // b if either is NaN
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  // The magnitude of a with the sign of s.
  static F copy_sign(F a, F s) {
    const __m512 sign = _mm512_set1_ps(-0.0F);
    return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, s));
  }
  static F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // 2^n for an integer n in [-126, 127].
  static F pow2(F n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
  // a * 2^n. Neither operands nor result may underflow or overflow.
  static F times_pow2(F a, F n) { return _mm512_scalef_ps(a, n); }

  static M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static F select(M m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }
  // Lanes [low, high).
  static M lanes(int64_t low, int64_t high) {
    return static_cast<M>(first(high) & ~static_cast<unsigned>(first(low)));
  }

  // Lanes whose bits are set.
  static M lanes_of(uint16_t bits) { return bits; }

  // (lane i + lane i + 8), then + 4, + 2, + 1.
  static float reduce_add(F v) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
  }
  static float reduce_max(F v) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
  }

  // The larger one by its bits, for values without sign: NaN > infinity > finite values.
  static F max_bits(F a, F b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  // Lane i of the result is the maximum, by its bits, of lanes i, i + 4, i + 8 and i + 12.
  static __m128i quarter_max_bits(F v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m256i half = _mm256_max_epi32(_mm512_castsi512_si256(bits), _mm512_extracti32x8_epi32(bits, 1));
    return _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  }

  static F load_bf16(const uint16_t* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16_part(const uint16_t* p, int64_t n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
  }
  static F load_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_f16_part(const uint16_t* p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
  }
  // e4m3 divided by 256, e5m2, int8.
  static F load_e4m3(const uint8_t* p) { return widen_e4m3(load_128(p)); }
  static F load_e4m3_part(const uint8_t* p, int64_t n) { return widen_e4m3(load_128_part(p, n)); }
  static F load_e5m2(const uint8_t* p) { return widen_e5m2(load_128(p)); }
  static F load_e5m2_part(const uint8_t* p, int64_t n) { return widen_e5m2(load_128_part(p, n)); }
  static F load_i8(const int8_t* p) { return widen_i8(load_128(p)); }
  static F load_i8_part(const int8_t* p, int64_t n) { return widen_i8(load_128_part(p, n)); }
  // Rounded to nearest even; all 16 lanes.
  static void store_bf16(uint16_t* p, F v) {
    const __m512i halves = _mm512_srli_epi32(round_bf16(v), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(halves));
  }
  // For values that are exact in bfloat16; all 16 lanes.
  static void store_bf16_exact(uint16_t* p, F v) {
    const __m512i halves = _mm512_srli_epi32(_mm512_castps_si512(v), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(halves));
  }
  // Lane i as 32 bits: low's lane i in the low half, high's in the high half.
  static void store_bf16_pairs(uint16_t* p, F low, F high) {
    const __m512i kept = _mm512_and_si512(round_bf16(high), _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
    _mm512_storeu_si512(p, _mm512_or_si512(kept, _mm512_srli_epi32(round_bf16(low), 16)));
  }
  static void store_f16(uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  // 8-bit floats with kMantissa bits of mantissa whose smallest normal number is 2^kMinExponent; values
  // larger than `largest` saturate. The arithmetic is that of tensor/dtype.cc.
  template <int kMantissa, int kMinExponent>
  static void store_f8(uint8_t* p, F v, float largest) {
    constexpr int kDropped = 23 - kMantissa;
    constexpr int kRebias = (kMinExponent - 1 + 127) << 23;
    const __m512i shifter = _mm512_set1_epi32((kMinExponent - kMantissa + 23 + 127) << 23);
    const F size = _mm512_min_ps(_mm512_abs_ps(v), _mm512_set1_ps(largest));
    const __m512i bits = _mm512_castps_si512(size);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, kDropped), _mm512_set1_epi32(1));
    const __m512i offset = _mm512_set1_epi32((1 << (kDropped - 1)) - 1 - kRebias);
    const __m512i normal = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, offset)), kDropped);
    const __m512i small =
        _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(size, _mm512_castsi512_ps(shifter))), shifter);
    const M is_small = _mm512_cmplt_epi32_mask(bits, _mm512_set1_epi32(kRebias + (1 << 23)));
    __m512i code = _mm512_mask_blend_epi32(is_small, normal, small);
    code = _mm512_mask_mov_epi32(code, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7f));
    const __m512i sign =
        _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(v), 24), _mm512_set1_epi32(0x80));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_or_si512(code, sign)));
  }
  // To nearest even; values out of range saturate.
  static __m128i to_i8(F v) { return _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)); }
  static void store_i8(int8_t* p, F v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_i8(v)); }

  // even = lanes 0, 2, ... of the 32 lanes (a, b); odd = lanes 1, 3, ...
  static void split_pairs(F a, F b, F* even, F* odd) {
    const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, index, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(index, _mm512_set1_epi32(1)), b);
  }
  static void join_pairs(F even, F odd, F* a, F* b) {
    const __m512i index = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *a = _mm512_permutex2var_ps(even, index, odd);
    *b = _mm512_permutex2var_ps(even, _mm512_add_epi32(index, _mm512_set1_epi32(8)), odd);
  }

  // Lane j of row i becomes lane i of row j.
  static void transpose(F* t) {
    F u[16];
    QUIRE_UNROLL
    for (int i = 0; i < 16; i += 2) {
      u[i] = _mm512_unpacklo_ps(t[i], t[i + 1]);
      u[i + 1] = _mm512_unpackhi_ps(t[i], t[i + 1]);
    }
    QUIRE_UNROLL
    for (int i = 0; i < 16; i += 4) {
      t[i] = unpack_pairs(u[i], u[i + 2], false);
      t[i + 1] = unpack_pairs(u[i], u[i + 2], true);
      t[i + 2] = unpack_pairs(u[i + 1], u[i + 3], false);
      t[i + 3] = unpack_pairs(u[i + 1], u[i + 3], true);
    }
    // Row 4 g + c now contains, in quarter q, column 4 q + c of rows 4 g to 4 g + 3.
    QUIRE_UNROLL
    for (int c = 0; c < 4; ++c) {
      const F even_low = _mm512_shuffle_f32x4(t[c], t[4 + c], 0x88);  // quarters 0, 2
      const F even_high = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0x88);
      const F odd_low = _mm512_shuffle_f32x4(t[c], t[4 + c], 0xdd);  // quarters 1, 3
      const F odd_high = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0xdd);
      u[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
      u[8 + c] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
      u[4 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
      u[12 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
    QUIRE_UNROLL
    for (int i = 0; i < 16; ++i) t[i] = u[i];
  }

  static Narrow narrow_zero() { return _mm512_setzero_ps(); }
  static Narrow narrow_set1(float v) { return _mm512_set1_ps(v); }
  static Narrow narrow_load(const float* p) { return _mm512_loadu_ps(p); }
  static void narrow_store(float* p, Narrow v) { _mm512_storeu_ps(p, v); }
  static Narrow narrow_add(Narrow a, Narrow b) { return _mm512_add_ps(a, b); }
  static Narrow narrow_fma(Narrow a, Narrow b, Narrow c) { return _mm512_fmadd_ps(a, b, c); }
  static Narrow narrow_load_part(const float* p, int64_t n) { return load_part(p, n); }
  static void narrow_store_part(float* p, Narrow v, int64_t n) { store_part(p, v, n); }
  static Narrow narrow_load_f16(const uint16_t* p) { return load_f16(p); }
  // The low and the high halves of 32-bit lanes, as bfloat16.
  static Narrow narrow_load_bf16_low(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
  }
  static Narrow narrow_load_bf16_high(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(0xaaaaaaaaU, p));
  }

 private:
  static M first(int64_t n) { return static_cast<M>(n >= 16 ? 0xffffU : n <= 0 ? 0U : (1U << n) - 1U); }
  // bfloat16 in the high half of each lane; the low half is undefined.
  static __m512i round_bf16(F v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, nan);
  }
  static F unpack_pairs(F a, F b, bool high) {
    const __m512d x = _mm512_castps_pd(a);
    const __m512d y = _mm512_castps_pd(b);
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
  }
  static __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m128i load_128_part(const void* p, int64_t n) { return _mm_maskz_loadu_epi8(first(n), p); }
  // e4m3 in the bits of a float16: exponent and mantissa are shifted to their place, with the sign above.
  // Adding one reaches the sign only for NaN, whose seven bits are all set; then the highest bit of the
  // exponent is set, too, which gives a float16 NaN.
  static F widen_e4m3(__m128i v) {
    const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(v), 7);
    const __m256i next = _mm256_add_epi16(shifted, _mm256_set1_epi16(0x80));
    // shifted ^ (next & 0x4000): bit 14 was a copy of the sign.
    return _mm512_cvtph_ps(_mm256_ternarylogic_epi64(shifted, next, _mm256_set1_epi16(0x4000), 0x78));
  }
  static F widen_e5m2(__m128i v) { return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(v), 8)); }
  static F widen_i8(__m128i v) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v)); }
  static F widen_bf16(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
};
