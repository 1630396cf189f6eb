// out = x w^T over packed panels of quantized weights as integers, for many rows. A slice of a panel is
// unpacked once to bytes, in the form that D::dot reads, with its scales as float32. Both stay in L1 while
// all blocks of rows are multiplied by them. Sums and their order are those of linear_quantized_int.inc.h,
// which is included before this file.

// Approximate number of elements along K per slice.
constexpr int64_t kIntSlice = 512;
// Maximum number of rows of a single block for which codes are multiplied as they are read. The tiled kernels
// give the same bits for any number of rows, so that a build may choose a smaller one.
#ifndef QUIRE_MAX_DIRECT_ROWS
#define QUIRE_MAX_DIRECT_ROWS 8
#endif
template <class D, int kSlices>
constexpr int kDirectRows =
    D::kBlockRows / kSlices < QUIRE_MAX_DIRECT_ROWS ? D::kBlockRows / kSlices : QUIRE_MAX_DIRECT_ROWS;
// Rows whose sums, and results if these stay in registers, fit into the registers.
template <class D, int kSlices>
constexpr int kRunRows = kSlices > 1 ? D::kBlockRows / kSlices : D::kRunRows;

// Bytes of two registers of columns for four elements along K.
template <class D>
constexpr int64_t kQuadBytes = 2 * D::kLanes * 4;

// Unpacks one chunk of eight elements to a byte per element; codes of a table become 128 + integer. to: [2]
// quads.
template <class D, class C, int kBits, bool kTable>
__attribute__((always_inline)) inline void unpack_chunk(const std::byte* four, int c, int64_t lane,
                                                        typename D::I numbers, uint8_t* to) {
  QUIRE_UNROLL
  for (int h = 0; h < 2; ++h) {
    typename D::I quads[2];
    load_codes<C, kBits>(four, c, lane + h * D::kLanes, quads);
    QUIRE_UNROLL
    for (int q = 0; q < 2; ++q) {
      if constexpr (kTable) quads[q] = C::shuffle(numbers, quads[q]);
      D::store(to + q * kQuadBytes<D> + h * D::kLanes * 4, quads[q]);
    }
  }
}

// Unpacks a run. to: [chunks of all its exact-accumulation blocks][2] quads.
template <class D, class C, int kBits, bool kTable>
__attribute__((noinline)) void unpack_run(const UnitRun<D>& run, int64_t lane, const uint8_t* table,
                                          uint8_t* to) {
  const typename D::I numbers = kTable ? C::bytes_table(table) : D::zero();
  const auto chunk = [&](const std::byte* four, int c) __attribute__((always_inline)) {
    unpack_chunk<D, C, kBits, kTable>(four, c, lane, numbers, to);
    to += 2 * kQuadBytes<D>;
  };
  for (int u = 0; u < run.count; ++u)
    walk_chunks<kBits, true>(run.codes[u], run.chunk[u], run.num_chunks[u], chunk);
}

// Activations of some rows of a block, at the first exact-accumulation block of a run.
struct RunRows {
  const int32_t* x;       // [quads][stride][slices]
  const float* x_scales;  // [units][stride]
  const float* x_totals;  // [units][stride]
  const int32_t* x_sums;  // [units][stride][slices]
  int64_t stride;         // rows of the block
  float* acc;             // [rows][2][lanes]
};

// Products of eight elements along K of a run with kLines lines of activations; a line is one slice of a row.
// x: [2][stride].
template <class D, bool kWide, int kLines>
__attribute__((always_inline)) inline void multiply_bytes(const uint8_t* codes, const int32_t* x,
                                                          int64_t stride, typename D::I (&sum)[kLines][2]) {
  constexpr int kNext = D::kLanes * 4;
  QUIRE_UNROLL
  for (int q = 0; q < 2; ++q, codes += kQuadBytes<D>, x += stride) {
    if constexpr (kWide) {
      multiply_step<D, kLines>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
    } else {
      using W = typename D::W4;
      multiply_step<D, kLines>(W{D::load(codes)}, W{D::load(codes + kNext)}, x, sum);
    }
  }
}

// Adds the products of a run. Results stay in registers, unless the sums of slices need these. zero: the
// factor of the sums of activations.
template <class D, bool kWide, bool kShifted, int kSlices, int kRows>
void multiply_run(const UnitRun<D>& run, const uint8_t* codes, int32_t zero, RunRows rows) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  constexpr int kLines = kRows * kSlices;
  constexpr bool kStay = kSlices == 1;
  const int64_t stride = rows.stride * kSlices;
  const I factor = D::set1(zero & 0xffff);  // both factors are signed 16-bit
  N acc[kRows][2];
  if constexpr (kStay) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      acc[r][0] = V::narrow_load(rows.acc + 2 * r * D::kLanes);
      acc[r][1] = V::narrow_load(rows.acc + (2 * r + 1) * D::kLanes);
    }
  }
  for (int u = 0; u < run.count; ++u) {
    I sum[kLines][2];
    QUIRE_UNROLL
    for (int r = 0; r < kLines; ++r) {
      sum[r][0] = D::set1(rows.x_sums[r]);
      if constexpr (kShifted) sum[r][0] = D::mul16(factor, sum[r][0]);
      sum[r][1] = sum[r][0];
    }
    int32_t chunks = run.num_chunks[u];
    for (; chunks >= 2; chunks -= 2, codes += 4 * kQuadBytes<D>, rows.x += 4 * stride) {
      multiply_bytes<D, kWide, kLines>(codes, rows.x, stride, sum);
      multiply_bytes<D, kWide, kLines>(codes + 2 * kQuadBytes<D>, rows.x + 2 * stride, stride, sum);
    }
    if (chunks > 0) {
      multiply_bytes<D, kWide, kLines>(codes, rows.x, stride, sum);
      codes += 2 * kQuadBytes<D>;
      rows.x += 2 * stride;
    }
    const N scale[2] = {V::narrow_load(run.scale[u][0]), V::narrow_load(run.scale[u][1])};
    N shift[2];
    if constexpr (kShifted) {
      shift[0] = V::narrow_load(run.shift[u][0]);
      shift[1] = V::narrow_load(run.shift[u][1]);
    }
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const N x_scale = V::narrow_set1(rows.x_scales[r]);
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        I whole[kSlices];
        QUIRE_UNROLL
        for (int d = 0; d < kSlices; ++d) whole[d] = sum[r * kSlices + d][h];
        float* result = rows.acc + (2 * r + h) * D::kLanes;
        N value = kStay ? acc[r][h] : V::narrow_load(result);
        value = V::narrow_fma(join<D, kSlices>(whole), D::mul(x_scale, scale[h]), value);
        if constexpr (kShifted) value = V::narrow_fma(shift[h], V::narrow_set1(rows.x_totals[r]), value);
        if constexpr (kStay) {
          acc[r][h] = value;
        } else {
          V::narrow_store(result, value);
        }
      }
    }
    rows.x_scales += rows.stride;
    rows.x_totals += rows.stride;
    rows.x_sums += stride;
  }
  if constexpr (kStay) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      V::narrow_store(rows.acc + 2 * r * D::kLanes, acc[r][0]);
      V::narrow_store(rows.acc + (2 * r + 1) * D::kLanes, acc[r][1]);
    }
  }
}

template <class D, bool kWide, bool kShifted, int kSlices, int kRows>
void multiply_run_rows(const UnitRun<D>& run, const uint8_t* codes, int32_t zero, int64_t count,
                       const RunRows& rows) {
  if constexpr (kRows > 1) {
    if (count < kRows)
      return multiply_run_rows<D, kWide, kShifted, kSlices, kRows - 1>(run, codes, zero, count, rows);
  }
  multiply_run<D, kWide, kShifted, kSlices, kRows>(run, codes, zero, rows);
}

template <class D>
using MultiplyRun = void (*)(const UnitRun<D>&, const uint8_t*, int32_t, int64_t, const RunRows&);

// Kernels of all code widths share these.
template <class D, bool kWide, int kSlices>
MultiplyRun<D> multiply_run_of(const QuantizedMatrixArgs& m) {
  constexpr int kRows = kRunRows<D, kSlices>;
  return m.minima || m.group_zero_points ? multiply_run_rows<D, kWide, true, kSlices, kRows>
                                         : multiply_run_rows<D, kWide, false, kSlices, kRows>;
}

// Exact-accumulation blocks per run. Each is padded by at most 8 elements.
inline int run_units(int64_t unit) {
  const int64_t units = kIntSlice / unit;
  return static_cast<int>(units < 1 ? 1 : units < kRunUnits ? units : kRunUnits);
}

// End of the last codes of a run.
template <class D, int kBits>
const std::byte* run_end(const UnitRun<D>& run) {
  const int last = run.count - 1;
  return run.codes[last] + (run.chunk[last] + run.num_chunks[last]) * kChunksBytes<kBits> / 4;
}

// Columns [lane, lane + 2 kLanes) of a panel, for all blocks.
template <class D, class C, int kBits, bool kTable, int kSlices>
void multiply_unpacked(const QuantizedIntArgs& a, const IntBlocks& at, int64_t panel, int64_t lane) {
  using V = typename D::V;
  constexpr bool kWide = kBits == 8 || kTable;
  constexpr int64_t kRowSums = 2 * D::kLanes;
  alignas(64) uint8_t bytes[(kIntSlice + 8 * kRunUnits) * kRowSums];
  alignas(64) float acc[kMaxIntBlocks * (D::kBlockRows / kSlices) * kRowSums];
  const auto first_row = [&](int64_t block) { return at.rows * block / at.count; };
  const int64_t begin = first_row(at.first);
  const int64_t end = first_row(at.first + at.num);
  __builtin_memset(acc, 0, static_cast<size_t>((end - begin) * kRowSums) * sizeof(float));
  const NextRun<D> next = next_run_of<D, C>(a.m);
  const MultiplyRun<D> multiply = multiply_run_of<D, kWide, kSlices>(a.m);
  const int max_units = run_units(a.in.unit);
  UnitPlace place = {static_cast<const std::byte*>(a.m.io.weights) + panel * a.m.panel_bytes,
                     kChunksBytes<kBits>};
  UnitRun<D> run;
  int64_t quads = 0;
  int64_t units = 0;
  for (next(a, place, lane, 0, max_units, run); run.count > 0; next(a, place, lane, 0, max_units, run)) {
    unpack_run<D, C, kBits, kTable>(run, lane, a.numbers, bytes);
    const std::byte* ahead = run.codes[0];
    const int64_t taken = run_end<D, kBits>(run) - ahead;
    for (int64_t b = 0; b < at.num; ++b) {
      // Each block prefetches its part of the next slice.
      const std::byte* part_end = ahead + taken + taken * (b + 1) / at.num;
      for (const std::byte* line = ahead + taken + taken * b / at.num; line < part_end; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
      const int64_t row = first_row(at.first + b);
      const int64_t rows = first_row(at.first + b + 1) - row;
      const int64_t first_unit = row * a.in.num_units + units * rows;
      const RunRows block = {
          reinterpret_cast<const int32_t*>(a.in.codes + row * kSlices * a.in.depth) + quads * rows * kSlices,
          a.in.scales + first_unit,
          a.in.totals + first_unit,
          a.in.sums + first_unit * kSlices,
          rows,
          acc + (row - begin) * kRowSums};
      // Parts of nearly equal size.
      const int64_t parts = (rows + kRunRows<D, kSlices> - 1) / kRunRows<D, kSlices>;
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t r = rows * p / parts;
        multiply(run, bytes, a.zero_point, rows * (p + 1) / parts - r,
                 {block.x + r * kSlices, block.x_scales + r, block.x_totals + r, block.x_sums + r * kSlices,
                  rows, block.acc + r * kRowSums});
      }
    }
    for (int u = 0; u < run.count; ++u) quads += 2 * run.num_chunks[u];
    units += run.count;
  }
  for (int64_t r = begin; r < end; ++r) {
    const float* sums = acc + (r - begin) * kRowSums;
    finish_pair<V>(a.m.io, r, panel * kPanel + lane, V::narrow_load(sums), V::narrow_load(sums + D::kLanes));
  }
}

template <class D, class C, int kBits, bool kTable, int kSlices>
void linear_quantized_int_tiled_slices(const QuantizedIntArgs& a, const IntBlocks& at, int64_t panel,
                                       int64_t panel_end) {
  constexpr int kMost = kDirectRows<D, kSlices>;
  const int64_t row = at.rows * at.first / at.count;
  const int64_t rows = at.rows * (at.first + 1) / at.count - row;
  if (at.num == 1 && rows <= kMost)
    return quantized_int_rows<D, C, kBits, kTable, kSlices, kMost>(a, row, rows, panel, panel_end,
                                                                   quantized_ahead(a));
  for (; panel < panel_end; ++panel) {
    for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes)
      multiply_unpacked<D, C, kBits, kTable, kSlices>(a, at, panel, lane);
  }
}

template <class D, class C, int kBits, bool kTable>
void linear_quantized_int(const QuantizedIntArgs& a, const IntBlocks& at, int64_t panel, int64_t panel_end) {
  if (a.in.slices == 1)
    return linear_quantized_int_tiled_slices<D, C, kBits, kTable, 1>(a, at, panel, panel_end);
  if (a.in.slices == kInt16Slices)
    return linear_quantized_int_tiled_slices<D, C, kBits, kTable, kInt16Slices>(a, at, panel, panel_end);
  linear_quantized_int_tiled_slices<D, C, kBits, kTable, kFloatSlices>(a, at, panel, panel_end);
}

template <class D, class C>
void fill_quantized_int(CpuKernels& t) {
  t.linear_quantized_int[0][2] = linear_quantized_int<D, C, 2, false>;
  t.linear_quantized_int[0][3] = linear_quantized_int<D, C, 3, false>;
  t.linear_quantized_int[0][4] = linear_quantized_int<D, C, 4, false>;
  t.linear_quantized_int[0][5] = linear_quantized_int<D, C, 5, false>;
  t.linear_quantized_int[0][6] = linear_quantized_int<D, C, 6, false>;
  t.linear_quantized_int[0][8] = linear_quantized_int<D, C, 8, false>;
  t.linear_quantized_int[1][3] = linear_quantized_int<D, C, 3, true>;
  t.linear_quantized_int[1][4] = linear_quantized_int<D, C, 4, true>;
}
