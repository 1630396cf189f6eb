// Gathers activations of a group of four for 8 columns. Indices: 2-bit indices per column, the next one in
// the lowest bits.
struct GatheredAvx2 {
  using V = Avx2;
  using Indices = __m256i;
  static constexpr bool kBothHalves = false;  // whether the registers can hold both halves of a unit
  static constexpr int kRows = 4;             // per block: sums and operands fit into the registers

  static Indices load_indices(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  template <int kBits>
  static Indices skip(Indices indices) {
    return _mm256_srli_epi32(indices, kBits);
  }
  static __m256 four(const float* x) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(x)); }
  static __m256 pick(__m256 four, Indices indices) { return _mm256_permutevar_ps(four, indices); }
};
