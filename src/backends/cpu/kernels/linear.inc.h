// out = x w^T over packed panels.
//
// A column unit is what one pair of registers holds: a whole panel where a register has 16 lanes, half of one
// where it has 8. A block of rows x units stays in registers while k runs; each output has one accumulator,
// to which the steps of k (storage.inc.h) are added one by one from first to last, so its value does not
// depend on how blocks are cut.

// Weights of a unit group that stay in the first-level cache while blocks of rows pass over them.
constexpr int64_t kWeightSliceBytes = 32768;
// Rows that pass over a slice before the next one is fetched.
constexpr int64_t kRowChunk = 192;
// Rows of a block among many: more of them lie in the same set of the first-level cache than it has ways,
// where their distance is a power of two.
constexpr int kManyRows = 6;
// Stored rows between two requests for lines of the next slice.
constexpr int64_t kAheadRows = 8;

template <class V>
constexpr int kUnitsPerPanel = 16 / V::kNarrowLanes;

// Registers of `Narrow` width that a block's accumulators may take.
template <class V>
constexpr int kBlockRegisters = V::kMaxAccumulators*(16 / V::kNarrowLanes);

// Columns of a unit.
template <class V>
constexpr int64_t kUnitColumns = 2 * V::kNarrowLanes;

// Bytes ahead of a single pass of many rows that its weights are asked for. Fewer rows need no asking: the
// processor looks far enough ahead by itself, as its buffers hold the few instructions from one load to the
// next.
constexpr int64_t kStreamAhead = 4096;

// Lines that a pass of a block over its slice asks for on the way: those of the next slice.
struct Ahead {
  int64_t offset;  // of the first from each unit's weights, in bytes
  int64_t lines;   // of each unit, for each kAheadRows stored rows
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
// kOnlyBlock: nothing is asked for ahead; the processor sees by itself what a single pass will read next.
template <class V, class S, int kRows, int kUnits, bool kOnlyBlock>
void multiply_block(const typename S::T* const* weights, const typename S::X* const* x, int64_t depth,
                    float* acc, int64_t acc_row_stride, bool first, Ahead ahead) {
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
  const typename S::X* in[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) in[r] = x[r];
  const int64_t rows = depth / S::kSteps;
  for (int64_t row = 0; row < rows;) {
    int64_t stop = rows;
    if constexpr (!kOnlyBlock) {
      stop = row + kAheadRows < rows ? row + kAheadRows : rows;
      for (int64_t l = 0; l < ahead.lines; ++l, ahead.offset += 64) {
        QUIRE_UNROLL
        for (int u = 0; u < kUnits; ++u)
          _mm_prefetch(reinterpret_cast<const char*>(w[u]) + ahead.offset, _MM_HINT_T1);
      }
    }
    for (; row < stop; ++row) {
      if constexpr (kOnlyBlock && kRows > kManyRows) {
        constexpr int64_t kBytes = kUnitColumns<V> * S::kDepth * static_cast<int64_t>(sizeof(typename S::T));
        QUIRE_UNROLL
        for (int u = 0; u < kUnits; ++u) {
          const char* at = reinterpret_cast<const char*>(w[u] + row * kPanel * S::kDepth) + kStreamAhead;
          QUIRE_UNROLL
          for (int64_t line = 0; line < kBytes; line += 64) _mm_prefetch(at + line, _MM_HINT_T0);
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

template <class V, class S, int kRows, int kUnits, bool kOnlyBlock>
void multiply_rows(int rows, const typename S::T* const* weights, const typename S::X* const* x,
                   int64_t depth, float* acc, int64_t acc_row_stride, bool first, Ahead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return multiply_rows<V, S, kRows - 1, kUnits, kOnlyBlock>(rows, weights, x, depth, acc, acc_row_stride,
                                                                first, ahead);
  }
  multiply_block<V, S, kRows, kUnits, kOnlyBlock>(weights, x, depth, acc, acc_row_stride, first, ahead);
}

// Unit `unit` of packed weights with `stored_rows` rows in a panel.
template <class V, class S>
const typename S::T* unit_begin(const LinearArgs& args, int64_t unit, int64_t stored_rows) {
  const int64_t panel = unit / kUnitsPerPanel<V>;
  const int64_t lane = unit % kUnitsPerPanel<V> * 2 * V::kNarrowLanes;
  return static_cast<const typename S::T*>(args.weights) +
         (panel * stored_rows * kPanel + lane) * int64_t{S::kDepth};
}

// Bias, residual and the store of `units` units. acc: [rows][units][2][lanes].
template <class V>
void finish_units(const LinearArgs& args, int64_t row_begin, int64_t rows, int64_t unit, int units,
                  const float* acc) {
  constexpr int kLanes = V::kNarrowLanes;
  for (int64_t r = 0; r < rows; ++r) {
    for (int u = 0; u < units; ++u, acc += 2 * kLanes) {
      const int64_t column = (unit + u) * 2 * kLanes;
      finish_pair<V>(args, row_begin + r, column, V::narrow_load(acc), V::narrow_load(acc + kLanes));
    }
  }
}

// At most kRows rows by kUnits units from `unit` on: one block, and each panel from its begin to its end, so
// that weights that come from memory come as one long stream.
template <class V, class S, int kRows, int kUnits>
void multiply_few(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t unit) {
  constexpr int64_t kAccStride = 2 * kUnits * V::kNarrowLanes;
  alignas(64) float acc[kRows * kAccStride];
  const int64_t stored_rows = (args.k + S::kDepth - 1) / S::kDepth;
  const typename S::T* weights[kUnits];
  QUIRE_UNROLL
  for (int u = 0; u < kUnits; ++u) weights[u] = unit_begin<V, S>(args, unit + u, stored_rows);
  const typename S::X* x[kRows];
  const int64_t rows = row_end - row_begin;
  for (int64_t r = 0; r < rows; ++r)
    x[r] = static_cast<const typename S::X*>(args.x) + (row_begin + r) * args.x_stride;
  multiply_rows<V, S, kRows, kUnits, true>(static_cast<int>(rows), weights, x,
                                           S::kSteps == S::kDepth ? args.k : stored_rows, acc, kAccStride,
                                           true, {});
  finish_units<V>(args, row_begin, rows, unit, kUnits, acc);
}

// Rows [row_begin, row_end), at most kRowChunk of them, by kUnits units, in blocks of at most kRows rows.
template <class V, class S, int kRows, int kUnits>
void multiply_many(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t unit) {
  using T = typename S::T;
  using X = typename S::X;
  constexpr int64_t kAccStride = 2 * kUnits * V::kNarrowLanes;
  constexpr int64_t kStoredRow = kPanel * S::kDepth;
  constexpr int64_t kStoredBytes = kStoredRow * static_cast<int64_t>(sizeof(T));
  alignas(64) float acc[kRowChunk * kAccStride];
  const int64_t stored_rows = (args.k + S::kDepth - 1) / S::kDepth;
  const T* base[kUnits];
  QUIRE_UNROLL
  for (int u = 0; u < kUnits; ++u) base[u] = unit_begin<V, S>(args, unit + u, stored_rows);
  const int64_t rows = row_end - row_begin;
  // Blocks of nearly one size: 8 rows are 4 + 4 and not 6 + 2. So are slices.
  const int64_t blocks = (rows + kRows - 1) / kRows;
  constexpr int64_t kMaxSlice = kWeightSliceBytes / (kUnits * kStoredBytes);
  const int64_t slices = (stored_rows + kMaxSlice - 1) / kMaxSlice;
  const int64_t slice = (stored_rows + slices - 1) / slices;
  // Each block asks for its part of the next slice.
  const int64_t requests = slice / kAheadRows * blocks;
  const int64_t lines =
      requests == 0 || kUnitsPerPanel<V> > 1 ? 0 : (slice * (kStoredBytes / 64) + requests - 1) / requests;
  const int64_t steps = S::kSteps == S::kDepth ? args.k : stored_rows;
  for (int64_t begin = 0; begin < stored_rows; begin += slice) {
    const int64_t first_step = begin * S::kSteps;
    const int64_t depth = steps - first_step < slice * S::kSteps ? steps - first_step : slice * S::kSteps;
    const T* weights[kUnits];
    QUIRE_UNROLL
    for (int u = 0; u < kUnits; ++u) weights[u] = base[u] + begin * kStoredRow;
    // After the last slice come the first ones of the units behind these.
    const int64_t next = (begin + slice < stored_rows ? slice : kUnits * stored_rows - begin) * kStoredBytes;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = rows * b / blocks;
      const int64_t last = rows * (b + 1) / blocks;
      const X* x[kRows];
      for (int64_t r = first; r < last; ++r)
        x[r - first] = static_cast<const X*>(args.x) + (row_begin + r) * args.x_stride + first_step;
      const Ahead ahead = {next + b * (slice / kAheadRows) * lines * 64, lines};
      multiply_rows<V, S, kRows, kUnits, false>(static_cast<int>(last - first), weights, x, depth,
                                                acc + first * kAccStride, kAccStride, begin == 0, ahead);
    }
  }
  finish_units<V>(args, row_begin, rows, unit, kUnits, acc);
}

// Units of rows that fit one block of kRows x kUnits.
template <class V, class S, int kRows, int kUnits>
void linear_few(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t unit, int64_t end) {
  for (; unit + kUnits <= end; unit += kUnits)
    multiply_few<V, S, kRows, kUnits>(args, row_begin, row_end, unit);
  for (; unit < end; ++unit) multiply_few<V, S, kRows, 1>(args, row_begin, row_end, unit);
}

template <class V, class S>
void linear(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
            int64_t panel_end) {
  constexpr int kRegisters = kBlockRegisters<V>;
  constexpr int kWide = kRegisters / (2 * kManyRows);
  const int64_t rows = row_end - row_begin;
  const int64_t unit = panel_begin * kUnitsPerPanel<V>;
  const int64_t end = panel_end * kUnitsPerPanel<V>;
  // One row: whole panels one by one, a single stream. More rows: as many units as registers hold sums for,
  // since the activations, which may not fit the first-level cache, are read again for each group of units.
  if (rows == 1) return linear_few<V, S, 1, kUnitsPerPanel<V>>(args, row_begin, row_end, unit, end);
  if (rows <= kRegisters / 8) return linear_few<V, S, kRegisters / 8, 4>(args, row_begin, row_end, unit, end);
  if (rows <= kRegisters / 4) return linear_few<V, S, kRegisters / 4, 2>(args, row_begin, row_end, unit, end);
  const bool same_sets = args.x_stride * static_cast<int64_t>(sizeof(typename S::X)) % 2048 == 0;
  if (rows <= (same_sets ? kManyRows : kRegisters / 2))
    return linear_few<V, S, kRegisters / 2, 1>(args, row_begin, row_end, unit, end);
  for (int64_t row = row_begin; row < row_end; row += kRowChunk) {
    const int64_t last = row_end - row < kRowChunk ? row_end : row + kRowChunk;
    int64_t u = unit;
    for (; u + kWide <= end; u += kWide) multiply_many<V, S, kManyRows, kWide>(args, row, last, u);
    for (; u < end; ++u) multiply_many<V, S, kManyRows, 1>(args, row, last, u);
  }
}
