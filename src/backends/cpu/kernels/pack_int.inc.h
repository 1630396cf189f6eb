// Quantization of weights to integers: quantize_panel of quant/int_layout.h with the same bits, 16 columns at
// once.

template <class V>
struct IntColumns {
  typename V::F size;   // 0 if all weights are zero
  typename V::F scale;  // 0 if a weight is not finite
  typename V::F zero_point;
  typename V::F flaws;  // NaN if a weight is not finite
};

// w: [n][32]; 16 of its columns are read and divided by their sizes.
template <class V>
IntColumns<V> best_columns(const IntPackArgs& a, float* w, int64_t n) {
  using F = typename V::F;
  F low = V::zero();
  F high = V::zero();
  F flaws = V::zero();  // NaN if a weight is not finite
  for (int64_t i = 0; i < n; ++i) {
    const F v = V::load(w + i * kPanel);
    low = V::min(v, low);
    high = V::max(v, high);
    flaws = V::add(flaws, V::sub(v, v));
  }
  const F minus_low = V::sub(V::zero(), low);
  const F size = a.zero_points ? V::sub(high, low) : V::select(V::less(high, minus_low), low, high);
  // Comparisons with NaN are false.
  const auto finite = V::less(V::abs(flaws), V::set1(1.0F));
  const F usable = V::select(
      finite, V::select(V::less(V::abs(size), V::set1(1e-36F)), V::zero(), V::set1(1.0F)), V::zero());
  const auto is_usable = V::less(V::zero(), usable);
  const F inverse = V::div(V::set1(1.0F), V::select(is_usable, size, V::set1(1.0F)));
  for (int64_t i = 0; i < n; ++i) {
    const F v = V::load(w + i * kPanel);
    V::store(w + i * kPanel, V::select(is_usable, V::mul(v, inverse), V::zero()));
  }
  F best = V::set1(-1.0F);
  F best_factor = V::zero();
  F best_zero = V::zero();
  for (int c = 0; c < a.num_candidates; ++c) {
    const F step = V::set1(a.candidates[c]);
    F zero = V::zero();
    if (a.zero_points) {
      zero = V::min(V::max(V::round(V::mul(V::mul(minus_low, inverse), step)), V::zero()), V::set1(15.0F));
      zero = V::select(is_usable, zero, V::zero());
    }
    const F min_value = V::sub(V::set1(a.low), zero);
    const F max_value = V::sub(V::set1(a.high), zero);
    F product = V::zero();
    F square = V::zero();
    for (int64_t i = 0; i < n; ++i) {
      const F v = V::load(w + i * kPanel);
      const F d = V::min(V::max(V::round(V::mul(v, step)), min_value), max_value);
      product = V::fma(v, d, product);
      square = V::fma(d, d, square);
    }
    const F factor = V::div(product, V::max(square, V::set1(1.0F)));
    const F score = V::mul(product, factor);
    const auto better = V::less(best, score);
    best = V::select(better, score, best);
    best_factor = V::select(better, factor, best_factor);
    best_zero = V::select(better, zero, best_zero);
  }
  return {V::select(is_usable, size, V::zero()), V::select(is_usable, V::mul(size, best_factor), V::zero()),
          best_zero, flaws};
}

// Rounds scales to float16.
template <class V>
typename V::F stored_halves(typename V::F scale) {
  uint16_t halves[16];
  V::store_f16(halves, V::min(V::max(scale, V::set1(-65504.0F)), V::set1(65504.0F)));
  return V::load_f16(halves);
}

// a / b, or 0 if b is 0.
template <class V>
typename V::F quotient(typename V::F a, typename V::F b) {
  const auto is_some = V::less(V::zero(), V::abs(b));
  return V::select(is_some, V::div(a, V::select(is_some, b, V::set1(1.0F))), V::zero());
}

// w as written by best_columns is replaced by the quantized values minus the zero point, for weights that are
// those times `scale`.
template <class V>
void round_columns(const IntPackArgs& a, float* w, int64_t n, const IntColumns<V>& columns,
                   typename V::F scale) {
  using F = typename V::F;
  const F step = quotient<V>(columns.size, scale);
  const F min_value = V::sub(V::set1(a.low), columns.zero_point);
  const F max_value = V::sub(V::set1(a.high), columns.zero_point);
  for (int64_t i = 0; i < n; ++i) {
    const F v = V::load(w + i * kPanel);
    V::store(w + i * kPanel, V::min(V::max(V::round(V::mul(v, step)), min_value), max_value));
  }
}

// The scale if all weights are finite, otherwise NaN.
template <class V>
typename V::F scale_or_nan(typename V::F scale, typename V::F flaws) {
  return V::select(V::less(V::abs(flaws), V::set1(1.0F)), scale, V::set1(__builtin_nanf("")));
}

// A group with second-level scales, whose first ones at these 16 columns are stored at second_level_scales.
// Returns the first-level scales.
template <class D>
typename D::V::F round_two_level(const IntPackArgs& a, float* w, int64_t n, uint8_t* second_level_scales) {
  using V = typename D::V;
  using F = typename V::F;
  IntColumns<V> parts[kMaxSecondLevelScales];
  F largest = V::zero();
  F flaws = V::zero();
  const auto each = [&](auto&& f) {
    for (int64_t begin = 0; begin < n; begin += a.second_level_group) {
      const int64_t count = n - begin < a.second_level_group ? n - begin : a.second_level_group;
      f(begin / a.second_level_group, w + begin * kPanel, count);
    }
  };
  each([&](int64_t part, float* own, int64_t count) {
    parts[part] = best_columns<V>(a, own, count);
    largest = V::max(V::abs(parts[part].scale), largest);
    flaws = V::add(flaws, parts[part].flaws);
  });
  const F max_scale = V::set1(a.max_second_level_scale);
  const F scale = stored_halves<V>(V::mul(largest, V::set1(1.0F / a.max_second_level_scale)));
  const F inverse = quotient<V>(V::set1(1.0F), scale);
  each([&](int64_t part, float* own, int64_t count) {
    const IntColumns<V>& of = parts[part];
    F factor = V::min(V::max(V::round(V::mul(of.scale, inverse)), V::sub(V::zero(), max_scale)), max_scale);
    // Scales of 0 would lose weights.
    const F unit_scale = V::select(V::less(of.scale, V::zero()), V::set1(-1.0F), V::set1(1.0F));
    factor = V::select(V::less(V::abs(factor), V::set1(1.0F)), unit_scale, factor);
    factor = V::select(V::less(V::zero(), V::abs(of.size)), factor, V::zero());
    D::store_u8(second_level_scales + part * kPanel, factor);
    round_columns<V>(a, own, count, of, V::mul(factor, scale));
  });
  return scale_or_nan<V>(scale, flaws);
}

// Stores n quantized values along K with `zero` added. dst: first line of the group, at these 16 columns.
template <class D>
void store_int_codes(const IntPackArgs& a, const float* w, int64_t n, typename D::V::F zero, uint8_t* dst) {
  using V = typename D::V;
  using F = typename V::F;
  const auto code = [&](int64_t i) __attribute__((always_inline)) {
    return V::add(i < n ? V::load(w + i * kPanel) : V::zero(), zero);
  };
  for (int64_t i = 0; i < n; i += a.step, dst += kPanel * 4) {
    if (a.step == 4) {
      D::store_bytes(dst, code(i), code(i + 1), code(i + 2), code(i + 3));
    } else {
      const F low[4] = {code(i), code(i + 1), code(i + 2), code(i + 3)};
      const F high[4] = {code(i + 4), code(i + 5), code(i + 6), code(i + 7)};
      D::store_halves(dst, low, high);
    }
  }
}

template <class D>
void pack_int(const IntPackArgs& a) {
  using V = typename D::V;
  std::byte* group = a.dst;
  for (int64_t begin = 0; begin < a.k; begin += a.group, group += a.group_bytes) {
    const int64_t n = a.k - begin < a.group ? a.k - begin : a.group;
    if (a.second_level_group > 0)
      __builtin_memset(group + a.second_level_at, 0, static_cast<size_t>(a.header_bytes - a.second_level_at));
    for (int64_t lane = 0; lane < kPanel; lane += 16) {
      float* w = a.weights + begin * kPanel + lane;
      auto* bytes = reinterpret_cast<uint8_t*>(group);
      IntColumns<V> columns = {V::zero(), V::zero(), V::zero(), V::zero()};
      if (a.second_level_group > 0) {
        columns.scale = round_two_level<D>(a, w, n, bytes + a.second_level_at + lane);
      } else {
        columns = best_columns<V>(a, w, n);
        if (!a.row_scale) columns.scale = stored_halves<V>(columns.scale);
        round_columns<V>(a, w, n, columns, columns.scale);
        columns.scale = scale_or_nan<V>(columns.scale, columns.flaws);
      }
      if (a.row_scale) {
        V::store(reinterpret_cast<float*>(group) + lane, columns.scale);
      } else {
        V::store_f16(reinterpret_cast<uint16_t*>(group) + lane, columns.scale);
      }
      if (a.zero_points) D::store_u8(bytes + 64 + lane, columns.zero_point);
      const auto zero = a.step == 4 ? V::set1(128.0F) : a.zero_points ? columns.zero_point : V::set1(8.0F);
      store_int_codes<D>(a, w, n, zero, bytes + a.header_bytes + 4 * lane);
    }
  }
}
