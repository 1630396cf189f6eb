// bfloat16 weights with activations rounded to bfloat16: an instruction adds the products of two elements
// along K. Products are exact, sums are float32 rounded to nearest even, and denormal numbers count as zero.
struct RoundedBF16 {
  using T = uint16_t;
  using X = uint32_t;  // a pair of activations along K
  static constexpr int kDepth = 2;
  static constexpr int kSteps = 1;
  template <class V>
  static __m512 weights(const T* p, int) {
    return _mm512_loadu_ps(p);
  }
  template <class V>
  static __m512 multiply(X x, __m512 w, __m512 sum) {
    return _mm512_dpbf16_ps(sum, bits_of(_mm512_set1_epi32(static_cast<int>(x))),
                            bits_of(_mm512_castps_si512(w)));
  }

 private:
  static __m512bh bits_of(__m512i v) { return reinterpret_cast<__m512bh>(v); }
};
