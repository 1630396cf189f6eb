// The same with the instruction that multiplies unsigned by signed bytes and adds four products to a lane,
// without any limit in between.

struct IntVnni : IntAvx512 {
  static constexpr int32_t kInt8Zero = 128;

  struct W8 {
    __m512i v;
  };
  static W8 weights8(I codes) { return {codes}; }
  static W8 weights8(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static I dot(I sum, W8 w, I x) { return add_products(sum, w.v, x); }
  static I dot(I sum, W4 w, I x) { return add_products(sum, w.v, x); }

 private:
  // By name and not by its intrinsic: for that GCC 12 keeps a copy of every sum of a block, and moves more
  // registers than it multiplies.
  static I add_products(I sum, __m512i w, I x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
};
