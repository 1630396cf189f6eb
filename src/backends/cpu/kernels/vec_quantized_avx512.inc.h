// Quantized weights of 16 columns in a zmm register. Included after vec_avx512.inc.h.

struct QuantizedAvx512 {
  using V = Avx512;
  using I = __m512i;
  using N = __m512;
  static constexpr int kLanes = 16;
  // Rows whose sums fit into the registers with two registers of weights, and with a full panel of weights.
  static constexpr int kFewRows = 8;
  static constexpr int kWholeRows = 8;

  static I load(const void* p) { return _mm512_loadu_si512(p); }
  static I set1(int32_t v) { return _mm512_set1_epi32(v); }
  static I both(I a, I b) { return _mm512_and_si512(a, b); }
  // Bits of a if the mask is set, otherwise of b.
  static I choose(I mask, I a, I b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }
  template <int kCount>
  static I right(I v) {
    return _mm512_srli_epi32(v, kCount);
  }
  template <int kCount>
  static I left(I v) {
    return _mm512_slli_epi32(v, kCount);
  }
  template <int kCount>
  static I right_signed(I v) {
    return _mm512_srai_epi32(v, kCount);
  }
  static I larger(I a, I b) { return _mm512_max_epi32(a, b); }
  static N as_float(I v) { return _mm512_castsi512_ps(v); }
  static N mul(N a, N b) { return _mm512_mul_ps(a, b); }
  static I widen_u8(const void* p) { return _mm512_cvtepu8_epi32(load_128(p)); }
  static N load_u8(const void* p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(p))); }
  static N load_i8(const void* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(p))); }
  static N load_bf16(const uint16_t* p) { return V::load_bf16(p); }

  struct Table {
    __m512 v;
  };
  static Table table(const float* p) { return {_mm512_loadu_ps(p)}; }
  // Indexed by the lowest 4 bits of each lane.
  static N lookup(const Table& t, I index) { return _mm512_permutexvar_ps(index, t.v); }
  // bytes_table: the 16 bytes of a table in each 128 bits. shuffle: looks up the bytes of a register, 0 to
  // 15.
  static I bytes_table(const uint8_t* p) { return _mm512_broadcast_i32x4(load_128(p)); }
  static I shuffle(I table, I index) { return _mm512_shuffle_epi8(table, index); }
  // Indexed by 16 bytes, each 0 to 15.
  static V::F lookup_bytes(const float* table, const uint8_t* codes) {
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(load_128(codes)), _mm512_loadu_ps(table));
  }
  // Two pairs of registers, each with four elements along K of all columns: stores 16 contiguous elements per
  // column.
  static void store_columns(uint8_t* out, const I (&first)[2], const I (&second)[2]) {
    const I low[2] = {_mm512_unpacklo_epi32(first[0], first[1]), _mm512_unpacklo_epi32(second[0], second[1])};
    const I high[2] = {_mm512_unpackhi_epi32(first[0], first[1]),
                       _mm512_unpackhi_epi32(second[0], second[1])};
    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(low[0], low[1]));
    _mm512_storeu_si512(out + 64, _mm512_unpackhi_epi64(low[0], low[1]));
    _mm512_storeu_si512(out + 128, _mm512_unpacklo_epi64(high[0], high[1]));
    _mm512_storeu_si512(out + 192, _mm512_unpackhi_epi64(high[0], high[1]));
  }
  static constexpr int codes_of_column(int j) { return j % 4 * 64 + j / 4 * 16; }
  static N gather(const float* p, I index) { return _mm512_i32gather_ps(index, p, 4); }
  static N gather_u8(const float* p, const void* index) {
    return gather(p, _mm512_cvtepu8_epi32(load_128(index)));
  }

 private:
  static __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
};
