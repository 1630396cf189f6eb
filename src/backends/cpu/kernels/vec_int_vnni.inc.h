// The same with the instruction that multiplies unsigned by signed bytes and adds four products to a lane,
// without any limit in between.

struct IntVnni : IntAvx512 {
  static constexpr int32_t kInt8Zero = 128;

  struct W8 {
    __m512i v;
  };
  static W8 weights8(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static I dot(I sum, W8 w, I x) { return _mm512_dpbusd_epi32(sum, w.v, x); }
  static I dot(I sum, W4 w, I x) { return _mm512_dpbusd_epi32(sum, w.v, x); }
};
