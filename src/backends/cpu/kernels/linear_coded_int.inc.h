// out = x w^T over packed panels of codes (quant/coded_layout.h) as whole numbers, for few rows; many are in
// linear_coded_slices.inc.h. Activations are int8, or float32 in kDigits digits of int8, each of which is
// multiplied as if it were a row. Behind linear_coded.inc.h and linear_int.inc.h: codes are read as there,
// and blocks of rows by two registers of columns are multiplied as here. The products of a unit are summed as
// int32, which is exact in any order; how units are added is said at CodedIntUnits.

// How far ahead in a long header scales are asked for, in bytes.
constexpr int64_t kScalesAhead = 2048;
// Units of a panel whose scales are made at once.
constexpr int kRunUnits = 16;

// What some units that follow each other need, of two registers of columns.
template <class D>
struct UnitRun {
  alignas(64) float scale[kRunUnits][2][D::kLanes];
  alignas(64) float shift[kRunUnits][2][D::kLanes];  // CodedIntUnits
  // A unit's first eight k's are chunk `chunk` of the four that begin at `codes`.
  const std::byte* codes[kRunUnits];
  int32_t chunk[kRunUnits];
  int32_t num_chunks[kRunUnits];
  int32_t count;
};

// How far ahead of use memory is asked for, in bytes: a later place of the same kind.
struct CodedAhead {
  int64_t codes;
  int64_t header;
};

// Later blocks of k.
inline CodedAhead coded_ahead(const CodedIntArgs& a) {
  constexpr int64_t kLongest = 16384;
  const CodedMatrixArgs& m = a.m;
  const int64_t codes = (kIntPrefetchBytes + m.block_bytes - 1) / m.block_bytes * m.block_bytes;
  // Headers are read a run ahead.
  const int64_t header = (kRunUnits * a.in.unit + m.block - 1) / m.block * m.block_bytes + codes;
  return {codes <= kLongest ? codes : kIntPrefetchBytes, header};
}

// Where in a panel a run begins.
struct UnitPlace {
  const std::byte* block;
  int64_t chunks_bytes;     // kChunksBytes
  int64_t block_begin = 0;  // k
  int64_t in_block = 0;     // k's
  int64_t group = 0;        // of the block
  int64_t in_group = 0;     // k's
};

// What a group has besides the scale of its block.
constexpr int kTwoLevels = 1;
constexpr int kHasMinima = 2;
constexpr int kHasZeros = 4;
constexpr int kE4M3Scales = 8;  // the second level's

// Fills the run with at most `most` units and goes on behind it. Not inlined: kernels for any number of rows
// and any width of codes share it.
template <class D, class C, int kHas>
__attribute__((noinline)) void next_run(const CodedIntArgs& a, UnitPlace& place, int64_t lane, int64_t ahead,
                                        int most, UnitRun<D>& run) {
  using V = typename D::V;
  using N = typename V::Narrow;
  const CodedMatrixArgs& m = a.m;
  const int64_t longest = a.in.unit;
  const N step = V::narrow_set1(a.step);
  const bool has_step = a.step != 1.0F;
  if constexpr ((kHas & kTwoLevels) != 0) {
    const bool e4m3 = (kHas & kE4M3Scales) != 0;
    if (m.e4m3_group_scales != e4m3 || (e4m3 && (m.group_scale_table == nullptr || m.e8m0_group_scales)))
      __builtin_unreachable();
  }
  int u = 0;
  UnitPlace at = place;
  while (u < most && at.block_begin < m.k) {
    const bool last = m.k - at.block_begin <= m.block;
    const CodedHeader& header = last ? m.last : m.whole;
    const int64_t depth = last ? m.k - at.block_begin : m.block;
    const std::byte* codes = at.block + header.codes;
    // The header of a later block, or, where a block is a whole row, what follows in its own.
    const bool long_header = header.codes > kIntPrefetchBytes;
    for (int64_t l = 0; at.in_block == 0 && !long_header && l < header.codes; l += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at.block + ahead + l), _MM_HINT_T0);
    N scale[2];
    N minimum[2];
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      scale[h] = coded_scale<C>(m, at.block, lane + h * D::kLanes);
      if constexpr ((kHas & kHasMinima) != 0)
        minimum[h] = coded_scale<C>(m, at.block + header.minima, lane + h * D::kLanes);
    }
    for (; u < most && at.in_block < depth; ++u) {
      const int64_t unit = depth - at.in_block < longest ? depth - at.in_block : longest;
      const int64_t of_group = at.group * kPanel + lane;
      if constexpr ((kHas & kTwoLevels) != 0) {
        if (long_header)
          _mm_prefetch(
              reinterpret_cast<const char*>(at.block + header.group_scales + of_group + kScalesAhead),
              _MM_HINT_T0);
      }
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        const int64_t own = of_group + h * D::kLanes;
        N value = scale[h];
        if constexpr ((kHas & kTwoLevels) != 0)
          value = D::mul(value, group_scale<C>(m, at.block + header.group_scales + own));
        if (has_step) value = D::mul(value, step);
        V::narrow_store(run.scale[u][h], value);
        N shift = V::narrow_zero();
        if constexpr ((kHas & kHasMinima) != 0) {
          shift = minimum[h];
          if constexpr ((kHas & kTwoLevels) != 0)
            shift = D::mul(shift, C::load_u8(at.block + header.group_minima + own));
        }
        if constexpr ((kHas & kHasZeros) != 0)
          shift = V::narrow_fma(value, C::load_u8(at.block + header.group_zeros + own), shift);
        if constexpr ((kHas & (kHasMinima | kHasZeros)) != 0) V::narrow_store(run.shift[u][h], shift);
      }
      const int64_t chunk = at.in_block >> 3;
      run.codes[u] = codes + (chunk >> 2) * place.chunks_bytes;
      run.chunk[u] = static_cast<int32_t>(chunk & 3);
      run.num_chunks[u] = static_cast<int32_t>((unit + 7) >> 3);
      at.in_block += unit;
      at.in_group += unit;
      if (at.in_group >= m.group) {
        ++at.group;
        at.in_group = 0;
      }
    }
    if (at.in_block < depth) break;
    at = {at.block + m.block_bytes, at.chunks_bytes, at.block_begin + m.block};
  }
  run.count = u;
  place = at;
}

template <class D>
using NextRun = void (*)(const CodedIntArgs&, UnitPlace&, int64_t, int64_t, int, UnitRun<D>&);

template <class D, class C>
NextRun<D> next_run_of(const CodedMatrixArgs& m) {
  if (m.two_levels && m.e4m3_group_scales) {
    static constexpr NextRun<D> kE4M3[] = {next_run<D, C, 9>, next_run<D, C, 11>, next_run<D, C, 13>,
                                           next_run<D, C, 15>};
    return kE4M3[(m.minima ? 1 : 0) + (m.group_zeros ? 2 : 0)];
  }
  static constexpr NextRun<D> kRuns[] = {next_run<D, C, 0>, next_run<D, C, 1>, next_run<D, C, 2>,
                                         next_run<D, C, 3>, next_run<D, C, 4>, next_run<D, C, 5>,
                                         next_run<D, C, 6>, next_run<D, C, 7>};
  return kRuns[(m.two_levels ? kTwoLevels : 0) + (m.minima ? kHasMinima : 0) +
               (m.group_zeros ? kHasZeros : 0)];
}

// Products of two registers of columns with four k's of each row. An activation is read once for both.
template <class D, class C, bool kWide, bool kTable, int kRows, int kSums>
__attribute__((always_inline)) inline void multiply_quad(typename D::I first, typename D::I second,
                                                         typename D::I numbers, const int32_t* x, int which,
                                                         typename D::I (&sum)[kRows][2][kSums]) {
  const auto add = [&](auto low, auto high) __attribute__((always_inline)) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto v = D::set1(x[r]);
      sum[r][0][which % kSums] = D::dot(sum[r][0][which % kSums], low, v);
      sum[r][1][which % kSums] = D::dot(sum[r][1][which % kSums], high, v);
    }
  };
  if constexpr (kTable) {
    add(D::weights8(C::shuffle(numbers, first)), D::weights8(C::shuffle(numbers, second)));
  } else if constexpr (kWide) {
    add(D::weights8(first), D::weights8(second));
  } else {
    add(typename D::W4{first}, typename D::W4{second});
  }
}

// f(four, chunk) for `count` chunks from chunk `c` of `four` on. Which of four chunks one is decides how its
// codes are read: that is known for the usual units.
template <int kBits, class F>
__attribute__((always_inline)) inline void walk_chunks(const std::byte* four, int c, int count, F&& f) {
  if (c == 0) {
    for (; count >= 4; count -= 4, four += kChunksBytes<kBits>) {
      f(four, 0);
      f(four, 1);
      f(four, 2);
      f(four, 3);
    }
    if (count == 2) {
      f(four, 0);
      f(four, 1);
      return;
    }
  } else if (c == 2 && count == 2) {
    f(four, 2);
    f(four, 3);
    return;
  }
  for (; count > 0; --count) {
    f(four, c);
    if (++c == 4) {
      c = 0;
      four += kChunksBytes<kBits>;
    }
  }
}

// The products of one unit.
template <class D, class C, int kBits, bool kTable, int kRows, int kSums>
__attribute__((always_inline)) inline void multiply_chunks(const std::byte* four, int c, int count,
                                                           int64_t lane, typename D::I numbers,
                                                           const int32_t* x,
                                                           typename D::I (&sum)[kRows][2][kSums],
                                                           int64_t ahead) {
  const auto chunk = [&](const std::byte* from, int which) __attribute__((always_inline)) {
    constexpr int kBytes = 32 * kBits;
    for (int l = (kBytes * which + 63) / 64 * 64; l < kBytes * (which + 1); l += 64)
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead + l), _MM_HINT_T0);
    typename D::I quads[2][2];
    load_codes<C, kBits>(from, which, lane, quads[0]);
    load_codes<C, kBits>(from, which, lane + D::kLanes, quads[1]);
    QUIRE_UNROLL
    for (int q = 0; q < 2; ++q)
      multiply_quad<D, C, kBits == 8, kTable, kRows, kSums>(quads[0][q], quads[1][q], numbers, x + q * kRows,
                                                            q, sum);
    x += 2 * kRows;
  };
  walk_chunks<kBits>(four, c, count, chunk);
}

// What the sums of each digit stand for before their scale (join_digits in quant/activation_digits.h).
template <class D, int kDigits>
__attribute__((always_inline)) inline typename D::V::Narrow join(const typename D::I (&sums)[kDigits]) {
  auto value = D::to_float(sums[0]);
  QUIRE_UNROLL
  for (int d = 1; d < kDigits; ++d)
    value = D::V::narrow_fma(value, D::V::narrow_set1(kDigitBase), D::to_float(sums[d]));
  return value;
}

// Columns lane .. lane + 2 kLanes of a panel.
template <class D, class C, int kBits, bool kTable, int kDigits, int kRows>
void multiply_coded(const CodedIntArgs& a, int64_t row, int64_t panel, int64_t lane, CodedAhead ahead) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  constexpr int kLines = kRows * kDigits;
  // Few of them: two sums for each, so that one product need not wait for the other.
  constexpr int kSums = kLines <= D::kFewRows ? 2 : 1;
  alignas(64) float acc[kRows][2][D::kLanes];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    V::narrow_store(acc[r][0], V::narrow_zero());
    V::narrow_store(acc[r][1], V::narrow_zero());
  }
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + row * kDigits * a.in.depth);
  const float* x_scales = a.in.scales + row * a.in.num_units;
  const float* x_totals = a.in.totals + row * a.in.num_units;
  const int32_t* x_sums = a.in.sums + row * kDigits * a.in.num_units;
  const I numbers = kTable ? C::bytes_table(a.numbers) : D::zero();
  UnitPlace place = {static_cast<const std::byte*>(a.m.io.weights) + panel * a.m.panel_bytes,
                     kChunksBytes<kBits>};
  UnitRun<D> run;
  const bool shifted = a.m.minima || a.m.group_zeros;
  const NextRun<D> next = next_run_of<D, C>(a.m);
  const auto advance = [&] { next(a, place, lane, ahead.header, kRunUnits, run); };
  for (advance(); run.count > 0; advance()) {
    for (int u = 0; u < run.count; ++u) {
      I sum[kLines][2][kSums];
      QUIRE_UNROLL
      for (int r = 0; r < kLines; ++r) {
        sum[r][0][0] = sum[r][1][0] = D::set1(a.zero * x_sums[r]);
        if constexpr (kSums == 2) sum[r][0][1] = sum[r][1][1] = D::zero();
      }
      multiply_chunks<D, C, kBits, kTable, kLines, kSums>(run.codes[u], run.chunk[u], run.num_chunks[u], lane,
                                                          numbers, x, sum, ahead.codes);
      x += run.num_chunks[u] * 2 * kLines;
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const N x_scale = V::narrow_set1(x_scales[r]);
        const N total = V::narrow_set1(x_totals[r]);
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          I whole[kDigits];
          QUIRE_UNROLL
          for (int d = 0; d < kDigits; ++d) {
            whole[d] = sum[r * kDigits + d][h][0];
            if constexpr (kSums == 2) whole[d] = D::add(whole[d], sum[r * kDigits + d][h][1]);
          }
          N value = V::narrow_fma(join<D, kDigits>(whole), D::mul(x_scale, V::narrow_load(run.scale[u][h])),
                                  V::narrow_load(acc[r][h]));
          if (shifted) value = V::narrow_fma(V::narrow_load(run.shift[u][h]), total, value);
          V::narrow_store(acc[r][h], value);
        }
      }
      x_scales += kRows;
      x_totals += kRows;
      x_sums += kLines;
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r)
    finish_pair<V>(a.m.io, row + r, panel * kPanel + lane, V::narrow_load(acc[r][0]),
                   V::narrow_load(acc[r][1]));
}

template <class D, class C, int kBits, bool kTable, int kDigits, int kRows>
void coded_int_rows(const CodedIntArgs& a, int64_t row, int64_t rows, int64_t panel, CodedAhead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return coded_int_rows<D, C, kBits, kTable, kDigits, kRows - 1>(a, row, rows, panel, ahead);
  }
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes)
    multiply_coded<D, C, kBits, kTable, kDigits, kRows>(a, row, panel, lane, ahead);
}
