// Gathers activations of a group of four for 16 columns. Indices: 2-bit indices per column, the next one in
// the lowest bits.
struct GatheredAvx512 {
  using V = Avx512;
  using Indices = __m512i;
  static constexpr bool kBothHalves = true;  // whether the registers can hold both halves of a unit
  static constexpr int kRows = 10;           // per block: sums and operands fit into the registers

  static Indices load_indices(const uint32_t* p) { return _mm512_loadu_si512(p); }
  template <int kBits>
  static Indices skip(Indices indices) {
    return _mm512_srli_epi32(indices, kBits);
  }
  static __m512 four(const float* x) { return _mm512_broadcast_f32x4(_mm_loadu_ps(x)); }
  static __m512 pick(__m512 four, Indices indices) { return _mm512_permutevar_ps(four, indices); }
};
