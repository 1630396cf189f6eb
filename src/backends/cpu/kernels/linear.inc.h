// out = x w^T over packed panels.
//
// A column unit is the columns of two registers: a full panel with 16 lanes per register, half a panel with
// 8. A block of rows x units stays in registers while the loop runs along K. Each output has one accumulator,
// to which the steps along K (storage.inc.h) are added from first to last, so its value does not depend on
// the blocking.

// Weights of a group of units that stay in L1 while blocks of rows iterate over them.
constexpr int64_t kWeightSliceBytes = 32768;
// Rows that are multiplied by a slice before the next slice is loaded.
constexpr int64_t kRowChunk = 192;
// Rows per block in products of many rows. With a power-of-two row stride, more rows would map to the same L1
// set than it has ways.
constexpr int kManyRows = 6;
// Stored rows between two prefetches of cache lines of the next slice.
constexpr int64_t kAheadRows = 8;

template <class V>
constexpr int kUnitsPerPanel = 16 / V::kNarrowLanes;

// Registers of type `Narrow` available for the accumulators of a block.
template <class V>
constexpr int kBlockRegisters = V::kMaxAccumulators*(16 / V::kNarrowLanes);

// Columns per unit.
template <class V>
constexpr int64_t kUnitColumns = 2 * V::kNarrowLanes;

// Prefetch distance, in bytes, for a single pass over the weights with many rows. With few rows none is
// needed: there are few instructions between two loads, so out-of-order execution reaches far enough ahead.
constexpr int64_t kStreamAhead = 4096;

// Cache lines of the next slice that a block prefetches while it multiplies its slice.
struct Ahead {
  int64_t offset;  // bytes from a unit's weights to the first line
  int64_t lines;   // per unit, every kAheadRows stored rows
};

// One step along K for all sums. w: stored rows of the units; in[r][i]: the activations that they are
// multiplied by.
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

// acc: [kRows][kUnits][2][lanes]. weights[u]: first stored row of unit u in this slice. depth: steps along K.
// kOnlyBlock: without prefetching; the hardware prefetcher recognizes a single pass.
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
  // The first half of the last stored row, if K is odd.
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

// Address of unit `unit` in packed weights with `stored_rows` rows per panel.
template <class V, class S>
const typename S::T* unit_begin(const LinearArgs& args, int64_t unit, int64_t stored_rows) {
  const int64_t panel = unit / kUnitsPerPanel<V>;
  const int64_t lane = unit % kUnitsPerPanel<V> * 2 * V::kNarrowLanes;
  return static_cast<const typename S::T*>(args.weights) +
         (panel * stored_rows * kPanel + lane) * int64_t{S::kDepth};
}

// Adds bias and residual and stores `units` units. acc: [rows][units][2][lanes].
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

// At most kRows rows and kUnits units starting at `unit`, as one block. Each panel is read from start to end,
// so that weights come from memory as one long stream.
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

// Rows [row_begin, row_end), at most kRowChunk, and kUnits units, in blocks of at most kRows rows.
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
  // Blocks have nearly equal size: 8 rows are 4 + 4, not 6 + 2. So have slices.
  const int64_t blocks = (rows + kRows - 1) / kRows;
  constexpr int64_t kMaxSlice = kWeightSliceBytes / (kUnits * kStoredBytes);
  const int64_t slices = (stored_rows + kMaxSlice - 1) / kMaxSlice;
  const int64_t slice = (stored_rows + slices - 1) / slices;
  // Each block prefetches its part of the next slice.
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
    // The last slice is followed by the first slices of the next units.
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

// Rows that fit into one block of kRows x kUnits.
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
  // One row: panels one by one, as a single stream. More rows: as many units as the registers can hold sums
  // for, because the activations, which may not fit into L1, are read again for each group of units.
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
