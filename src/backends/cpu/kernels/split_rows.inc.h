// Rows of float activations in digits of int8, as split_activations in quant/activation_digits.h has them.
// Behind quantize_rows.inc.h.

// The scale of x[0, n) and its inverse: 0 where the digits are 0.
template <class V, int kDigits>
float digits_scale(const float* x, int64_t n, float* inverse) {
  const float* const rows[4] = {x};
  const __m128i largest = largest_bits<V, 1>(rows, n);
  const float most = _mm_cvtss_f32(_mm_castsi128_ps(largest));
  *inverse = 0.0F;
  if (_mm_cvtsi128_si32(largest) > kLargestFinite) return __builtin_nanf("");
  if (most < kLeastDigits) return 0.0F;
  float scale = most * (1.0F / largest_of_digits(kDigits));
  if constexpr (kDigits == kFloatDigits) {
    uint32_t bits;
    __builtin_memcpy(&bits, &scale, 4);
    bits = (bits + 0x7fffffU) & 0x7f800000U;
    __builtin_memcpy(&scale, &bits, 4);
  }
  *inverse = 1.0F / scale;
  return scale;
}

// Digits of 16 whole numbers, the highest first.
template <class V, int kDigits>
void split_digits(typename V::F whole, typename V::F (&digits)[kDigits]) {
  typename V::F rest = whole;
  if constexpr (kDigits == kFloatDigits) {
    constexpr float kSquare = kDigitBase * kDigitBase;
    digits[0] = V::round(V::mul(whole, V::set1(1.0F / kSquare)));
    rest = V::fnma(digits[0], V::set1(kSquare), whole);
  }
  digits[kDigits - 2] = V::round(V::mul(rest, V::set1(1.0F / kDigitBase)));
  digits[kDigits - 1] = V::fnma(digits[kDigits - 2], V::set1(kDigitBase), rest);
}

// Digits of x[0, n) into a block of so many lines: digit d of element i at codes[(i / 4 * lines + d) * 4 + i
// % 4]. sums: of each digit.
template <class V, int kDigits>
void store_digits(const float* x, int64_t n, float inverse, int64_t lines, int8_t* codes, int32_t* sums) {
  using F = typename V::F;
  F sum[kDigits];  // of whole numbers below 2^24: exact
  for (F& s : sum) s = V::zero();
  for (int64_t i = 0; i < n; i += 16) {
    // Where the inverse is 0 the element may be anything but a number.
    const F whole =
        inverse == 0.0F ? V::zero() : V::round(V::mul(load_at_most_16<V>(x + i, n - i), V::set1(inverse)));
    F digits[kDigits];
    split_digits<V, kDigits>(whole, digits);
    const int64_t quads = n - i < 16 ? (n - i + 3) / 4 : 4;
    QUIRE_UNROLL
    for (int d = 0; d < kDigits; ++d) {
      sum[d] = V::add(sum[d], digits[d]);
      int8_t lanes[16];
      V::store_i8(lanes, digits[d]);
      for (int64_t q = 0; q < quads; ++q)
        __builtin_memcpy(codes + ((i / 4 + q) * lines + d) * 4, lanes + 4 * q, 4);
    }
  }
  for (int d = 0; d < kDigits; ++d) sums[d] = static_cast<int32_t>(V::reduce_add(sum[d]));
}

// Row `r` of a block that begins with row `block`.
template <class V, int kDigits>
void split_row(const IntActivations& a, int64_t block, int64_t rows, int64_t r) {
  const int64_t lines = rows * kDigits;
  int8_t* codes = a.codes + (block * a.depth + 4 * r) * kDigits;
  int32_t* sums = a.sums + (block * a.num_units + r) * kDigits;
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
      scale = digits_scale<V, kDigits>(x + begin, group_end - begin, &inverse);
    }
    const int64_t n = a.k - begin < a.unit ? a.k - begin : a.unit;
    int32_t* sum = sums + u * lines;
    store_digits<V, kDigits>(x + begin, n, inverse, lines, codes + begin * lines, sum);
    float total = 0;
    for (int d = 0; d < kDigits; ++d) {
      sum[d] *= -a.zero;
      total = __builtin_fmaf(total, kDigitBase, static_cast<float>(sum[d]));
    }
    scales[u * rows] = scale;
    totals[u * rows] = scale * total;
  }
  // The last step of 4-bit codes reads up to depth.
  for (int64_t i = (a.k + 3) / 4 * 4; i < a.depth; i += 4)
    __builtin_memset(codes + i * lines, 0, 4 * kDigits);
}

template <class V>
void split_rows(const IntActivations& a, int64_t first_row, int64_t rows) {
  const auto split = a.digits == kFloatDigits ? split_row<V, kFloatDigits> : split_row<V, kInt16Digits>;
  for (int64_t r = 0; r < rows; ++r) split(a, first_row, rows, r);
}
