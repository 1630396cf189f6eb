// out = x w^T over packed panels of integer weights.
//
// A run is some rows of a block and two registers of columns. The products of an exact-accumulation block are
// summed as int32, which is exact in any order. The sums, converted to float32 and multiplied by the scales
// of the block, are then added to the results of the run. So a result depends neither on how rows are divided
// nor on the instruction set. Sums and results stay in registers: storing and reloading results after every
// block would cost up to a third of the time of the products.

// Prefetches a line of weights. Always inlined: GCC considers a function that only prefetches to have no
// effect and removes its calls.
__attribute__((always_inline)) inline void prefetch_weights(const void* line, bool into_l2) {
  if (into_l2) {
    _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T1);
  } else {
    _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T0);
  }
}

template <int kKind>
constexpr bool kIsInt8 = kKind == kInt8Rows || kKind == kInt8Groups;
// Elements along K per line of weights.
template <int kKind>
constexpr int kIntStep = kIsInt8<kKind> ? 4 : 8;

template <class D, int kRows>
void clear_sums(typename D::I (&sum)[kRows][2]) {
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = D::zero();
}

// One step along K: kRows rows by two registers of columns. x: [rows].
template <class D, int kRows, class W>
void multiply_step(W w0, W w1, const int32_t* x, typename D::I (&sum)[kRows][2]) {
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const auto v = D::set1(x[r]);
    sum[r][0] = D::dot(sum[r][0], w0, v);
    sum[r][1] = D::dot(sum[r][1], w1, v);
  }
}

// Memory that a run prefetches while it multiplies. If it is the only one that reads a panel, it prefetches
// weights of the same panel, a little ahead. If there are several, all but the first find the panel in a
// cache, so the runs of the first block prefetch the next panel, a part each.
enum IntPrefetch : int { kPrefetchNothing, kPrefetchOwn, kPrefetchNext };

// kPrefetchNext: bytes prefetched per line of weights and per group header. Nothing else is a member: a
// larger struct costs the products of many rows up to a third of their time (GCC 12).
struct IntAhead {
  const uint8_t* at;
  int64_t of_line;  // in bytes
  int64_t of_header;

  void prefetch(int64_t bytes) {
    // The adjacent-line prefetcher fetches the second line of a pair if the memory system is otherwise idle.
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    at += bytes;
  }
};

inline IntAhead int_ahead(const IntLinearArgs& a, int64_t panel, int64_t run, int64_t runs) {
  // a.next is an int4 panel. a.panel_bytes is the size of a panel after conversion to int8, twice as large.
  if (a.next != nullptr)
    return {reinterpret_cast<const uint8_t*>(a.next) + run * (a.panel_bytes / 2 / runs), 64 / runs, 0};
  const auto* next = reinterpret_cast<const uint8_t*>(a.weights + (panel + 1) * a.panel_bytes);
  return {next + run * (a.panel_bytes / runs), 128 / runs, a.header_bytes / runs};
}

// kPrefetchOwn: prefetches each line.
__attribute__((always_inline)) inline void prefetch_own(const void* begin, int64_t bytes,
                                                        const WeightPrefetch& prefetch) {
  for (int64_t i = 0; i < bytes; i += 64)
    prefetch_weights(static_cast<const char*>(begin) + prefetch.bytes + i, prefetch.into_l2);
}

template <IntPrefetch kPrefetch>
__attribute__((always_inline)) inline void prefetch_header(const IntLinearArgs& a, const std::byte* group,
                                                           IntAhead& ahead) {
  if constexpr (kPrefetch == kPrefetchOwn) prefetch_own(group, a.header_bytes, a.prefetch);
  if constexpr (kPrefetch == kPrefetchNext) ahead.prefetch(ahead.of_header);
}

// The products of one exact-accumulation block. codes: its first line, for these columns. x: activations of a
// step; those of the next step are at x + stride. Inlined, so that the sums stay in registers.
template <class D, int kKind, int kRows, IntPrefetch kPrefetch>
__attribute__((always_inline)) inline void multiply_unit(const uint8_t* codes, int64_t steps,
                                                         const int32_t* x, int64_t stride,
                                                         typename D::I (&sum)[kRows][2],
                                                         const WeightPrefetch& own, IntAhead& ahead) {
  using I = typename D::I;
  constexpr int kNext = D::kLanes * 4;
  const auto prefetch_line = [&](const uint8_t* line) __attribute__((always_inline)) {
    if constexpr (kPrefetch == kPrefetchOwn) prefetch_own(line, 2 * kNext, own);
    if constexpr (kPrefetch == kPrefetchNext) ahead.prefetch(ahead.of_line);
  };
  // With few rows, two sums per result, so that consecutive products do not wait for each other.
  constexpr bool kFew = kRows <= D::kFewRows;
  I odd[kRows][2];
  if constexpr (kFew) clear_sums<D, kRows>(odd);
  if constexpr (kIsInt8<kKind>) {
    if constexpr (kFew) {
      for (; steps >= 2; steps -= 2, codes += 256, x += 2 * stride) {
        prefetch_line(codes);
        prefetch_line(codes + 128);
        multiply_step<D, kRows>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
        multiply_step<D, kRows>(D::weights8(codes + 128), D::weights8(codes + 128 + kNext), x + stride, odd);
      }
    }
    for (; steps > 0; --steps, codes += 128, x += stride) {
      prefetch_line(codes);
      multiply_step<D, kRows>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
    }
  } else {
    for (; steps > 0; --steps, codes += 128, x += 2 * stride) {
      prefetch_line(codes);
      typename D::W4 low[2];
      typename D::W4 high[2];
      D::weights4(codes, &low[0], &high[0]);
      D::weights4(codes + kNext, &low[1], &high[1]);
      multiply_step<D, kRows>(low[0], low[1], x, sum);
      if constexpr (kFew) {
        multiply_step<D, kRows>(high[0], high[1], x + stride, odd);
      } else {
        multiply_step<D, kRows>(high[0], high[1], x + stride, sum);
      }
    }
  }
  if constexpr (kFew) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[r][0] = D::add(sum[r][0], odd[r][0]);
      sum[r][1] = D::add(sum[r][1], odd[r][1]);
    }
  }
}

// Scales of two registers of columns. header: of the group, at these columns.
template <class D, int kKind>
void load_scales(const std::byte* header, int64_t lane, typename D::V::Narrow (&scales)[2]) {
  using V = typename D::V;
  QUIRE_UNROLL
  for (int h = 0; h < 2; ++h) {
    if constexpr (kKind == kInt8Rows) {
      scales[h] = V::narrow_load(reinterpret_cast<const float*>(header) + lane + h * D::kLanes);
    } else {
      scales[h] = V::narrow_load_f16(reinterpret_cast<const uint16_t*>(header) + lane + h * D::kLanes);
    }
  }
}

// Rows [first, first + kRows) of a block and columns [lane, lane + 2 kLanes) of a panel.
template <class D, int kKind, int kRows, IntPrefetch kPrefetch>
void multiply_int(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t panel, int64_t lane,
                  IntAhead ahead) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  constexpr int kStep = kIntStep<kKind>;
  N acc[kRows][2];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = V::narrow_zero();
  const std::byte* group = a.weights + panel * a.panel_bytes;
  const WeightPrefetch own = a.prefetch;
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + at.row * a.in.depth) + first;
  const float* x_scales = a.in.scales + at.row * a.in.num_units + first;
  const int32_t* x_sums = a.in.sums + at.row * a.in.num_units + first;
  for (int64_t left = a.in.k; left > 0;) {
    prefetch_header<kPrefetch>(a, group, ahead);
    I zero_points[2];
    if constexpr (kKind == kInt4ZeroPoints) {
      zero_points[0] = D::load_u8(reinterpret_cast<const uint8_t*>(group) + 64 + lane);
      zero_points[1] = D::load_u8(reinterpret_cast<const uint8_t*>(group) + 64 + lane + D::kLanes);
    }
    const auto* codes = reinterpret_cast<const uint8_t*>(group + a.header_bytes) + 4 * lane;
    for (int64_t in_group = left < a.group ? left : a.group; in_group > 0;) {
      const int64_t depth = in_group < a.in.unit ? in_group : a.in.unit;
      const int64_t steps = (depth + kStep - 1) / kStep;
      I sum[kRows][2];
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const I begin = D::set1(x_sums[r]);
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          if constexpr (kKind == kInt4ZeroPoints) {
            sum[r][h] = D::mul16(zero_points[h], begin);
          } else {
            sum[r][h] = begin;
          }
        }
      }
      multiply_unit<D, kKind, kRows, kPrefetch>(codes, steps, x, at.rows, sum, own, ahead);
      // Loaded for each exact-accumulation block: products need all but two or three of the registers.
      N scales[2];
      if constexpr (kKind != kInt8Rows) load_scales<D, kKind>(group, lane, scales);
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const N unit_scale = V::narrow_set1(x_scales[r]);
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          const N factor = kKind == kInt8Rows ? unit_scale : D::mul(unit_scale, scales[h]);
          acc[r][h] = V::narrow_fma(D::to_float(sum[r][h]), factor, acc[r][h]);
        }
      }
      codes += steps * 128;
      x += steps * (kStep / 4) * at.rows;
      x_scales += at.rows;
      x_sums += at.rows;
      in_group -= depth;
      left -= depth;
    }
    group += a.group_bytes;
  }
  N scales[2];
  if constexpr (kKind == kInt8Rows) load_scales<D, kKind>(a.weights + panel * a.panel_bytes, lane, scales);
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      if constexpr (kKind == kInt8Rows) acc[r][h] = D::mul(acc[r][h], scales[h]);
    }
    finish_pair<V>(a, at.row + first + r, panel * kPanel + lane, acc[r][0], acc[r][1]);
  }
}

// Same, for int4 weights with second-level scales. The sum of the elements that share a second-level scale,
// multiplied by it, is an integer below 2^24, so it is exact in float32, too. Results stay in memory, which
// is accessed once per group.
template <class D, int kRows, IntPrefetch kPrefetch>
void multiply_two_level(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t panel,
                        int64_t lane, IntAhead ahead) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  alignas(64) float acc[kRows][2][D::kLanes] = {};
  const std::byte* group = a.weights + panel * a.panel_bytes;
  const WeightPrefetch own = a.prefetch;
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + at.row * a.in.depth) + first;
  const float* x_scales = a.in.scales + at.row * a.in.num_units + first;
  const int32_t* x_sums = a.in.sums + at.row * a.in.num_units + first;
  for (int64_t left = a.in.k; left > 0; left -= a.group, group += a.group_bytes) {
    prefetch_header<kPrefetch>(a, group, ahead);
    const auto* second_level_scales = reinterpret_cast<const uint8_t*>(group + a.second_level_at) + lane;
    const auto* codes = reinterpret_cast<const uint8_t*>(group + a.header_bytes) + 4 * lane;
    const float* unit_scales = x_scales;  // the same for the whole group
    N whole[kRows][2];
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) whole[r][0] = whole[r][1] = V::narrow_zero();
    for (int64_t in_group = left < a.group ? left : a.group; in_group > 0; in_group -= a.in.unit) {
      const int64_t steps = ((in_group < a.in.unit ? in_group : a.in.unit) + 7) / 8;
      I sum[kRows][2];
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = D::set1(x_sums[r]);
      multiply_unit<D, kInt4, kRows, kPrefetch>(codes, steps, x, at.rows, sum, own, ahead);
      const N factor[2] = {D::to_float(D::load_i8(second_level_scales)),
                           D::to_float(D::load_i8(second_level_scales + D::kLanes))};
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h)
          whole[r][h] = V::narrow_fma(D::to_float(sum[r][h]), factor[h], whole[r][h]);
      }
      second_level_scales += kPanel;
      codes += steps * 128;
      x += steps * 2 * at.rows;
      x_scales += at.rows;
      x_sums += at.rows;
    }
    N scales[2];
    load_scales<D, kInt4TwoLevel>(group, lane, scales);
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const N unit_scale = V::narrow_set1(unit_scales[r]);
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h)
        V::narrow_store(acc[r][h],
                        V::narrow_fma(whole[r][h], D::mul(unit_scale, scales[h]), V::narrow_load(acc[r][h])));
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r)
    finish_pair<V>(a, at.row + first + r, panel * kPanel + lane, V::narrow_load(acc[r][0]),
                   V::narrow_load(acc[r][1]));
}

template <class D, int kKind, int kRows, IntPrefetch kPrefetch>
void multiply_columns(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t panel, int64_t lane,
                      IntAhead ahead) {
  if constexpr (kKind == kInt4TwoLevel) {
    multiply_two_level<D, kRows, kPrefetch>(a, at, first, panel, lane, ahead);
  } else {
    multiply_int<D, kKind, kRows, kPrefetch>(a, at, first, panel, lane, ahead);
  }
}

// Rows [first, first + rows) of a block, at most kRows, and a panel.
template <class D, int kKind, int kRows>
void multiply_run(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t rows, int64_t panel,
                  IntPrefetch prefetch, IntAhead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_run<D, kKind, kRows - 1>(a, at, first, rows, panel, prefetch, ahead);
  }
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
    // Runs of many blocks are large, because rows are divided evenly.
    if constexpr (2 * kRows >= D::kIntRows) {
      if (prefetch == kPrefetchNothing) {
        multiply_columns<D, kKind, kRows, kPrefetchNothing>(a, at, first, panel, lane, ahead);
        continue;
      }
    }
    if (prefetch == kPrefetchOwn) {
      multiply_columns<D, kKind, kRows, kPrefetchOwn>(a, at, first, panel, lane, ahead);
    } else {
      multiply_columns<D, kKind, kRows, kPrefetchNext>(a, at, first, panel, lane, ahead);
    }
  }
}

template <class D, int kKind>
void linear_int(const IntLinearArgs& a, const IntBlock& at, int64_t panel) {
  const int64_t runs = (at.rows + D::kIntRows - 1) / D::kIntRows;
  const IntPrefetch prefetch = at.index > 0                 ? kPrefetchNothing
                               : runs == 1 && at.count == 1 ? kPrefetchOwn
                                                            : kPrefetchNext;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t first = at.rows * i / runs;
    // Computed only if needed: its divisions take as long as several products.
    const IntAhead ahead = prefetch == kPrefetchNext ? int_ahead(a, panel, i, runs) : IntAhead{};
    multiply_run<D, kKind, D::kIntRows>(a, at, first, at.rows * (i + 1) / runs - first, panel, prefetch,
                                        ahead);
  }
}
