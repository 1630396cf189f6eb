// Two of four bfloat16 weights with activations rounded to bfloat16: an instruction adds two products, that
// of the high halves first. So products have the bits of RoundedBF16, which adds products with zeros between
// them.

// For each code the bytes of the second activation in the low half, of the first one in the high half.
struct PickedBytes {
  alignas(64) uint32_t lanes[16] = {};
  constexpr PickedBytes() {
    for (uint32_t code = 0; code < 16; ++code)
      lanes[code] = 0x01000100U + code / 4 * 0x0202U + code % 4 * 0x02020000U;
  }
};
constexpr PickedBytes kPickedBytes = {};

class PickedPairs {
 public:
  using X = uint32_t;              // activations of two k
  static constexpr int kFour = 2;  // of these
  static constexpr int64_t kSize = sizeof(uint16_t);

  PickedPairs(__m512i codes, const std::byte* weights, int64_t column)
      : bytes_(_mm512_permutexvar_epi32(codes, _mm512_load_si512(kPickedBytes.lanes))),
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
