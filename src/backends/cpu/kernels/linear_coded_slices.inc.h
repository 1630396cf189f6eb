// out = x w^T over packed panels of codes as whole numbers, for many rows: a slice of a panel's codes
// becomes bytes once, as D::dot takes them, with its scales as float32, both in the first-level cache, and
// all blocks of rows pass over it. Sums and their order are those of linear_coded_int.inc.h, which comes
// before this file.

// k's of a slice, about.
constexpr int64_t kIntSlice = 512;
// Rows of a single block that multiply codes as they are read.
template <class D, int kDigits>
constexpr int kDirectRows = kDigits > 1         ? D::kBlockRows / kDigits
                            : D::kBlockRows < 8 ? D::kBlockRows
                                                : 8;
// Rows whose sums fit the registers, with their results where those stay there too.
template <class D, int kDigits>
constexpr int kRunRows = kDigits > 1 ? D::kBlockRows / kDigits : D::kRunRows;

// Bytes of two registers of columns for four k's.
template <class D>
constexpr int64_t kQuadBytes = 2 * D::kLanes * 4;

// Codes of one chunk of eight k's, each in a byte; those of a table become 128 + number. to: [2] quads.
template <class D, class C, int kBits, bool kTable>
__attribute__((always_inline)) inline void spread_chunk(const std::byte* four, int c, int64_t lane,
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

// Codes of a run. to: [chunks of all its units][2] quads.
template <class D, class C, int kBits, bool kTable>
__attribute__((noinline)) void spread_run(const UnitRun<D>& run, int64_t lane, const uint8_t* table,
                                          uint8_t* to) {
  const typename D::I numbers = kTable ? C::bytes_table(table) : D::zero();
  const auto chunk = [&](const std::byte* four, int c) __attribute__((always_inline)) {
    spread_chunk<D, C, kBits, kTable>(four, c, lane, numbers, to);
    to += 2 * kQuadBytes<D>;
  };
  for (int u = 0; u < run.count; ++u)
    walk_chunks<kBits>(run.codes[u], run.chunk[u], run.num_chunks[u], chunk);
}

// What some rows of a block meet a run with, at the run's first unit.
struct RunRows {
  const int32_t* x;       // [quads][stride][digits]
  const float* x_scales;  // [units][stride]
  const float* x_totals;  // [units][stride]
  const int32_t* x_sums;  // [units][stride][digits]
  int64_t stride;         // rows of the block
  float* acc;             // [rows][2][lanes]
};

// Products of eight k's of a run's codes with so many lines of activations, each a digit of a row. x:
// [2][stride].
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

// Adds the products of a run. The results stay in registers meanwhile, unless the sums of their digits need
// these. zero: what the sums of activations are to be multiplied with.
template <class D, bool kWide, bool kShifted, int kDigits, int kRows>
void multiply_run(const UnitRun<D>& run, const uint8_t* codes, int32_t zero, RunRows rows) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  constexpr int kLines = kRows * kDigits;
  constexpr bool kStay = kDigits == 1;
  const int64_t stride = rows.stride * kDigits;
  const I factor = D::set1(zero & 0xffff);  // both are of 16 bits with a sign
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
        I whole[kDigits];
        QUIRE_UNROLL
        for (int d = 0; d < kDigits; ++d) whole[d] = sum[r * kDigits + d][h];
        float* result = rows.acc + (2 * r + h) * D::kLanes;
        N value = kStay ? acc[r][h] : V::narrow_load(result);
        value = V::narrow_fma(join<D, kDigits>(whole), D::mul(x_scale, scale[h]), value);
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

template <class D, bool kWide, bool kShifted, int kDigits, int kRows>
void multiply_run_rows(const UnitRun<D>& run, const uint8_t* codes, int32_t zero, int64_t count,
                       const RunRows& rows) {
  if constexpr (kRows > 1) {
    if (count < kRows)
      return multiply_run_rows<D, kWide, kShifted, kDigits, kRows - 1>(run, codes, zero, count, rows);
  }
  multiply_run<D, kWide, kShifted, kDigits, kRows>(run, codes, zero, rows);
}

template <class D>
using MultiplyRun = void (*)(const UnitRun<D>&, const uint8_t*, int32_t, int64_t, const RunRows&);

// Kernels of all widths of codes share these.
template <class D, bool kWide, int kDigits>
MultiplyRun<D> multiply_run_of(const CodedMatrixArgs& m) {
  constexpr int kRows = kRunRows<D, kDigits>;
  return m.minima || m.group_zeros ? multiply_run_rows<D, kWide, true, kDigits, kRows>
                                   : multiply_run_rows<D, kWide, false, kDigits, kRows>;
}

// Units of a run that becomes a slice: each takes at most 8 k's more than it has.
inline int run_units(int64_t unit) {
  const int64_t units = kIntSlice / unit;
  return static_cast<int>(units < 1 ? 1 : units < kRunUnits ? units : kRunUnits);
}

// Behind a run's last codes.
template <class D, int kBits>
const std::byte* run_end(const UnitRun<D>& run) {
  const int last = run.count - 1;
  return run.codes[last] + (run.chunk[last] + run.num_chunks[last]) * kChunksBytes<kBits> / 4;
}

// Columns lane .. lane + 2 kLanes of a panel, all blocks.
template <class D, class C, int kBits, bool kTable, int kDigits>
void multiply_spread(const CodedIntArgs& a, const IntBlocks& at, int64_t panel, int64_t lane) {
  using V = typename D::V;
  constexpr bool kWide = kBits == 8 || kTable;
  constexpr int64_t kRowSums = 2 * D::kLanes;
  alignas(64) uint8_t bytes[(kIntSlice + 8 * kRunUnits) * kRowSums];
  alignas(64) float acc[kMaxIntBlocks * (D::kBlockRows / kDigits) * kRowSums];
  const auto first_row = [&](int64_t block) { return at.rows * block / at.count; };
  const int64_t begin = first_row(at.first);
  const int64_t end = first_row(at.first + at.num);
  __builtin_memset(acc, 0, static_cast<size_t>((end - begin) * kRowSums) * sizeof(float));
  const NextRun<D> next = next_run_of<D, C>(a.m);
  const MultiplyRun<D> multiply = multiply_run_of<D, kWide, kDigits>(a.m);
  const int most = run_units(a.in.unit);
  UnitPlace place = {static_cast<const std::byte*>(a.m.io.weights) + panel * a.m.panel_bytes,
                     kChunksBytes<kBits>};
  UnitRun<D> run;
  int64_t quads = 0;
  int64_t units = 0;
  for (next(a, place, lane, 0, most, run); run.count > 0; next(a, place, lane, 0, most, run)) {
    spread_run<D, C, kBits, kTable>(run, lane, a.numbers, bytes);
    const std::byte* ahead = run.codes[0];
    const int64_t taken = run_end<D, kBits>(run) - ahead;
    for (int64_t b = 0; b < at.num; ++b) {
      // Each block asks for its part of the next slice.
      const std::byte* part_end = ahead + taken + taken * (b + 1) / at.num;
      for (const std::byte* line = ahead + taken + taken * b / at.num; line < part_end; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
      const int64_t row = first_row(at.first + b);
      const int64_t rows = first_row(at.first + b + 1) - row;
      const int64_t first_unit = row * a.in.num_units + units * rows;
      const RunRows block = {
          reinterpret_cast<const int32_t*>(a.in.codes + row * kDigits * a.in.depth) + quads * rows * kDigits,
          a.in.scales + first_unit,
          a.in.totals + first_unit,
          a.in.sums + first_unit * kDigits,
          rows,
          acc + (row - begin) * kRowSums};
      // Parts of nearly one size.
      const int64_t parts = (rows + kRunRows<D, kDigits> - 1) / kRunRows<D, kDigits>;
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t r = rows * p / parts;
        multiply(run, bytes, a.zero, rows * (p + 1) / parts - r,
                 {block.x + r * kDigits, block.x_scales + r, block.x_totals + r, block.x_sums + r * kDigits,
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

template <class D, class C, int kBits, bool kTable, int kDigits>
void linear_coded_digits(const CodedIntArgs& a, const IntBlocks& at, int64_t panel, int64_t panel_end) {
  constexpr int kMost = kDirectRows<D, kDigits>;
  const int64_t row = at.rows * at.first / at.count;
  const int64_t rows = at.rows * (at.first + 1) / at.count - row;
  if (at.num == 1 && rows <= kMost)
    return coded_int_rows<D, C, kBits, kTable, kDigits, kMost>(a, row, rows, panel, panel_end,
                                                               coded_ahead(a));
  for (; panel < panel_end; ++panel) {
    for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes)
      multiply_spread<D, C, kBits, kTable, kDigits>(a, at, panel, lane);
  }
}

template <class D, class C, int kBits, bool kTable>
void linear_coded_int(const CodedIntArgs& a, const IntBlocks& at, int64_t panel, int64_t panel_end) {
  if (a.in.digits == 1) return linear_coded_digits<D, C, kBits, kTable, 1>(a, at, panel, panel_end);
  if (a.in.digits == kInt16Digits)
    return linear_coded_digits<D, C, kBits, kTable, kInt16Digits>(a, at, panel, panel_end);
  linear_coded_digits<D, C, kBits, kTable, kFloatDigits>(a, at, panel, panel_end);
}

template <class D, class C>
void fill_coded_int(CpuKernels& t) {
  t.linear_coded_int[0][2] = linear_coded_int<D, C, 2, false>;
  t.linear_coded_int[0][3] = linear_coded_int<D, C, 3, false>;
  t.linear_coded_int[0][4] = linear_coded_int<D, C, 4, false>;
  t.linear_coded_int[0][5] = linear_coded_int<D, C, 5, false>;
  t.linear_coded_int[0][6] = linear_coded_int<D, C, 6, false>;
  t.linear_coded_int[0][8] = linear_coded_int<D, C, 8, false>;
  t.linear_coded_int[1][3] = linear_coded_int<D, C, 3, true>;
  t.linear_coded_int[1][4] = linear_coded_int<D, C, 4, true>;
}
