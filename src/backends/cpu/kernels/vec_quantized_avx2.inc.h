// Quantized weights of 8 columns in a ymm register. Included after vec_avx2.inc.h.

struct QuantizedAvx2 {
  using V = Avx2;
  using I = __m256i;
  using N = __m256;
  static constexpr int kLanes = 8;
  // Rows whose sums fit into the registers with two registers of weights, and with a full panel of weights.
  static constexpr int kFewRows = 4;
  static constexpr int kWholeRows = 2;

  static I load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static I set1(int32_t v) { return _mm256_set1_epi32(v); }
  static I both(I a, I b) { return _mm256_and_si256(a, b); }
  // Bits of a if the mask is set, otherwise of b.
  static I choose(I mask, I a, I b) {
    return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
  }
  template <int kCount>
  static I right(I v) {
    return _mm256_srli_epi32(v, kCount);
  }
  template <int kCount>
  static I left(I v) {
    return _mm256_slli_epi32(v, kCount);
  }
  template <int kCount>
  static I right_signed(I v) {
    return _mm256_srai_epi32(v, kCount);
  }
  static I larger(I a, I b) { return _mm256_max_epi32(a, b); }
  static N as_float(I v) { return _mm256_castsi256_ps(v); }
  static N mul(N a, N b) { return _mm256_mul_ps(a, b); }
  static I widen_u8(const void* p) { return _mm256_cvtepu8_epi32(load_64(p)); }
  static N load_u8(const void* p) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p))); }
  static N load_i8(const void* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p))); }
  static N load_bf16(const uint16_t* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }

  struct Table {
    __m256 low;
    __m256 high;
  };
  static Table table(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  // Indexed by the lowest 4 bits of each lane.
  static N lookup(const Table& t, I index) {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t.low, index), _mm256_permutevar8x32_ps(t.high, index),
                            _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  }
  // bytes_table: the 16 bytes of a table in each 128 bits. shuffle: looks up the bytes of a register, 0 to
  // 15.
  static I bytes_table(const uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I shuffle(I table, I index) { return _mm256_shuffle_epi8(table, index); }
  // Indexed by 16 bytes, each 0 to 15.
  static V::F lookup_bytes(const float* p, const uint8_t* codes) {
    const Table t = table(p);
    return {lookup(t, widen_u8(codes)), lookup(t, widen_u8(codes + 8))};
  }
  // Two pairs of registers, each with four elements along K of all columns: stores 16 contiguous elements per
  // column.
  static void store_columns(uint8_t* out, const I (&first)[2], const I (&second)[2]) {
    const I low[2] = {_mm256_unpacklo_epi32(first[0], first[1]), _mm256_unpacklo_epi32(second[0], second[1])};
    const I high[2] = {_mm256_unpackhi_epi32(first[0], first[1]),
                       _mm256_unpackhi_epi32(second[0], second[1])};
    store(out, _mm256_unpacklo_epi64(low[0], low[1]));
    store(out + 32, _mm256_unpackhi_epi64(low[0], low[1]));
    store(out + 64, _mm256_unpacklo_epi64(high[0], high[1]));
    store(out + 96, _mm256_unpackhi_epi64(high[0], high[1]));
  }
  static constexpr int codes_of_column(int j) { return j / 8 * 128 + j % 4 * 32 + j % 8 / 4 * 16; }
  static N gather(const float* p, I index) { return _mm256_i32gather_ps(p, index, 4); }
  static N gather_u8(const float* p, const void* index) {
    return gather(p, _mm256_cvtepu8_epi32(load_64(index)));
  }

 private:
  static void store(uint8_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static __m128i load_64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
};
