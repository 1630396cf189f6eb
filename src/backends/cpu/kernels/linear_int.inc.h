// out = x w^T over packed panels of whole numbers.
//
// A run is some rows of a block by two registers of columns. The products of a unit of k are summed as int32,
// which is exact in any order; then the sums, as float32 times the unit's scale, are added to the run's
// results. So a result does not depend on how rows are cut, nor on the instruction set. Sums and results stay
// in registers: stored and read back for each unit, results cost as much as a third of the products.

// How far ahead of use weights are asked for where one run passes over them, in bytes.
constexpr int64_t kIntPrefetchBytes = 12288;

template <int kKind>
constexpr bool kIsInt8 = kKind == kInt8Rows || kKind == kInt8Groups;
// k's in a line of codes.
template <int kKind>
constexpr int kIntStep = kIsInt8<kKind> ? 4 : 8;

template <class D, int kRows>
void clear_sums(typename D::I (&sum)[kRows][2]) {
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = D::zero();
}

// One step of k: kRows rows by two registers of columns. x: [rows].
template <class D, int kRows, class W>
void multiply_step(W w0, W w1, const int32_t* x, typename D::I (&sum)[kRows][2]) {
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const auto v = D::set1(x[r]);
    sum[r][0] = D::dot(sum[r][0], w0, v);
    sum[r][1] = D::dot(sum[r][1], w1, v);
  }
}

// What a run asks memory for while it multiplies. One that alone passes over a panel asks for codes a little
// ahead of its own. Of several, all but the first find the panel in a cache, so the first block's meanwhile
// ask for the next panel, each for a part.
enum IntAsks : int { kAskNothing, kAskOwn, kAskNext };

// kAskNext: a little with each line of codes and each group's header.
struct IntAhead {
  const uint8_t* at;
  int64_t of_line;  // bytes
  int64_t of_header;

  void ask(int64_t bytes) {
    // The processor fetches the second line of a pair by itself, if it has nothing else to do.
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    at += bytes;
  }
};

inline IntAhead int_ahead(const IntLinearArgs& a, int64_t panel, int64_t run, int64_t runs) {
  // Of codes that were spread, which take twice the bytes.
  if (a.next != nullptr)
    return {reinterpret_cast<const uint8_t*>(a.next) + run * (a.panel_bytes / 2 / runs), 64 / runs, 0};
  const auto* next = reinterpret_cast<const uint8_t*>(a.weights + (panel + 1) * a.panel_bytes);
  return {next + run * (a.panel_bytes / runs), 128 / runs, a.header_bytes / runs};
}

// kAskOwn: into the nearest cache, each line by itself. Inlined at once: GCC takes a function that does
// nothing else for one without effects and drops its calls.
__attribute__((always_inline)) inline void ask_own(const void* begin, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64)
    _mm_prefetch(static_cast<const char*>(begin) + kIntPrefetchBytes + i, _MM_HINT_T0);
}

template <IntAsks kAsks>
__attribute__((always_inline)) inline void ask_with_header(const IntLinearArgs& a, const std::byte* group,
                                                           IntAhead& ahead) {
  if constexpr (kAsks == kAskOwn) ask_own(group, a.header_bytes);
  if constexpr (kAsks == kAskNext) ahead.ask(ahead.of_header);
}

// The products of one unit. codes: its first line, for these columns. x: a step's activations, the next
// step's `stride` behind them. Inlined, so that the sums stay in registers before and behind it.
template <class D, int kKind, int kRows, IntAsks kAsks>
__attribute__((always_inline)) inline void multiply_unit(const uint8_t* codes, int64_t steps,
                                                         const int32_t* x, int64_t stride,
                                                         typename D::I (&sum)[kRows][2], IntAhead& ahead) {
  using I = typename D::I;
  constexpr int kNext = D::kLanes * 4;
  const auto ask = [&](const uint8_t* line) __attribute__((always_inline)) {
    if constexpr (kAsks == kAskOwn) ask_own(line, 2 * kNext);
    if constexpr (kAsks == kAskNext) ahead.ask(ahead.of_line);
  };
  // Few rows: two sums for each result, so that one product need not wait for the other.
  constexpr bool kFew = kRows <= D::kFewRows;
  I odd[kRows][2];
  if constexpr (kFew) clear_sums<D, kRows>(odd);
  if constexpr (kIsInt8<kKind>) {
    if constexpr (kFew) {
      for (; steps >= 2; steps -= 2, codes += 256, x += 2 * stride) {
        ask(codes);
        ask(codes + 128);
        multiply_step<D, kRows>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
        multiply_step<D, kRows>(D::weights8(codes + 128), D::weights8(codes + 128 + kNext), x + stride, odd);
      }
    }
    for (; steps > 0; --steps, codes += 128, x += stride) {
      ask(codes);
      multiply_step<D, kRows>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
    }
  } else {
    for (; steps > 0; --steps, codes += 128, x += 2 * stride) {
      ask(codes);
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

// Scales of two registers of columns. header: the group's, at these columns.
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

// Rows first .. first + kRows of a block by the columns lane .. lane + 2 kLanes of a panel.
template <class D, int kKind, int kRows, IntAsks kAsks>
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
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + at.row * a.in.depth) + first;
  const float* x_scales = a.in.scales + at.row * a.in.num_units + first;
  const int32_t* x_sums = a.in.sums + at.row * a.in.num_units + first;
  for (int64_t left = a.in.k; left > 0;) {
    ask_with_header<kAsks>(a, group, ahead);
    I zeros[2];
    if constexpr (kKind == kInt4Zeros) {
      zeros[0] = D::load_u8(reinterpret_cast<const uint8_t*>(group) + 64 + lane);
      zeros[1] = D::load_u8(reinterpret_cast<const uint8_t*>(group) + 64 + lane + D::kLanes);
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
          if constexpr (kKind == kInt4Zeros) {
            sum[r][h] = D::mul16(zeros[h], begin);
          } else {
            sum[r][h] = begin;
          }
        }
      }
      multiply_unit<D, kKind, kRows, kAsks>(codes, steps, x, at.rows, sum, ahead);
      // Read for each unit: products need all registers but two or three.
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

// The same with 4-bit codes whose groups have factors. Sums of the k's that share one, times it, are whole
// numbers below 2^24: in float32 they are exact too. Results stay in memory, where they are met once a group.
template <class D, int kRows, IntAsks kAsks>
void multiply_factors(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t panel, int64_t lane,
                      IntAhead ahead) {
  using V = typename D::V;
  using I = typename D::I;
  using N = typename V::Narrow;
  alignas(64) float acc[kRows][2][D::kLanes] = {};
  const std::byte* group = a.weights + panel * a.panel_bytes;
  const auto* x = reinterpret_cast<const int32_t*>(a.in.codes + at.row * a.in.depth) + first;
  const float* x_scales = a.in.scales + at.row * a.in.num_units + first;
  const int32_t* x_sums = a.in.sums + at.row * a.in.num_units + first;
  for (int64_t left = a.in.k; left > 0; left -= a.group, group += a.group_bytes) {
    ask_with_header<kAsks>(a, group, ahead);
    const auto* factors = reinterpret_cast<const uint8_t*>(group + a.factors_at) + lane;
    const auto* codes = reinterpret_cast<const uint8_t*>(group + a.header_bytes) + 4 * lane;
    const float* unit_scales = x_scales;  // all of a group are the same
    N whole[kRows][2];
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) whole[r][0] = whole[r][1] = V::narrow_zero();
    for (int64_t in_group = left < a.group ? left : a.group; in_group > 0; in_group -= a.in.unit) {
      const int64_t steps = ((in_group < a.in.unit ? in_group : a.in.unit) + 7) / 8;
      I sum[kRows][2];
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = D::set1(x_sums[r]);
      multiply_unit<D, kInt4, kRows, kAsks>(codes, steps, x, at.rows, sum, ahead);
      const N factor[2] = {D::to_float(D::load_i8(factors)), D::to_float(D::load_i8(factors + D::kLanes))};
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h)
          whole[r][h] = V::narrow_fma(D::to_float(sum[r][h]), factor[h], whole[r][h]);
      }
      factors += kPanel;
      codes += steps * 128;
      x += steps * 2 * at.rows;
      x_scales += at.rows;
      x_sums += at.rows;
    }
    N scales[2];
    load_scales<D, kInt4Factors>(group, lane, scales);
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

template <class D, int kKind, int kRows, IntAsks kAsks>
void multiply_columns(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t panel, int64_t lane,
                      IntAhead ahead) {
  if constexpr (kKind == kInt4Factors) {
    multiply_factors<D, kRows, kAsks>(a, at, first, panel, lane, ahead);
  } else {
    multiply_int<D, kKind, kRows, kAsks>(a, at, first, panel, lane, ahead);
  }
}

// Rows first .. first + rows of a block, at most kRows, by a panel.
template <class D, int kKind, int kRows>
void multiply_run(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t rows, int64_t panel,
                  IntAsks asks, IntAhead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_run<D, kKind, kRows - 1>(a, at, first, rows, panel, asks, ahead);
  }
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
    // Runs of many blocks are large: rows are cut evenly.
    if constexpr (2 * kRows >= D::kIntRows) {
      if (asks == kAskNothing) {
        multiply_columns<D, kKind, kRows, kAskNothing>(a, at, first, panel, lane, ahead);
        continue;
      }
    }
    if (asks == kAskOwn) {
      multiply_columns<D, kKind, kRows, kAskOwn>(a, at, first, panel, lane, ahead);
    } else {
      multiply_columns<D, kKind, kRows, kAskNext>(a, at, first, panel, lane, ahead);
    }
  }
}

template <class D, int kKind>
void linear_int(const IntLinearArgs& a, const IntBlock& at, int64_t panel) {
  const int64_t runs = (at.rows + D::kIntRows - 1) / D::kIntRows;
  const IntAsks asks = at.index > 0 ? kAskNothing : runs == 1 && at.count == 1 ? kAskOwn : kAskNext;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t first = at.rows * i / runs;
    // Its divisions take as long as some products.
    const IntAhead ahead = asks == kAskNext ? int_ahead(a, panel, i, runs) : IntAhead{};
    multiply_run<D, kKind, D::kIntRows>(a, at, first, at.rows * (i + 1) / runs - first, panel, asks, ahead);
  }
}
