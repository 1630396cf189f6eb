// out = x w^T over packed panels of codes (quant/coded_layout.h) with int8 activations. Behind
// linear_coded.inc.h and linear_int.inc.h: codes are read as there, and blocks of rows by two registers of
// columns are multiplied as here. The products of a unit are summed as int32, which is exact in any order;
// how units are added is said at CodedIntUnits.

// Units of a panel whose scales are made at once.
constexpr int kRunUnits = 16;

// What some units that follow each other need, of two registers of columns.
template <class D>
struct UnitRun {
  alignas(64) float scale[kRunUnits][2][D::kLanes];
  alignas(64) float minimum[kRunUnits][2][D::kLanes];  // zeros of groups are in them
  const std::byte* codes[kRunUnits];                   // of the unit's block
  int64_t first_chunk[kRunUnits];                      // of eight k's, in the block
  int64_t num_chunks[kRunUnits];
  int count;
};

// Where in a panel a run begins.
struct UnitPlace {
  const std::byte* block;
  int64_t block_begin;  // k
  int64_t in_block;     // k
};

// Fills the run and goes on behind it. Not inlined: kernels for any number of rows share it.
template <class D, class C>
__attribute__((noinline)) void next_run(const CodedIntArgs& a, UnitPlace& at, int64_t lane, UnitRun<D>& run) {
  using V = typename D::V;
  const CodedMatrixArgs& m = a.m;
  int u = 0;
  while (u < kRunUnits && at.block_begin < m.k) {
    const bool last = m.k - at.block_begin <= m.block;
    const CodedHeader& header = last ? m.last : m.whole;
    const int64_t depth = last ? m.k - at.block_begin : m.block;
    for (; u < kRunUnits && at.in_block < depth; ++u) {
      const int64_t unit = depth - at.in_block < a.in.unit ? depth - at.in_block : a.in.unit;
      const GroupScales<C, 2> group = load_group<C, 2>(m, header, at.block, at.in_block / m.group, lane);
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        const auto scale = D::mul(group.scale[h], V::narrow_set1(a.step));
        V::narrow_store(run.scale[u][h], scale);
        const auto shift =
            m.group_zeros ? V::narrow_fma(scale, group.zero[h], group.minimum[h]) : group.minimum[h];
        V::narrow_store(run.minimum[u][h], shift);
      }
      run.codes[u] = at.block + header.codes;
      run.first_chunk[u] = at.in_block / 8;
      run.num_chunks[u] = (unit + 7) / 8;
      at.in_block += unit;
    }
    if (at.in_block < depth) break;
    at.block += m.block_bytes;
    at.block_begin += m.block;
    at.in_block = 0;
  }
  run.count = u;
}

// Products of a register of columns with four k's of each row.
template <class D, class C, bool kWide, bool kTable, int kRows, int kSums>
__attribute__((always_inline)) inline void multiply_quad(typename D::I quad, typename D::I numbers,
                                                         const int32_t* x, int column, int which,
                                                         typename D::I (&sum)[kRows][2][kSums]) {
  const auto add = [&](auto weights) __attribute__((always_inline)) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r)
      sum[r][column][which % kSums] = D::dot(sum[r][column][which % kSums], weights, D::set1(x[r]));
  };
  if constexpr (kTable) {
    add(D::weights8(C::shuffle(numbers, quad)));
  } else if constexpr (kWide) {
    add(D::weights8(quad));
  } else {
    add(typename D::W4{quad});
  }
}

// The products of one unit.
template <class D, class C, int kBits, bool kTable, int kRows, int kSums>
__attribute__((always_inline)) inline void multiply_chunks(const std::byte* codes, int64_t first,
                                                           int64_t count, int64_t lane, typename D::I numbers,
                                                           const int32_t* x,
                                                           typename D::I (&sum)[kRows][2][kSums],
                                                           IntAhead& ahead) {
  const auto chunk = [&](const std::byte* four, int c) __attribute__((always_inline)) {
    // Four chunks are kBits times 128 bytes.
    for (int i = kBits * c / 4; i < kBits * (c + 1) / 4; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead.at), _MM_HINT_T1);
      ahead.at += ahead.stride;
    }
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      typename D::I quads[2];
      load_codes<C, kBits>(four, c, lane + h * D::kLanes, quads);
      multiply_quad<D, C, kBits == 8, kTable, kRows, kSums>(quads[0], numbers, x, h, 0, sum);
      multiply_quad<D, C, kBits == 8, kTable, kRows, kSums>(quads[1], numbers, x + kRows, h, 1, sum);
    }
    x += 2 * kRows;
  };
  const std::byte* four = codes + first / 4 * kChunksBytes<kBits>;
  int c = static_cast<int>(first % 4);
  // Which of four chunks one is decides how its codes are read: that is known for the usual units. With many
  // rows it matters little, and the code would be long.
  if constexpr (kRows <= D::kFewRows) {
    if (c == 0) {
      for (; count >= 4; count -= 4, four += kChunksBytes<kBits>) {
        chunk(four, 0);
        chunk(four, 1);
        chunk(four, 2);
        chunk(four, 3);
      }
      if (count == 2) {
        chunk(four, 0);
        chunk(four, 1);
        return;
      }
    } else if (c == 2 && count == 2) {
      chunk(four, 2);
      chunk(four, 3);
      return;
    }
  }
  for (; count > 0; --count) {
    chunk(four, c);
    if (++c == 4) {
      c = 0;
      four += kChunksBytes<kBits>;
    }
  }
}

// Columns lane .. lane + 2 kLanes of a panel.
template <class D, class C, int kBits, bool kTable, int kRows>
void multiply_coded(const CodedIntArgs& a, int64_t row, int64_t panel, int64_t lane, IntAhead ahead) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  // Few rows: two sums for each result, so that one product need not wait for the other.
  constexpr int kSums = kRows <= D::kFewRows ? 2 : 1;
  // What the numbers that are multiplied are too large by.
  const int32_t zero = a.zero + (kTable ? D::kInt8Zero : kBits == 8 ? D::kInt8Zero - 128 : 0);
  alignas(64) float acc[kRows][2][D::kLanes];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    V::narrow_store(acc[r][0], V::narrow_zero());
    V::narrow_store(acc[r][1], V::narrow_zero());
  }
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + row * a.in.depth);
  const float* x_scales = a.in.scales + row * a.in.num_units;
  const int32_t* x_sums = a.in.sums + row * a.in.num_units;
  const I numbers = kTable ? C::bytes_table(a.numbers) : D::zero();
  UnitPlace place = {static_cast<const std::byte*>(a.m.io.weights) + panel * a.m.panel_bytes, 0, 0};
  UnitRun<D> run;
  const bool shifted = a.m.minima || a.m.group_zeros;
  for (next_run<D, C>(a, place, lane, run); run.count > 0; next_run<D, C>(a, place, lane, run)) {
    for (int u = 0; u < run.count; ++u) {
      I sum[kRows][2][kSums];
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        sum[r][0][0] = sum[r][1][0] = D::set1(zero * x_sums[r]);
        if constexpr (kSums == 2) sum[r][0][1] = sum[r][1][1] = D::zero();
      }
      multiply_chunks<D, C, kBits, kTable, kRows, kSums>(run.codes[u], run.first_chunk[u], run.num_chunks[u],
                                                         lane, numbers, x, sum, ahead);
      x += run.num_chunks[u] * 2 * kRows;
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const N x_scale = V::narrow_set1(x_scales[r]);
        const N minus_sum = V::narrow_set1(shifted ? x_scales[r] * static_cast<float>(x_sums[r]) : 0.0F);
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          I whole = sum[r][h][0];
          if constexpr (kSums == 2) whole = D::add(whole, sum[r][h][1]);
          N value = V::narrow_fma(D::to_float(whole), D::mul(x_scale, V::narrow_load(run.scale[u][h])),
                                  V::narrow_load(acc[r][h]));
          if (shifted) value = V::narrow_fma(V::narrow_load(run.minimum[u][h]), minus_sum, value);
          V::narrow_store(acc[r][h], value);
        }
      }
      x_scales += kRows;
      x_sums += kRows;
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h)
      finish_columns<V>(a.m.io, row + r, panel * kPanel + lane + h * D::kLanes, V::narrow_load(acc[r][h]));
  }
}

template <class D, class C, int kBits, bool kTable, int kRows>
void coded_int_rows(const CodedIntArgs& a, int64_t row, int64_t rows, int64_t panel, IntAhead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return coded_int_rows<D, C, kBits, kTable, kRows - 1>(a, row, rows, panel, ahead);
  }
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes)
    multiply_coded<D, C, kBits, kTable, kRows>(a, row, panel, lane, ahead);
}

template <class D, class C, int kBits, bool kTable>
void linear_coded_int(const CodedIntArgs& a, const IntBlock& at, int64_t panel) {
  const auto* weights = static_cast<const std::byte*>(a.m.io.weights) + panel * a.m.panel_bytes;
  IntAhead ahead = int_ahead(weights, a.m.panel_bytes, at.index, at.count);
  // Blocks that have nothing to ask for ask for the same line again.
  if (ahead.at == nullptr) ahead = {reinterpret_cast<const uint8_t*>(weights), 0};
  coded_int_rows<D, C, kBits, kTable, D::kBlockRows>(a, at.row, at.rows, panel, ahead);
}

template <class D, class C>
void fill_coded_int(CpuKernels& t) {
  t.linear_coded_int[0][2] = linear_coded_int<D, C, 2, false>;
  t.linear_coded_int[0][3] = linear_coded_int<D, C, 3, false>;
  t.linear_coded_int[0][4] = linear_coded_int<D, C, 4, false>;
  t.linear_coded_int[0][5] = linear_coded_int<D, C, 5, false>;
  t.linear_coded_int[0][6] = linear_coded_int<D, C, 6, false>;
  t.linear_coded_int[0][8] = linear_coded_int<D, C, 8, false>;
  t.linear_coded_int[1][4] = linear_coded_int<D, C, 4, true>;
}
