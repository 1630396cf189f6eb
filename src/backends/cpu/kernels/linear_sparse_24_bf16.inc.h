// 2:4 sparse bfloat16 weights with activations rounded to bfloat16. An instruction adds two products, that of
// the high halves first, so results have the bits of RoundedBF16, which also adds the products of zeros.

// For each code, byte indices that gather the second activation to the low half and the first to the high
// half.
struct GatheredBytes {
  alignas(64) uint32_t lanes[16] = {};
  constexpr GatheredBytes() {
    for (uint32_t code = 0; code < 16; ++code)
      lanes[code] = 0x01000100U + code / 4 * 0x0202U + code % 4 * 0x02020000U;
  }
};
constexpr GatheredBytes kGatheredBytes = {};

class GatheredPairs {
 public:
  using X = uint32_t;              // a pair of activations along K
  static constexpr int kFour = 2;  // pairs per group of four
  static constexpr int64_t kSize = sizeof(uint16_t);

  GatheredPairs(__m512i codes, const std::byte* weights, int64_t column)
      : bytes_(_mm512_permutexvar_epi32(codes, _mm512_load_si512(kGatheredBytes.lanes))),
        weights_(_mm512_loadu_si512(weights + column * 2 * kSize)) {}
  static __m512i four(const X* x) {
    long long bits;
    __builtin_memcpy(&bits, x, sizeof(bits));
    return _mm512_set1_epi64(bits);
  }
  __m512 multiply(__m512i four, __m512 sum) const {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_shuffle_epi8(four, bytes_)),
                            reinterpret_cast<__m512bh>(weights_));
  }

 private:
  __m512i bytes_;
  __m512i weights_;
};
