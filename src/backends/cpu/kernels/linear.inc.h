// out = x w^T over packed panels.
//
// A column unit is what one pair of registers holds: a whole panel where a register has 16 lanes, half of one
// where it has 8. A block of rows x units stays in registers while k runs; each output has one accumulator,
// to which the steps of k (storage.inc.h) are added one by one from first to last, so its value does not
// depend on how blocks are cut.

// Weights of a unit group that stay in the first-level cache while blocks of rows pass over them.
constexpr int64_t kWeightSliceBytes = 16384;
// Rows that pass over a slice before the next one is fetched.
constexpr int64_t kRowChunk = 192;
// How far ahead of use weights are asked for when they come from memory, in bytes of each unit's stream.
constexpr int64_t kPrefetchBytes = 2048;
// Stored rows between two requests for lines of the next slice.
constexpr int64_t kAheadRows = 8;

template <class V>
constexpr int kUnitsPerPanel = 16 / V::kNarrowLanes;

// Registers of `Narrow` width that a block's accumulators may take.
template <class V>
constexpr int kBlockRegisters = V::kMaxAccumulators*(16 / V::kNarrowLanes);

// Lines that a pass of a block over its slice asks for on the way: those of the next slice.
struct Ahead {
  const char* at;
  int64_t lines;  // for each kAheadRows stored rows
};

// One step of k for all sums. w: the units' stored rows; in[r][i]: what meets them.
template <class V, class S, int kRows, int kUnits>
__attribute__((always_inline)) inline void multiply_step(const typename S::T* const (&w)[kUnits], int64_t row,
                                                         int step, const typename S::X* const (&in)[kRows],
                                                         int64_t i,
                                                         typename V::Narrow (&sum)[kRows][kUnits][2]) {
  constexpr int kLanes = V::kNarrowLanes;
  typename V::Narrow columns[kUnits][2];
  QUIRE_UNROLL
  for (int u = 0; u < kUnits; ++u) {
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h)
      columns[u][h] = S::template weights<V>(w[u] + (row * kPanel + int64_t{h} * kLanes) * S::kDepth, step);
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h)
        sum[r][u][h] = S::template multiply<V>(in[r][i], columns[u][h], sum[r][u][h]);
    }
  }
}

// acc: [kRows][kUnits][2][lanes]. weights[u]: unit u at this slice's first stored row. depth: steps of k.
template <class V, class S, int kRows, int kUnits, bool kStream>
void multiply_block(const typename S::T* const* weights, const typename S::X* const* x, int64_t depth,
                    float* acc, int64_t acc_row_stride, bool first, Ahead ahead) {
  using N = typename V::Narrow;
  constexpr int kLanes = V::kNarrowLanes;
  constexpr int64_t kRowBytes = 2 * kLanes * S::kDepth * static_cast<int64_t>(sizeof(typename S::T));
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
  const typename S::X* in[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) in[r] = x[r];
  const int64_t rows = depth / S::kSteps;
  for (int64_t row = 0; row < rows;) {
    int64_t stop = rows;
    if constexpr (!kStream) {
      stop = row + kAheadRows < rows ? row + kAheadRows : rows;
      for (int64_t l = 0; l < ahead.lines; ++l, ahead.at += 64) _mm_prefetch(ahead.at, _MM_HINT_T1);
    }
    for (; row < stop; ++row) {
      if constexpr (kStream) {
        QUIRE_UNROLL
        for (int u = 0; u < kUnits; ++u) {
          const char* next = reinterpret_cast<const char*>(w[u] + row * kPanel * S::kDepth) + kPrefetchBytes;
          _mm_prefetch(next, _MM_HINT_T0);
          if constexpr (kRowBytes > 64) _mm_prefetch(next + 64, _MM_HINT_T0);
        }
      }
      QUIRE_UNROLL
      for (int step = 0; step < S::kSteps; ++step)
        multiply_step<V, S, kRows, kUnits>(w, row, step, in, row * S::kSteps + step, sum);
    }
  }
  // The half of the last stored row that an odd k leaves.
  if constexpr (S::kSteps > 1) {
    if (rows * S::kSteps < depth) multiply_step<V, S, kRows, kUnits>(w, rows, 0, in, depth - 1, sum);
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

template <class V, class S, int kRows, int kUnits, bool kStream>
void multiply_rows(int rows, const typename S::T* const* weights, const typename S::X* const* x,
                   int64_t depth, float* acc, int64_t acc_row_stride, bool first, Ahead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return multiply_rows<V, S, kRows - 1, kUnits, kStream>(rows, weights, x, depth, acc, acc_row_stride,
                                                             first, ahead);
  }
  multiply_block<V, S, kRows, kUnits, kStream>(weights, x, depth, acc, acc_row_stride, first, ahead);
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
// kRows rows. kStream: one block, whose weights come from memory.
template <class V, class S, int kRows, int kUnits, bool kStream>
void multiply_units(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t unit) {
  using T = typename S::T;
  using X = typename S::X;
  constexpr int kLanes = V::kNarrowLanes;
  constexpr int64_t kAccStride = 2 * kUnits * kLanes;
  constexpr int64_t kStoredRow = kPanel * S::kDepth;
  constexpr int64_t kStoredBytes = kStoredRow * static_cast<int64_t>(sizeof(T));
  alignas(64) float acc[(kStream ? kRows : kRowChunk) * kAccStride];
  const int64_t stored_rows = (args.k + S::kDepth - 1) / S::kDepth;
  const int64_t steps = S::kSteps == S::kDepth ? args.k : stored_rows;
  const auto* all = static_cast<const T*>(args.weights);
  const T* base[kUnits];
  QUIRE_UNROLL
  for (int u = 0; u < kUnits; ++u) {
    const int64_t panel = (unit + u) / kUnitsPerPanel<V>;
    const int64_t lane = (unit + u) % kUnitsPerPanel<V> * 2 * kLanes;
    base[u] = all + panel * stored_rows * kStoredRow + lane * S::kDepth;
  }
  const int64_t rows = row_end - row_begin;
  // Blocks of nearly one size: 14 rows are 7 + 7 and not 12 + 2.
  const int64_t blocks = (rows + kRows - 1) / kRows;
  const int64_t slice = kStream ? steps : kWeightSliceBytes / (kUnits * kStoredBytes) * S::kSteps;
  for (int64_t begin = 0; begin < steps; begin += slice) {
    const int64_t depth = steps - begin < slice ? steps - begin : slice;
    const T* weights[kUnits];
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) weights[u] = base[u] + begin / S::kSteps * kStoredRow;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = rows * b / blocks;
      const int64_t last = rows * (b + 1) / blocks;
      const X* x[kRows];
      for (int64_t r = first; r < last; ++r)
        x[r - first] = static_cast<const X*>(args.x) + (row_begin + r) * args.x_stride + begin;
      // Each block asks for its part of the next slice.
      Ahead ahead = {nullptr, 0};
      if constexpr (!kStream && kUnits == 1 && kUnitsPerPanel<V> == 1) {
        ahead.lines = (kAheadRows * kStoredBytes / 64 + blocks - 1) / blocks;
        ahead.at = reinterpret_cast<const char*>(weights[0] + slice / S::kSteps * kStoredRow) +
                   b * (slice / S::kSteps / kAheadRows) * ahead.lines * 64;
      }
      multiply_rows<V, S, kRows, kUnits, kStream>(static_cast<int>(last - first), weights, x, depth,
                                                  acc + first * kAccStride, kAccStride, begin == 0, ahead);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      const int64_t column =
          (unit + u) / kUnitsPerPanel<V> * kPanel + (unit + u) % kUnitsPerPanel<V> * 2 * kLanes;
      const float* sums = acc + r * kAccStride + 2 * u * kLanes;
      finish_columns<V>(args, row_begin + r, column, V::narrow_load(sums));
      finish_columns<V>(args, row_begin + r, column + kLanes, V::narrow_load(sums + kLanes));
    }
  }
}

// All units of the panels for rows that fit one block beside kUnits units.
template <class V, class S, int kRows, int kUnits>
void multiply_few(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t unit, int64_t end) {
  for (; unit + kUnits <= end; unit += kUnits)
    multiply_units<V, S, kRows, kUnits, true>(args, row_begin, row_end, unit);
  for (; unit < end; ++unit) multiply_units<V, S, kRows, 1, true>(args, row_begin, row_end, unit);
}

template <class V, class S>
void linear(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
            int64_t panel_end) {
  constexpr int kRegisters = kBlockRegisters<V>;
  const int64_t rows = row_end - row_begin;
  const int64_t unit = panel_begin * kUnitsPerPanel<V>;
  const int64_t end = panel_end * kUnitsPerPanel<V>;
  if constexpr (kRegisters >= 8) {
    if (rows <= kRegisters / 8)
      return multiply_few<V, S, kRegisters / 8, 4>(args, row_begin, row_end, unit, end);
  }
  if (rows <= kRegisters / 4)
    return multiply_few<V, S, kRegisters / 4, 2>(args, row_begin, row_end, unit, end);
  if (rows <= kRegisters / 2)
    return multiply_few<V, S, kRegisters / 2, 1>(args, row_begin, row_end, unit, end);
  for (int64_t row = row_begin; row < row_end; row += kRowChunk) {
    const int64_t last = row_end - row < kRowChunk ? row_end : row + kRowChunk;
    for (int64_t u = unit; u < end; ++u) multiply_units<V, S, kRegisters / 2, 1, false>(args, row, last, u);
  }
}
