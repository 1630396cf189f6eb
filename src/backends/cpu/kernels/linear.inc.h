// out = x w^T over packed panels.
//
// A column unit is what one pair of registers holds: columns lane.. and 16 + lane.. of one panel (a whole
// panel where a register has 16 lanes, half of one where it has 8). A block of rows x units stays in
// registers while k runs; each output has one accumulator and one fused multiply-add for each k, so its value
// does not depend on how blocks are cut.

// k of a unit group's weights that stay in the first-level cache while blocks of rows pass over them.
constexpr int64_t kWeightSliceBytes = 32768;
// Rows that pass over a slice before the next one is fetched.
constexpr int64_t kRowChunk = 192;
constexpr int kMaxBlockRows = 6;
// How far ahead of use weights are asked for when they come from memory, in bytes of each unit's stream.
constexpr int64_t kPrefetchBytes = 2048;

template <class V>
constexpr int kUnitsPerPanel = 16 / V::kNarrowLanes;

// Registers of `Narrow` width that a block's accumulators may take.
template <class V>
constexpr int kBlockRegisters = V::kMaxAccumulators*(16 / V::kNarrowLanes);

// acc: [kRows][kUnits][2][lanes]. weights[u]: unit u at this slice's first k.
template <class V, class S, int kRows, int kUnits, bool kPrefetch>
void multiply_block(const typename S::T* const* weights, const float* const* x, int64_t k, float* acc,
                    int64_t acc_row_stride, bool first) {
  using N = typename V::Narrow;
  constexpr int kLanes = V::kNarrowLanes;
  N sum[kRows][kUnits][2];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        sum[r][u][h] =
            first ? V::narrow_zero() : V::narrow_load(acc + r * acc_row_stride + (2 * u + h) * kLanes);
      }
    }
  }
  const typename S::T* w[kUnits];
  QUIRE_UNROLL
  for (int u = 0; u < kUnits; ++u) w[u] = weights[u];
  const float* in[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) in[r] = x[r];
  for (int64_t i = 0; i < k; ++i) {
    N low[kUnits];
    N high[kUnits];
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      if constexpr (kPrefetch) {
        const char* ahead = reinterpret_cast<const char*>(w[u] + i * kPanel) + kPrefetchBytes;
        _mm_prefetch(ahead, _MM_HINT_T0);
        if constexpr (sizeof(typename S::T) == 4) _mm_prefetch(ahead + 64, _MM_HINT_T0);
      }
      S::template load_columns<V>(w[u] + i * kPanel, &low[u], &high[u]);
    }
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const N v = V::narrow_set1(in[r][i]);
      QUIRE_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        sum[r][u][0] = V::narrow_fma(v, low[u], sum[r][u][0]);
        sum[r][u][1] = V::narrow_fma(v, high[u], sum[r][u][1]);
      }
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h)
        V::narrow_store(acc + r * acc_row_stride + (2 * u + h) * kLanes, sum[r][u][h]);
    }
  }
}

template <class V, class S, int kRows, int kUnits, bool kPrefetch>
void multiply_rows(int rows, const typename S::T* const* weights, const float* const* x, int64_t k,
                   float* acc, int64_t acc_row_stride, bool first) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return multiply_rows<V, S, kRows - 1, kUnits, kPrefetch>(rows, weights, x, k, acc, acc_row_stride,
                                                               first);
  }
  multiply_block<V, S, kRows, kUnits, kPrefetch>(weights, x, k, acc, acc_row_stride, first);
}

// The last step of one register: bias, then residual, each rounded.
template <class V>
void finish_columns(const LinearArgs& args, int64_t row, int64_t column, typename V::Narrow value) {
  const int64_t n = args.n - column < V::kNarrowLanes ? args.n - column : V::kNarrowLanes;
  if (n <= 0) return;
  float* out = args.out + row * args.out_stride + column;
  const float* residual =
      args.residual == nullptr ? nullptr : args.residual + row * args.residual_stride + column;
  if (n == V::kNarrowLanes) {
    if (args.bias != nullptr) value = V::narrow_add(value, V::narrow_load(args.bias + column));
    if (residual != nullptr) value = V::narrow_add(value, V::narrow_load(residual));
    V::narrow_store(out, value);
  } else {
    if (args.bias != nullptr) value = V::narrow_add(value, V::narrow_load_part(args.bias + column, n));
    if (residual != nullptr) value = V::narrow_add(value, V::narrow_load_part(residual, n));
    V::narrow_store_part(out, value, n);
  }
}

// Rows [row_begin, row_end), at most kRowChunk of them, by kUnits units from `unit` on, in blocks of at most
// kRows rows.
template <class V, class S, int kRows, int kUnits, bool kPrefetch>
void multiply_units(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t unit) {
  using T = typename S::T;
  constexpr int kLanes = V::kNarrowLanes;
  constexpr int64_t kAccStride = 2 * kUnits * kLanes;
  alignas(64) float acc[kRowChunk * kAccStride];
  const auto* all = static_cast<const T*>(args.weights);
  const T* base[kUnits];
  QUIRE_UNROLL
  for (int u = 0; u < kUnits; ++u) {
    const int64_t panel = (unit + u) / kUnitsPerPanel<V>;
    const int64_t lane = (unit + u) % kUnitsPerPanel<V> * kLanes;
    base[u] = all + panel * args.k * kPanel + S::column_offset(lane);
  }
  const int64_t rows = row_end - row_begin;
  // Blocks of nearly one size: 8 rows are 4 + 4 and not 6 + 2.
  const int64_t blocks = (rows + kRows - 1) / kRows;
  const int64_t slice =
      blocks == 1 ? args.k : kWeightSliceBytes / (kUnits * kPanel * static_cast<int64_t>(sizeof(T)));
  for (int64_t begin = 0; begin < args.k; begin += slice) {
    const int64_t depth = args.k - begin < slice ? args.k - begin : slice;
    const T* weights[kUnits];
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) weights[u] = base[u] + begin * kPanel;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = rows * b / blocks;
      const int64_t last = rows * (b + 1) / blocks;
      const float* x[kRows];
      for (int64_t r = first; r < last; ++r) x[r - first] = args.x + (row_begin + r) * args.x_stride + begin;
      multiply_rows<V, S, kRows, kUnits, kPrefetch>(static_cast<int>(last - first), weights, x, depth,
                                                    acc + first * kAccStride, kAccStride, begin == 0);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      const int64_t column =
          (unit + u) / kUnitsPerPanel<V> * kPanel + (unit + u) % kUnitsPerPanel<V> * kLanes;
      const float* sums = acc + r * kAccStride + 2 * u * kLanes;
      finish_columns<V>(args, row_begin + r, column, V::narrow_load(sums));
      finish_columns<V>(args, row_begin + r, column + 16, V::narrow_load(sums + kLanes));
    }
  }
}

// Units side by side in a block of `rows` rows: few rows need more of them to keep enough sums in flight.
template <class V>
constexpr int units_for(int rows) {
  return rows * 8 <= kBlockRegisters<V> ? 4 : rows * 4 <= kBlockRegisters<V> ? 2 : 1;
}

template <class V, class S>
void linear(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
            int64_t panel_end) {
  constexpr int kFew = kBlockRegisters<V> / 8;  // rows that go with four units
  constexpr int kWide = units_for<V>(kMaxBlockRows);
  const int64_t end = panel_end * kUnitsPerPanel<V>;
  if (row_end - row_begin <= kFew) {
    int64_t unit = panel_begin * kUnitsPerPanel<V>;
    for (; unit + 4 <= end; unit += 4) multiply_units<V, S, kFew, 4, true>(args, row_begin, row_end, unit);
    for (; unit < end; ++unit) multiply_units<V, S, kFew, 1, true>(args, row_begin, row_end, unit);
    return;
  }
  for (int64_t row = row_begin; row < row_end; row += kRowChunk) {
    const int64_t last = row_end - row < kRowChunk ? row_end : row + kRowChunk;
    int64_t unit = panel_begin * kUnitsPerPanel<V>;
    for (; unit + kWide <= end; unit += kWide)
      multiply_units<V, S, kMaxBlockRows, kWide, false>(args, row, last, unit);
    for (; unit < end; ++unit) multiply_units<V, S, kMaxBlockRows, 1, false>(args, row, last, unit);
  }
}
