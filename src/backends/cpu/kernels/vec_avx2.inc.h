// 16 float32 lanes in two ymm registers, with the interface of vec_avx512.inc.h and the same results in each
// lane. Included in a separate namespace by files compiled for AVX2, FMA and F16C.

struct Avx2 {
  struct F {
    __m256 a;  // lanes 0..7
    __m256 b;  // lanes 8..15
  };
  using M = F;  // all bits of a lane are set, or none

  using Narrow = __m256;
  static constexpr int kNarrowLanes = 8;
  static constexpr int kMaxAccumulators = 6;

  static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F set1(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
  static F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void store(float* p, F v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
  }
  static F load_part(const float* p, int64_t n) {
    return {narrow_load_part(p, n), narrow_load_part(p + 8, n - 8)};
  }
  static void store_part(float* p, F v, int64_t n) {
    narrow_store_part(p, v.a, n);
    narrow_store_part(p + 8, v.b, n - 8);
  }

  static F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static F fnma(F x, F y, F z) { return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)}; }
  static F fms(F x, F y, F z) { return {_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)}; }
  static F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F abs(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  static F copy_sign(F x, F s) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, x.a), _mm256_and_ps(sign, s.a)),
            _mm256_or_ps(_mm256_andnot_ps(sign, x.b), _mm256_and_ps(sign, s.b))};
  }
  static F round(F x) {
    return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
            _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static F pow2(F n) { return {narrow_pow2(n.a), narrow_pow2(n.b)}; }
  // a * 2^n. Neither operands nor result may underflow or overflow; n as above.
  static F times_pow2(F a, F n) { return mul(a, pow2(n)); }

  static M less(F x, F y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
  }
  static F select(M m, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
  }
  static M lanes(int64_t low, int64_t high) {
    return {_mm256_castsi256_ps(narrow_lanes(low, high)),
            _mm256_castsi256_ps(narrow_lanes(low - 8, high - 8))};
  }
  static M lanes_of(uint16_t bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const auto half = [&](int part) {
      return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(part), lane), lane));
    };
    return {half(bits & 0xff), half(bits >> 8)};
  }

  static float reduce_add(F v) {
    const __m256 a = _mm256_add_ps(v.a, v.b);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
  }
  static float reduce_max(F v) {
    const __m256 a = _mm256_max_ps(v.a, v.b);
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
  }

  static F max_bits(F x, F y) {
    return {_mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x.a), _mm256_castps_si256(y.a))),
            _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x.b), _mm256_castps_si256(y.b)))};
  }
  static __m128i quarter_max_bits(F v) {
    const __m256i half = _mm256_max_epi32(_mm256_castps_si256(v.a), _mm256_castps_si256(v.b));
    return _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  }

  static F load_bf16(const uint16_t* p) { return {widen_bf16(load_128(p)), widen_bf16(load_128(p + 8))}; }
  static F load_bf16_part(const uint16_t* p, int64_t n) {
    uint16_t whole[16];
    copy_part(whole, p, n);
    return load_bf16(whole);
  }
  static F load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
  }
  static F load_f16_part(const uint16_t* p, int64_t n) {
    uint16_t whole[16];
    copy_part(whole, p, n);
    return load_f16(whole);
  }
  static void store_bf16(uint16_t* p, F v) {
    narrow_store_bf16(p, v.a);
    narrow_store_bf16(p + 8, v.b);
  }
  static void store_bf16_exact(uint16_t* p, F v) {
    const __m256i a = _mm256_srli_epi32(_mm256_castps_si256(v.a), 16);
    const __m256i b = _mm256_srli_epi32(_mm256_castps_si256(v.b), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
  }
  static void store_bf16_pairs(uint16_t* p, F low, F high) {
    narrow_store_bf16_pairs(p, low.a, high.a);
    narrow_store_bf16_pairs(p + 16, low.b, high.b);
  }
  static void store_f16(uint16_t* p, F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                     _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static F load_e4m3(const uint8_t* p) { return widen_e4m3(load_128(p)); }
  static F load_e4m3_part(const uint8_t* p, int64_t n) { return widen_e4m3(load_bytes_part(p, n)); }
  static F load_e5m2(const uint8_t* p) { return widen_e5m2(load_128(p)); }
  static F load_e5m2_part(const uint8_t* p, int64_t n) { return widen_e5m2(load_bytes_part(p, n)); }
  static F load_i8(const int8_t* p) { return widen_i8(load_128(p)); }
  static F load_i8_part(const int8_t* p, int64_t n) { return widen_i8(load_bytes_part(p, n)); }
  template <int kMantissa, int kMinExponent>
  static void store_f8(uint8_t* p, F v, float largest) {
    const __m256i a = narrow_f8<kMantissa, kMinExponent>(v.a, largest);
    const __m256i b = narrow_f8<kMantissa, kMinExponent>(v.b, largest);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(bytes));
  }
  static __m128i to_i8(F v) {
    const __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b));
    const __m256i words = _mm256_permute4x64_epi64(packed, 0xd8);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packs_epi16(words, words), 0x08));
  }
  static void store_i8(int8_t* p, F v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_i8(v)); }

  static void split_pairs(F x, F y, F* even, F* odd) {
    *even = {evens(x.a, x.b), evens(y.a, y.b)};
    *odd = {odds(x.a, x.b), odds(y.a, y.b)};
  }
  static void join_pairs(F even, F odd, F* x, F* y) {
    *x = interleave(even.a, odd.a);
    *y = interleave(even.b, odd.b);
  }

  static void transpose(F* t) {
    // Swaps the off-diagonal 8 x 8 quarters.
    __m256 quarter[2][2][8];
    for (int i = 0; i < 8; ++i) {
      quarter[0][0][i] = t[i].a;
      quarter[0][1][i] = t[i].b;
      quarter[1][0][i] = t[8 + i].a;
      quarter[1][1][i] = t[8 + i].b;
    }
    for (auto& half : quarter) {
      for (auto& q : half) transpose_8(q);
    }
    for (int i = 0; i < 8; ++i) {
      t[i] = {quarter[0][0][i], quarter[1][0][i]};
      t[8 + i] = {quarter[0][1][i], quarter[1][1][i]};
    }
  }

  static Narrow narrow_zero() { return _mm256_setzero_ps(); }
  static Narrow narrow_set1(float v) { return _mm256_set1_ps(v); }
  static Narrow narrow_load(const float* p) { return _mm256_loadu_ps(p); }
  static void narrow_store(float* p, Narrow v) { _mm256_storeu_ps(p, v); }
  static Narrow narrow_add(Narrow a, Narrow b) { return _mm256_add_ps(a, b); }
  static Narrow narrow_fma(Narrow a, Narrow b, Narrow c) { return _mm256_fmadd_ps(a, b, c); }
  static Narrow narrow_load_part(const float* p, int64_t n) {
    return _mm256_maskload_ps(p, narrow_lanes(0, n));
  }
  static void narrow_store_part(float* p, Narrow v, int64_t n) {
    _mm256_maskstore_ps(p, narrow_lanes(0, n), v);
  }
  static Narrow narrow_load_f16(const uint16_t* p) { return _mm256_cvtph_ps(load_128(p)); }
  static Narrow narrow_load_bf16_low(const uint16_t* p) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  static Narrow narrow_load_bf16_high(const uint16_t* p) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }

 private:
  static __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m128i load_bytes_part(const void* p, int64_t n) {
    uint8_t whole[16];
    const auto* bytes = static_cast<const uint8_t*>(p);
    for (int64_t i = 0; i < 16; ++i) whole[i] = i < n ? bytes[i] : uint8_t{0};
    return load_128(whole);
  }
  static F widen_f16(__m256i v) {
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1))};
  }
  static F widen_e4m3(__m128i v) {
    const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(v), 7);
    const __m256i next = _mm256_add_epi16(shifted, _mm256_set1_epi16(0x80));
    return widen_f16(_mm256_xor_si256(shifted, _mm256_and_si256(next, _mm256_set1_epi16(0x4000))));
  }
  static F widen_e5m2(__m128i v) { return widen_f16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(v), 8)); }
  static F widen_i8(__m128i v) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
  }
  // Codes of 8-bit floats, one per 32-bit lane.
  template <int kMantissa, int kMinExponent>
  static __m256i narrow_f8(__m256 v, float largest) {
    constexpr int kDropped = 23 - kMantissa;
    constexpr int kRebias = (kMinExponent - 1 + 127) << 23;
    const __m256i shifter = _mm256_set1_epi32((kMinExponent - kMantissa + 23 + 127) << 23);
    const __m256 size = _mm256_min_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0F), v), _mm256_set1_ps(largest));
    const __m256i bits = _mm256_castps_si256(size);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, kDropped), _mm256_set1_epi32(1));
    const __m256i offset = _mm256_set1_epi32((1 << (kDropped - 1)) - 1 - kRebias);
    const __m256i normal = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, offset)), kDropped);
    const __m256i small =
        _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(size, _mm256_castsi256_ps(shifter))), shifter);
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(kRebias + (1 << 23)), bits);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i code = _mm256_blendv_epi8(normal, small, is_small);
    code = _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7f), is_nan);
    const __m256i sign =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(v), 24), _mm256_set1_epi32(0x80));
    return _mm256_or_si256(code, sign);
  }
  static __m256 widen_bf16(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  static void copy_part(uint16_t* whole, const uint16_t* p, int64_t n) {
    for (int64_t i = 0; i < 16; ++i) whole[i] = i < n ? p[i] : uint16_t{0};
  }
  static __m256 narrow_pow2(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static int clamp_lane(int64_t n) { return n < 0 ? 0 : n > 8 ? 8 : static_cast<int>(n); }
  static __m256i narrow_lanes(int64_t low, int64_t high) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i below_high = _mm256_cmpgt_epi32(_mm256_set1_epi32(clamp_lane(high)), lane);
    const __m256i below_low = _mm256_cmpgt_epi32(_mm256_set1_epi32(clamp_lane(low)), lane);
    return _mm256_andnot_si256(below_low, below_high);
  }
  // bfloat16 in the high half of each lane; the low half is undefined.
  static __m256i round_bf16(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
  static void narrow_store_bf16(uint16_t* p, __m256 v) {
    const __m256i halves = _mm256_srli_epi32(round_bf16(v), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static void narrow_store_bf16_pairs(uint16_t* p, __m256 low, __m256 high) {
    const __m256i kept = _mm256_and_si256(round_bf16(high), _mm256_set1_epi32(static_cast<int>(0xffff0000U)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_or_si256(kept, _mm256_srli_epi32(round_bf16(low), 16)));
  }
  static __m256 unpack_pairs(__m256 a, __m256 b, bool high) {
    const __m256d x = _mm256_castps_pd(a);
    const __m256d y = _mm256_castps_pd(b);
    return _mm256_castpd_ps(high ? _mm256_unpackhi_pd(x, y) : _mm256_unpacklo_pd(x, y));
  }
  static void transpose_8(__m256* t) {
    __m256 u[8];
    QUIRE_UNROLL
    for (int i = 0; i < 8; i += 2) {
      u[i] = _mm256_unpacklo_ps(t[i], t[i + 1]);
      u[i + 1] = _mm256_unpackhi_ps(t[i], t[i + 1]);
    }
    __m256 w[8];
    QUIRE_UNROLL
    for (int i = 0; i < 8; i += 4) {
      w[i] = unpack_pairs(u[i], u[i + 2], false);
      w[i + 1] = unpack_pairs(u[i], u[i + 2], true);
      w[i + 2] = unpack_pairs(u[i + 1], u[i + 3], false);
      w[i + 3] = unpack_pairs(u[i + 1], u[i + 3], true);
    }
    // Row 4 g + c now contains, in half q, column 4 q + c of rows 4 g to 4 g + 3.
    QUIRE_UNROLL
    for (int c = 0; c < 4; ++c) {
      t[c] = _mm256_permute2f128_ps(w[c], w[4 + c], 0x20);
      t[4 + c] = _mm256_permute2f128_ps(w[c], w[4 + c], 0x31);
    }
  }
  static __m256 evens(__m256 x, __m256 y) { return in_order(_mm256_shuffle_ps(x, y, 0x88)); }
  static __m256 odds(__m256 x, __m256 y) { return in_order(_mm256_shuffle_ps(x, y, 0xdd)); }
  // shuffle_ps works on each half separately. Reorders pairs x0 y0 x1 y1 to x0 x1 y0 y1.
  static __m256 in_order(__m256 v) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
  }
  static F interleave(__m256 even, __m256 odd) {
    const __m256 low = _mm256_unpacklo_ps(even, odd);
    const __m256 high = _mm256_unpackhi_ps(even, odd);
    return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  }
};
