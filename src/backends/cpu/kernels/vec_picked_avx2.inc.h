// Picks out of four activations for 8 columns. Places: for each of them a place in 2 bits, the lowest.
struct PickedAvx2 {
  using V = Avx2;
  using Places = __m256i;
  static constexpr bool kBothHalves = false;  // of a unit at once
  static constexpr int kRows = 4;  // of a block: their sums and what they are made of fit the registers

  static Places load_places(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  template <int kBits>
  static Places skip(Places places) {
    return _mm256_srli_epi32(places, kBits);
  }
  static __m256 four(const float* x) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(x)); }
  static __m256 pick(__m256 four, Places places) { return _mm256_permutevar_ps(four, places); }
};
