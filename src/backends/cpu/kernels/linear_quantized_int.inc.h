// out = x w^T over packed panels of quantized weights (quant/quant_layout.h) as integers, for few rows;
// linear_quantized_int_tiled.inc.h has the kernels for many rows. Activations are int8, or float32 split into
// kSlices int8 slices; each slice is multiplied like a row. Included after linear_quantized.inc.h, which
// reads codes, and linear_int.inc.h, which multiplies blocks of rows by two registers of columns. The
// products of an exact-accumulation block are summed as int32, which is exact in any order; IntBlocking
// defines how these blocks are added.

// Prefetch distance, in bytes, for the scales in a long header.
constexpr int64_t kScalesAhead = 2048;
// Exact-accumulation blocks whose scales are computed at once.
constexpr int kRunUnits = 16;

// Scales and addresses of consecutive exact-accumulation blocks, for two registers of columns.
template <class D>
struct UnitRun {
  alignas(64) float scale[kRunUnits][2][D::kLanes];
  alignas(64) float shift[kRunUnits][2][D::kLanes];  // IntBlocking
  // The first eight elements of a block are chunk `chunk` of the four that begin at `codes`.
  const std::byte* codes[kRunUnits];
  int32_t chunk[kRunUnits];
  int32_t num_chunks[kRunUnits];
  int32_t count;
};

// Prefetch distances, in bytes, to a later location of the same kind.
struct QuantizedAhead {
  int64_t codes;
  int64_t header;
  bool into_l2;
};

// Distances to later blocks along K.
inline QuantizedAhead quantized_ahead(const QuantizedIntArgs& a) {
  constexpr int64_t kLongest = 16384;
  const QuantizedMatrixArgs& m = a.m;
  const int64_t distance = a.prefetch.bytes;
  const int64_t codes = (distance + m.block_bytes - 1) / m.block_bytes * m.block_bytes;
  // Headers are read one run ahead.
  const int64_t header = (kRunUnits * a.in.unit + m.block - 1) / m.block * m.block_bytes + codes;
  return {codes <= kLongest ? codes : distance, header, a.prefetch.into_l2};
}

// Position of a run in a panel.
struct UnitPlace {
  const std::byte* block;
  int64_t chunks_bytes;     // kChunksBytes
  int64_t block_begin = 0;  // element along K
  int64_t in_block = 0;     // elements along K
  int64_t group = 0;        // index in the block
  int64_t in_group = 0;     // elements along K
};

// Scales and offsets of a group in addition to the scale of its block.
constexpr int kTwoLevels = 1;
constexpr int kHasMinima = 2;
constexpr int kHasZeroPoints = 4;
constexpr int kScaleCodes = 8;   // the second-level scales are indices into a table
constexpr int kE4M3Scales = 16;  // the second-level scales are e4m3

// The second-level scales of a group.
template <class C, int kHas>
__attribute__((always_inline)) inline typename C::N run_group_scale(const QuantizedMatrixArgs& m,
                                                                    const std::byte* codes) {
  if constexpr ((kHas & kE4M3Scales) != 0) return e4m3_scale<C>(codes);
  if constexpr ((kHas & kScaleCodes) != 0) return group_scale<C>(m, codes);
  return C::load_i8(codes);
}

// Fills the run with at most `max_units` blocks of one exact-accumulation block each, up to the last block of
// the row, which may be shorter. Returns their number.
template <class D, class C, int kHas, QuantizedScales kScales>
int short_blocks(const QuantizedMatrixArgs& m, UnitPlace& place, int64_t lane, int64_t ahead,
                 typename D::V::Narrow step, int max_units, UnitRun<D>& run) {
  using V = typename D::V;
  const int64_t minima = m.whole.minima;
  const int64_t zero_points = m.whole.group_zero_points;
  const int64_t codes = m.whole.codes;
  const int64_t block_bytes = m.block_bytes;
  const int64_t depth = m.block;
  const int64_t end = m.k - depth;
  const auto chunks = static_cast<int32_t>((depth + 7) >> 3);
  const std::byte* block = place.block;
  int64_t begin = place.block_begin;
  int u = 0;
  for (; u < max_units && begin < end; ++u, begin += depth, block += block_bytes) {
    for (int64_t l = 0; l < codes; l += 64)
      _mm_prefetch(reinterpret_cast<const char*>(block + ahead + l), _MM_HINT_T0);
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int64_t own = lane + h * D::kLanes;
      const auto scale = D::mul(stored_scale<C, kScales>(block, own), step);
      V::narrow_store(run.scale[u][h], scale);
      if constexpr ((kHas & (kHasMinima | kHasZeroPoints)) != 0) {
        auto shift = V::narrow_zero();
        if constexpr ((kHas & kHasMinima) != 0) shift = stored_scale<C, kScales>(block + minima, own);
        if constexpr ((kHas & kHasZeroPoints) != 0)
          shift = V::narrow_fma(scale, C::load_u8(block + zero_points + own), shift);
        V::narrow_store(run.shift[u][h], shift);
      }
    }
    run.codes[u] = block + codes;
    run.chunk[u] = 0;
    run.num_chunks[u] = chunks;
  }
  place.block = block;
  place.block_begin = begin;
  return u;
}

template <class D, class C, int kHas>
int short_blocks_of(const QuantizedMatrixArgs& m, UnitPlace& place, int64_t lane, int64_t ahead,
                    typename D::V::Narrow step, int max_units, UnitRun<D>& run) {
  const auto fill = m.scales == kQuantizedF16    ? short_blocks<D, C, kHas, kQuantizedF16>
                    : m.scales == kQuantizedBF16 ? short_blocks<D, C, kHas, kQuantizedBF16>
                                                 : short_blocks<D, C, kHas, kQuantizedF32>;
  return fill(m, place, lane, ahead, step, max_units, run);
}

// Fills the run with at most `max_units` exact-accumulation blocks and advances the position. Not inlined:
// kernels for all numbers of rows and all code widths share it. Fields are copied first, because the compiler
// cannot know that storing scales does not change them.
template <class D, class C, int kHas>
__attribute__((noinline)) void next_run(const QuantizedIntArgs& a, UnitPlace& place, int64_t lane,
                                        int64_t ahead, int max_units, UnitRun<D>& run) {
  using V = typename D::V;
  using N = typename V::Narrow;
  constexpr bool kTwo = (kHas & kTwoLevels) != 0;
  const QuantizedMatrixArgs& m = a.m;
  const int64_t longest = a.in.unit;
  const int64_t group = m.group;
  const N step =
      V::narrow_set1(a.step);  // a power of two, so it can be multiplied before the scale of a group
  int u = 0;
  UnitPlace at = place;
  if constexpr (!kTwo) {
    if (m.block <= longest) u = short_blocks_of<D, C, kHas>(m, at, lane, ahead, step, max_units, run);
  }
  while (u < max_units && at.block_begin < m.k) {
    const bool last = m.k - at.block_begin <= m.block;
    const QuantizedHeader& header = last ? m.last : m.whole;
    const int64_t group_scales = header.group_scales;
    const int64_t group_minima = header.group_minima;
    const int64_t group_zero_points = header.group_zero_points;
    const int64_t depth = last ? m.k - at.block_begin : m.block;
    const std::byte* codes = at.block + header.codes;
    // Prefetches the header of a later block or, if a block is a full row, a later part of its own header.
    const bool long_header = header.codes > a.prefetch.bytes;
    for (int64_t l = 0; at.in_block == 0 && !long_header && l < header.codes; l += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at.block + ahead + l), _MM_HINT_T0);
    N scale[2];
    N minimum[2];
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      scale[h] = D::mul(quantized_scale<C>(m, at.block, lane + h * D::kLanes), step);
      if constexpr ((kHas & kHasMinima) != 0)
        minimum[h] = quantized_scale<C>(m, at.block + header.minima, lane + h * D::kLanes);
    }
    const std::byte* groups = at.block + at.group * kPanel + lane;
    for (; u < max_units && at.in_block < depth; ++u) {
      const int64_t unit = depth - at.in_block < longest ? depth - at.in_block : longest;
      if constexpr (kTwo) {
        if (long_header)
          _mm_prefetch(reinterpret_cast<const char*>(groups + group_scales + kScalesAhead), _MM_HINT_T0);
      }
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        const std::byte* own = groups + h * D::kLanes;
        N value = scale[h];
        if constexpr (kTwo) value = D::mul(value, run_group_scale<C, kHas>(m, own + group_scales));
        V::narrow_store(run.scale[u][h], value);
        N shift = V::narrow_zero();
        if constexpr ((kHas & kHasMinima) != 0) {
          shift = minimum[h];
          if constexpr (kTwo) shift = D::mul(shift, C::load_u8(own + group_minima));
        }
        if constexpr ((kHas & kHasZeroPoints) != 0)
          shift = V::narrow_fma(value, C::load_u8(own + group_zero_points), shift);
        if constexpr ((kHas & (kHasMinima | kHasZeroPoints)) != 0) V::narrow_store(run.shift[u][h], shift);
      }
      const int64_t chunk = at.in_block >> 3;
      run.codes[u] = codes + (chunk >> 2) * at.chunks_bytes;
      run.chunk[u] = static_cast<int32_t>(chunk & 3);
      run.num_chunks[u] = static_cast<int32_t>((unit + 7) >> 3);
      at.in_block += unit;
      at.in_group += unit;
      if (at.in_group >= group) {
        ++at.group;
        groups += kPanel;
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
using NextRun = void (*)(const QuantizedIntArgs&, UnitPlace&, int64_t, int64_t, int, UnitRun<D>&);

template <class D, class C, int kHas>
NextRun<D> next_run_with(const QuantizedMatrixArgs& m) {
  static constexpr NextRun<D> kRuns[] = {next_run<D, C, kHas>, next_run<D, C, kHas | kHasMinima>,
                                         next_run<D, C, kHas | kHasZeroPoints>,
                                         next_run<D, C, kHas | kHasMinima | kHasZeroPoints>};
  return kRuns[(m.minima ? 1 : 0) + (m.group_zero_points ? 2 : 0)];
}

template <class D, class C>
NextRun<D> next_run_of(const QuantizedMatrixArgs& m) {
  if (!m.two_levels) return next_run_with<D, C, 0>(m);
  if (m.e4m3_group_scales) return next_run_with<D, C, kTwoLevels | kScaleCodes | kE4M3Scales>(m);
  if (m.group_scale_table != nullptr) return next_run_with<D, C, kTwoLevels | kScaleCodes>(m);
  return next_run_with<D, C, kTwoLevels>(m);
}

// Products of two registers of columns with four elements along K of each row. An activation is loaded once
// for both.
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

// Calls f(four, chunk) for `count` chunks starting at chunk `c` of `four`. The position of a chunk among four
// determines how its codes are read; it is a constant for blocks of four chunks, and with kPairs for two.
template <int kBits, bool kPairs, class F>
__attribute__((always_inline)) inline void walk_chunks(const std::byte* four, int c, int count, F&& f) {
  if (c == 0) {
    for (; count >= 4; count -= 4, four += kChunksBytes<kBits>) {
      f(four, 0);
      f(four, 1);
      f(four, 2);
      f(four, 3);
    }
    if (kPairs && count == 2) {
      f(four, 0);
      f(four, 1);
      return;
    }
  } else if (kPairs && c == 2 && count == 2) {
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

// The products of one exact-accumulation block of several panels. four: of the first panel.
template <class D, class C, int kBits, bool kTable, int kRows, int kPanels, int kSums>
__attribute__((always_inline)) inline void multiply_chunks(const std::byte* four, int c, int count,
                                                           int64_t panel_bytes, int64_t lane,
                                                           typename D::I numbers, const int32_t* x,
                                                           typename D::I (&sum)[kPanels][kRows][2][kSums],
                                                           const QuantizedAhead& ahead) {
  const auto chunk = [&](const std::byte* from, int which) __attribute__((always_inline)) {
    constexpr int kBytes = 32 * kBits;
    typename D::I quads[kPanels][2][2];
    QUIRE_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* own = from + p * panel_bytes;
      for (int l = (kBytes * which + 63) / 64 * 64; l < kBytes * (which + 1); l += 64)
        prefetch_weights(own + ahead.codes + l, ahead.into_l2);
      load_codes<C, kBits>(own, which, lane, quads[p][0]);
      load_codes<C, kBits>(own, which, lane + D::kLanes, quads[p][1]);
    }
    QUIRE_UNROLL
    for (int q = 0; q < 2; ++q) {
      QUIRE_UNROLL
      for (int p = 0; p < kPanels; ++p)
        multiply_quad<D, C, kBits == 8, kTable, kRows, kSums>(quads[p][0][q], quads[p][1][q], numbers,
                                                              x + q * kRows, q, sum[p]);
    }
    x += 2 * kRows;
  };
  // With more rows, reading codes is a small fraction of the work, and the copies would take long to compile.
  constexpr bool kPairs = kRows <= 4;
  walk_chunks<kBits, kPairs>(four, c, count, chunk);
}

// Joins the sums of slices before scaling (join_slices in quant/activation_slices.h).
template <class D, int kSlices>
__attribute__((always_inline)) inline typename D::V::Narrow join(const typename D::I (&sums)[kSlices]) {
  auto value = D::to_float(sums[0]);
  QUIRE_UNROLL
  for (int d = 1; d < kSlices; ++d)
    value = D::V::narrow_fma(value, D::V::narrow_set1(kSliceBase), D::to_float(sums[d]));
  return value;
}

// Whether there are mins or zero points per group. For a single row, checking this at run time is measurable.
enum Shifts : int { kNoShift, kShift, kMayShift };

// Columns [lane, lane + 2 kLanes) of kPanels panels.
template <class D, class C, int kBits, bool kTable, int kSlices, int kRows, int kPanels, Shifts kShifts>
void multiply_quantized(const QuantizedIntArgs& a, int64_t row, int64_t panel, int64_t lane,
                        QuantizedAhead ahead) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  constexpr int kLines = kRows * kSlices;
  // With few rows, two sums per result, so that consecutive products do not wait for each other.
  constexpr int kSums = kLines * kPanels <= D::kFewRows ? 2 : 1;
  N acc[kPanels][kRows][2];
  UnitPlace place[kPanels];
  UnitRun<D> run[kPanels];
  QUIRE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) acc[p][r][0] = acc[p][r][1] = V::narrow_zero();
    place[p] = {static_cast<const std::byte*>(a.m.io.weights) + (panel + p) * a.m.panel_bytes,
                kChunksBytes<kBits>};
  }
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + row * kSlices * a.in.depth);
  const float* x_scales = a.in.scales + row * a.in.num_units;
  const float* x_totals = a.in.totals + row * a.in.num_units;
  const int32_t* x_sums = a.in.sums + row * kSlices * a.in.num_units;
  const I numbers = kTable ? C::bytes_table(a.numbers) : D::zero();
  const bool shifted = kShifts == kMayShift ? a.m.minima || a.m.group_zero_points : kShifts == kShift;
  const NextRun<D> next = next_run_of<D, C>(a.m);
  const auto advance = [&] {
    for (int p = 0; p < kPanels; ++p) next(a, place[p], lane, ahead.header, kRunUnits, run[p]);
    return run[0].count > 0;
  };
  while (advance()) {
    for (int u = 0; u < run[0].count; ++u) {
      I sum[kPanels][kLines][2][kSums];
      QUIRE_UNROLL
      for (int r = 0; r < kLines; ++r) {
        const I first = D::set1(kShifts == kNoShift ? x_sums[r] : a.zero_point * x_sums[r]);
        QUIRE_UNROLL
        for (int p = 0; p < kPanels; ++p) {
          sum[p][r][0][0] = sum[p][r][1][0] = first;
          if constexpr (kSums == 2) sum[p][r][0][1] = sum[p][r][1][1] = D::zero();
        }
      }
      multiply_chunks<D, C, kBits, kTable, kLines, kPanels, kSums>(run[0].codes[u], run[0].chunk[u],
                                                                   run[0].num_chunks[u], a.m.panel_bytes,
                                                                   lane, numbers, x, sum, ahead);
      x += run[0].num_chunks[u] * 2 * kLines;
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const N x_scale = V::narrow_set1(x_scales[r]);
        const N total = V::narrow_set1(x_totals[r]);
        QUIRE_UNROLL
        for (int at = 0; at < 2 * kPanels; ++at) {
          const int p = at / 2;
          const int h = at % 2;
          I whole[kSlices];
          QUIRE_UNROLL
          for (int d = 0; d < kSlices; ++d) {
            whole[d] = sum[p][r * kSlices + d][h][0];
            if constexpr (kSums == 2) whole[d] = D::add(whole[d], sum[p][r * kSlices + d][h][1]);
          }
          const N scale = D::mul(x_scale, V::narrow_load(run[p].scale[u][h]));
          N value = V::narrow_fma(join<D, kSlices>(whole), scale, acc[p][r][h]);
          if (shifted) value = V::narrow_fma(V::narrow_load(run[p].shift[u][h]), total, value);
          acc[p][r][h] = value;
        }
      }
      x_scales += kRows;
      x_totals += kRows;
      x_sums += kLines;
    }
  }
  QUIRE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r)
      finish_pair<V>(a.m.io, row + r, (panel + p) * kPanel + lane, acc[p][r][0], acc[p][r][1]);
  }
}

template <class D, class C, int kBits, bool kTable, int kSlices, int kRows>
void quantized_int_rows(const QuantizedIntArgs& a, int64_t row, int64_t rows, int64_t panel,
                        int64_t panel_end, QuantizedAhead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return quantized_int_rows<D, C, kBits, kTable, kSlices, kRows - 1>(a, row, rows, panel, panel_end,
                                                                         ahead);
  }
  const bool shifted = a.m.minima || a.m.group_zero_points;
  if constexpr (kRows == 1 && 2 * D::kLanes == kPanel) {
    // Two panels are multiplied by an activation that is loaded once. Only if a panel is one header followed
    // by codes: short blocks have a longer prefetch distance, and two panels at a time would load more
    // slowly.
    const bool two = a.m.block >= a.m.k && !shifted;
    for (; two && panel + 2 <= panel_end; panel += 2)
      multiply_quantized<D, C, kBits, kTable, kSlices, kRows, 2, kNoShift>(a, row, panel, 0, ahead);
  }
  for (; panel < panel_end; ++panel) {
    for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
      if constexpr (kRows > 1) {
        multiply_quantized<D, C, kBits, kTable, kSlices, kRows, 1, kMayShift>(a, row, panel, lane, ahead);
      } else if (shifted) {
        multiply_quantized<D, C, kBits, kTable, kSlices, kRows, 1, kShift>(a, row, panel, lane, ahead);
      } else {
        multiply_quantized<D, C, kBits, kTable, kSlices, kRows, 1, kNoShift>(a, row, panel, lane, ahead);
      }
    }
  }
}
