// Same, with the VNNI instruction that multiplies unsigned by signed bytes and adds four products to a lane
// without intermediate saturation.

struct IntVnni : IntAvx512 {
  static constexpr int32_t kInt8Zero = 128;

  struct W8 {
    __m512i v;
  };
  static W8 weights8(I codes) { return {codes}; }
  static W8 weights8(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static I dot(I sum, W8 w, I x) { return add_products(sum, w.v, x); }
  static I dot(I sum, W4 w, I x) { return add_products(sum, w.v, x); }

  // The lowest 16 bits of a lane in both of its halves, and arithmetic on 16-bit halves.
  static I both_halves(I v) {
    return _mm512_or_si512(_mm512_slli_epi32(v, 16), _mm512_and_si512(v, set1(0xffff)));
  }
  static I sub16(I a, I b) { return _mm512_sub_epi16(a, b); }
  template <int kCount>
  static I left16(I v) {
    return _mm512_slli_epi16(v, kCount);
  }
  // Each byte times the scale of its lane plus the bias; results must be 0 to 255.
  static I scale_bytes(I codes, I factor, I bias) {
    const I even =
        _mm512_add_epi16(_mm512_mullo_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(255)), factor), bias);
    const I odd = _mm512_add_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(codes, 8), factor), bias);
    return _mm512_or_si512(even, _mm512_slli_epi16(odd, 8));
  }

 private:
  // Inline assembly instead of the intrinsic: with the intrinsic, GCC 12 copies every sum of a block and
  // spends more instructions on moves than on products.
  static I add_products(I sum, __m512i w, I x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
};
