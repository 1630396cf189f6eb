// Weights become whole numbers: quantize_panel of quant/int_layout.h with the same bits, 16 columns at once.

template <class V>
struct IntColumns {
  typename V::F scale;
  typename V::F zero;
};

// w: [n][32], 16 columns of it; becomes codes less zero.
template <class V>
IntColumns<V> quantize_columns(const IntPackArgs& a, float* w, int64_t n) {
  using F = typename V::F;
  F low = V::zero();
  F high = V::zero();
  F flaws = V::zero();  // NaN where a weight is not finite
  for (int64_t i = 0; i < n; ++i) {
    const F v = V::load(w + i * kPanel);
    low = V::min(v, low);
    high = V::max(v, high);
    flaws = V::add(flaws, V::sub(v, v));
  }
  const F minus_low = V::sub(V::zero(), low);
  const F size = a.zero_points ? V::sub(high, low) : V::select(V::less(high, minus_low), low, high);
  // Comparisons with NaN fail.
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
    const F least = V::sub(V::set1(a.low), zero);
    const F most = V::sub(V::set1(a.high), zero);
    F product = V::zero();
    F square = V::zero();
    for (int64_t i = 0; i < n; ++i) {
      const F v = V::load(w + i * kPanel);
      const F d = V::min(V::max(V::round(V::mul(v, step)), least), most);
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
  IntColumns<V> columns = {V::mul(size, best_factor), best_zero};
  if (!a.row_scale) {
    uint16_t halves[16];
    V::store_f16(halves, V::min(V::max(columns.scale, V::set1(-65504.0F)), V::set1(65504.0F)));
    columns.scale = V::load_f16(halves);
  }
  columns.scale = V::select(is_usable, columns.scale, V::zero());
  // size / scale, 0 where the scale is 0.
  const auto has_scale = V::less(V::zero(), V::abs(columns.scale));
  const F final_step =
      V::select(has_scale, V::div(size, V::select(has_scale, columns.scale, V::set1(1.0F))), V::zero());
  const F least = V::sub(V::set1(a.low), best_zero);
  const F most = V::sub(V::set1(a.high), best_zero);
  for (int64_t i = 0; i < n; ++i) {
    const F v = V::load(w + i * kPanel);
    V::store(w + i * kPanel, V::min(V::max(V::round(V::mul(v, final_step)), least), most));
  }
  columns.scale = V::select(finite, columns.scale, V::set1(__builtin_nanf("")));
  return columns;
}

// Codes of n k's, `zero` added to them. dst: the group's first line, at these 16 columns.
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
    for (int64_t lane = 0; lane < kPanel; lane += 16) {
      float* w = a.weights + begin * kPanel + lane;
      const IntColumns<V> columns = quantize_columns<V>(a, w, n);
      if (a.row_scale) {
        V::store(reinterpret_cast<float*>(group) + lane, columns.scale);
      } else {
        V::store_f16(reinterpret_cast<uint16_t*>(group) + lane, columns.scale);
      }
      auto* bytes = reinterpret_cast<uint8_t*>(group);
      if (a.zero_points) D::store_u8(bytes + 64 + lane, columns.zero);
      const auto zero = a.step == 4 ? V::set1(128.0F) : a.zero_points ? columns.zero : V::set1(8.0F);
      store_int_codes<D>(a, w, n, zero, bytes + a.header_bytes + 4 * lane);
    }
  }
}
