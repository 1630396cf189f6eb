// Splits rows of float activations into int8 slices, like slice_activations in quant/activation_slices.h.
// Included after quantize_rows.inc.h.

// The scale of x[0, n), and its inverse, which is 0 if the slices are 0.
template <class V, int kSlices>
float slices_scale(const float* x, int64_t n, float* inverse) {
  const float* const rows[4] = {x};
  const __m128i largest = largest_bits<V, 1>(rows, n);
  const float magnitude = _mm_cvtss_f32(_mm_castsi128_ps(largest));
  *inverse = 0.0F;
  if (_mm_cvtsi128_si32(largest) > kLargestFinite) return __builtin_nanf("");
  if (magnitude < kMinSliced) return 0.0F;
  float scale = magnitude * (1.0F / largest_of_slices(kSlices));
  if constexpr (kSlices == kFloatSlices) {
    uint32_t bits;
    __builtin_memcpy(&bits, &scale, 4);
    bits = (bits + 0x7fffffU) & 0x7f800000U;
    __builtin_memcpy(&scale, &bits, 4);
  }
  *inverse = 1.0F / scale;
  return scale;
}

// Splits 16 integers into slices, the highest first.
template <class V, int kSlices>
void split_slices(typename V::F whole, typename V::F (&slices)[kSlices]) {
  typename V::F rest = whole;
  if constexpr (kSlices == kFloatSlices) {
    constexpr float kSquare = kSliceBase * kSliceBase;
    slices[0] = V::round(V::mul(whole, V::set1(1.0F / kSquare)));
    rest = V::fnma(slices[0], V::set1(kSquare), whole);
  }
  slices[kSlices - 2] = V::round(V::mul(rest, V::set1(1.0F / kSliceBase)));
  slices[kSlices - 1] = V::fnma(slices[kSlices - 2], V::set1(kSliceBase), rest);
}

// Stores the slices of x[0, n) in a block of `lines` lines: slice d of element i at codes[(i / 4 * lines + d)
// * 4 + i % 4]. sums: per slice.
template <class V, int kSlices>
void store_slices(const float* x, int64_t n, float inverse, int64_t lines, int8_t* codes, int32_t* sums) {
  using F = typename V::F;
  F sum[kSlices];  // sums of integers below 2^24, which are exact
  for (F& s : sum) s = V::zero();
  for (int64_t i = 0; i < n; i += 16) {
    // If the inverse is 0, the element may be infinite or NaN.
    const F whole =
        inverse == 0.0F ? V::zero() : V::round(V::mul(load_at_most_16<V>(x + i, n - i), V::set1(inverse)));
    F slices[kSlices];
    split_slices<V, kSlices>(whole, slices);
    const int64_t quads = n - i < 16 ? (n - i + 3) / 4 : 4;
    QUIRE_UNROLL
    for (int d = 0; d < kSlices; ++d) {
      sum[d] = V::add(sum[d], slices[d]);
      int8_t lanes[16];
      V::store_i8(lanes, slices[d]);
      for (int64_t q = 0; q < quads; ++q)
        __builtin_memcpy(codes + ((i / 4 + q) * lines + d) * 4, lanes + 4 * q, 4);
    }
  }
  for (int d = 0; d < kSlices; ++d) sums[d] = static_cast<int32_t>(V::reduce_add(sum[d]));
}

// Row `r` of a block that begins at row `block`.
template <class V, int kSlices>
void split_row(const IntActivations& a, int64_t block, int64_t rows, int64_t r) {
  const int64_t lines = rows * kSlices;
  int8_t* codes = a.codes + (block * a.depth + 4 * r) * kSlices;
  int32_t* sums = a.sums + (block * a.num_units + r) * kSlices;
  float* scales = a.scales + block * a.num_units + r;
  float* totals = a.totals + block * a.num_units + r;
  const float* x = a.x + (block + r) * a.x_stride;
  float scale = 0;
  float inverse = 0;
  int64_t group_end = 0;
  for (int64_t u = 0; u < a.num_units; ++u) {
    const int64_t begin = u * a.unit;
    if (begin >= group_end) {
      group_end = begin + a.group < a.k ? begin + a.group : a.k;
      scale = slices_scale<V, kSlices>(x + begin, group_end - begin, &inverse);
    }
    const int64_t n = a.k - begin < a.unit ? a.k - begin : a.unit;
    int32_t* sum = sums + u * lines;
    store_slices<V, kSlices>(x + begin, n, inverse, lines, codes + begin * lines, sum);
    float total = 0;
    for (int d = 0; d < kSlices; ++d) {
      sum[d] *= -a.zero_point;
      total = __builtin_fmaf(total, kSliceBase, static_cast<float>(sum[d]));
    }
    scales[u * rows] = scale;
    totals[u * rows] = scale * total;
  }
  // The last step of 4-bit weights reads up to depth.
  for (int64_t i = (a.k + 3) / 4 * 4; i < a.depth; i += 4)
    __builtin_memset(codes + i * lines, 0, 4 * kSlices);
}

template <class V>
void split_rows(const IntActivations& a, int64_t first_row, int64_t rows) {
  const auto split = a.slices == kFloatSlices ? split_row<V, kFloatSlices> : split_row<V, kInt16Slices>;
  for (int64_t r = 0; r < rows; ++r) split(a, first_row, rows, r);
}
