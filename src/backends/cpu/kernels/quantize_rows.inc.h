// Quantization of activations to int8, up to four rows at a time. The scales of a group come from one
// reduction, and values are stored in the order of a block: four elements along K of four rows.

template <class V>
typename V::F load_at_most_16(const float* p, int64_t n) {
  return n >= 16 ? V::load(p) : V::load_part(p, n);
}

// Transposes four registers of four lanes.
inline void transpose_lanes(__m128i (&v)[4]) {
  const __m128i low01 = _mm_unpacklo_epi32(v[0], v[1]);
  const __m128i low23 = _mm_unpacklo_epi32(v[2], v[3]);
  const __m128i high01 = _mm_unpackhi_epi32(v[0], v[1]);
  const __m128i high23 = _mm_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm_unpacklo_epi64(low01, low23);
  v[1] = _mm_unpackhi_epi64(low01, low23);
  v[2] = _mm_unpacklo_epi64(high01, high23);
  v[3] = _mm_unpackhi_epi64(high01, high23);
}

// Scales of four rows and their inverses.
struct RowScales {
  __m128 scale;
  alignas(16) float inverse[4];
};

// The bits of the largest magnitude of x[r][0, n), in lane r. Infinities and NaN have larger bits than any
// finite value.
template <class V, int kRows>
__m128i largest_bits(const float* const (&x)[4], int64_t n) {
  using F = typename V::F;
  F largest[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  for (int64_t i = 0; i < n; i += 16) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r)
      largest[r] = V::max_bits(V::abs(load_at_most_16<V>(x[r] + i, n - i)), largest[r]);
  }
  __m128i of_rows[4];
  for (int r = 0; r < 4; ++r) of_rows[r] = V::quarter_max_bits(largest[r]);
  transpose_lanes(of_rows);
  return _mm_max_epi32(_mm_max_epi32(of_rows[0], of_rows[1]), _mm_max_epi32(of_rows[2], of_rows[3]));
}
constexpr int32_t kLargestFinite = 0x7f7fffff;

// The scales of x[r][0, n), as in quantize_activations of quant/int_layout.h. Inverses are 0 if the quantized
// values are 0.
template <class V, int kRows>
RowScales row_scales(const float* const (&x)[4], int64_t n) {
  const __m128i bits = largest_bits<V, kRows>(x, n);
  const __m128 largest = _mm_castsi128_ps(bits);
  const __m128 flawed = _mm_castsi128_ps(_mm_cmpgt_epi32(bits, _mm_set1_epi32(kLargestFinite)));
  const __m128 none = _mm_or_ps(flawed, _mm_cmplt_ps(largest, _mm_set1_ps(1e-36F)));
  const __m128 full = _mm_set1_ps(127.0F);
  RowScales out;
  out.scale = _mm_or_ps(_mm_andnot_ps(none, _mm_div_ps(largest, full)),
                        _mm_and_ps(flawed, _mm_set1_ps(__builtin_nanf(""))));
  _mm_store_ps(out.inverse, _mm_andnot_ps(none, _mm_div_ps(full, largest)));
  return out;
}

// Stores the low kRows lanes.
template <int kRows>
void store_rows(void* p, __m128i v) {
  if constexpr (kRows == 4) {
    _mm_storeu_si128(static_cast<__m128i*>(p), v);
  } else {
    __builtin_memcpy(p, &v, 4 * kRows);
  }
}

// Stores the quantized values of x[r][0, n) in a block of `rows` rows: element i of row r at codes[i / 4 * 4
// * rows + 4 * r + i % 4]. kFlat: at codes[r * rows + i], and up to 15 values more. Returns the sum of the
// quantized values of each row.
template <class V, int kRows, bool kFlat>
__m128i store_codes(const float* const (&x)[4], int64_t n, const RowScales& by, int64_t rows, int8_t* codes) {
  const __m128i ones = _mm_set1_epi8(1);
  const __m128i pairs = _mm_set1_epi16(1);
  __m128i sums = _mm_setzero_si128();
  for (int64_t i = 0; i < n; i += 16) {
    __m128i row[4] = {};  // after transposing: four elements along K of each row
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      // If the inverse is 0, the element may be infinite or NaN.
      if (by.inverse[r] == 0.0F) continue;
      row[r] = V::to_i8(V::mul(load_at_most_16<V>(x[r] + i, n - i), V::set1(by.inverse[r])));
    }
    if constexpr (kFlat) {
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + r * rows + i), row[r]);
    }
    transpose_lanes(row);
    const int64_t count = n - i < 16 ? (n - i + 3) / 4 : 4;
    for (int64_t q = 0; q < count; ++q) {
      if constexpr (!kFlat) store_rows<kRows>(codes + (i + 4 * q) * rows, row[q]);
      sums = _mm_add_epi32(sums, _mm_madd_epi16(_mm_maddubs_epi16(ones, row[q]), pairs));
    }
  }
  return sums;
}

// Rows [first, first + kRows) of a block.
template <class V, int kRows, bool kFlat>
void quantize_some(const IntActivations& a, int64_t block, int64_t rows, int64_t first) {
  // Bytes from one row to the next if kFlat, otherwise rows that are interleaved.
  const int64_t stride = kFlat ? a.depth : rows;
  int8_t* codes = a.codes + (kFlat ? (block + first) * a.depth : block * a.depth + 4 * first);
  float* scales = a.scales + block * a.num_units + first;
  float* totals = a.totals + block * a.num_units + first;
  int32_t* sums = a.sums + block * a.num_units + first;
  const float* x[4] = {};
  for (int r = 0; r < kRows; ++r) x[r] = a.x + (block + first + r) * a.x_stride;
  const __m128i zero = _mm_set1_epi32(-a.zero_point);
  RowScales by;
  int64_t group_end = 0;
  for (int64_t u = 0; u < a.num_units; ++u) {
    const int64_t begin = u * a.unit;
    if (begin >= group_end) {
      group_end = begin + a.group < a.k ? begin + a.group : a.k;
      by = row_scales<V, kRows>(x, group_end - begin);
    }
    const int64_t n = a.k - begin < a.unit ? a.k - begin : a.unit;
    const __m128i sum = _mm_mullo_epi32(
        store_codes<V, kRows, kFlat>(x, n, by, stride, codes + begin * (kFlat ? 1 : rows)), zero);
    store_rows<kRows>(scales + u * rows, _mm_castps_si128(by.scale));
    store_rows<kRows>(totals + u * rows, _mm_castps_si128(_mm_mul_ps(by.scale, _mm_cvtepi32_ps(sum))));
    store_rows<kRows>(sums + u * rows, sum);
    for (int r = 0; r < kRows; ++r) x[r] += n;
  }
  // The last step of 4-bit weights reads up to depth.
  if constexpr (kFlat) return;
  for (int64_t i = (a.k + 3) / 4 * 4; i < a.depth; i += 4)
    store_rows<kRows>(codes + i * rows, _mm_setzero_si128());
}

// The rows of a block. kFlat: their codes are not interleaved.
template <class V, bool kFlat = false>
void quantize_rows(const IntActivations& a, int64_t first_row, int64_t rows) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) quantize_some<V, 4, kFlat>(a, first_row, rows, r);
  if (rows - r == 3) quantize_some<V, 3, kFlat>(a, first_row, rows, r);
  if (rows - r == 2) quantize_some<V, 2, kFlat>(a, first_row, rows, r);
  if (rows - r == 1) quantize_some<V, 1, kFlat>(a, first_row, rows, r);
}
