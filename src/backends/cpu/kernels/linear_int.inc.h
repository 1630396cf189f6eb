// out = x w^T over packed panels of whole numbers.
//
// A run is some rows of a block by two registers of columns. The products of a unit of k are summed as int32,
// which is exact in any order; then the sums, as float32 times the unit's scale, are added to the run's
// results. So a result does not depend on how rows are cut, nor on the instruction set. Sums and results stay
// in registers: stored and read back for each unit, results cost as much as a third of the products.

// How far ahead of use weights are asked for when one block passes over them, in bytes.
constexpr int64_t kIntPrefetchBytes = 6144;

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

// What a run asks memory for while it multiplies: a little with each line of codes and each group's header.
struct IntAhead {
  const uint8_t* at;  // null: nothing
  int64_t of_line;    // bytes
  int64_t of_header;

  void ask(int64_t bytes) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    at += bytes;
  }
};

// A run that alone passes over a panel asks for codes a little ahead of its own. Of several, all but the
// first find the panel in a cache, so the first block's meanwhile ask for the next panel, each for a part.
inline IntAhead int_ahead(const IntLinearArgs& a, int64_t panel, const IntBlock& block, int64_t run,
                          int64_t runs) {
  const auto* begin = reinterpret_cast<const uint8_t*>(a.weights + panel * a.panel_bytes);
  if (block.index > 0) return {nullptr, 0, 0};
  const int64_t from = runs == 1 && block.count == 1 ? kIntPrefetchBytes : a.panel_bytes;
  // The processor fetches the second line of each pair by itself.
  return {begin + from + run * (a.panel_bytes / runs), 128 / runs, a.header_bytes / runs};
}

// The products of one unit. codes: its first line, for these columns. x: a step's activations, the next
// step's `stride` behind them. Inlined, so that the sums stay in registers before and behind it.
template <class D, int kKind, int kRows, bool kAsks>
__attribute__((always_inline)) inline void multiply_unit(const uint8_t* codes, int64_t steps,
                                                         const int32_t* x, int64_t stride,
                                                         typename D::I (&sum)[kRows][2], IntAhead& ahead) {
  using I = typename D::I;
  constexpr int kNext = D::kLanes * 4;
  const auto ask = [&]() __attribute__((always_inline)) {
    if constexpr (kAsks) ahead.ask(ahead.of_line);
  };
  // Few rows: two sums for each result, so that one product need not wait for the other.
  constexpr bool kFew = kRows <= D::kFewRows;
  I odd[kRows][2];
  if constexpr (kFew) clear_sums<D, kRows>(odd);
  if constexpr (kIsInt8<kKind>) {
    if constexpr (kFew) {
      for (; steps >= 2; steps -= 2, codes += 256, x += 2 * stride) {
        ask();
        ask();
        multiply_step<D, kRows>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
        multiply_step<D, kRows>(D::weights8(codes + 128), D::weights8(codes + 128 + kNext), x + stride, odd);
      }
    }
    for (; steps > 0; --steps, codes += 128, x += stride) {
      ask();
      multiply_step<D, kRows>(D::weights8(codes), D::weights8(codes + kNext), x, sum);
    }
  } else {
    for (; steps > 0; --steps, codes += 128, x += 2 * stride) {
      ask();
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
template <class D, int kKind, int kRows, bool kAsks>
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
    if constexpr (kAsks) ahead.ask(ahead.of_header);
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

// Rows first .. first + rows of a block, at most kRows, by a panel.
template <class D, int kKind, int kRows>
void multiply_run(const IntLinearArgs& a, const IntBlock& at, int64_t first, int64_t rows, int64_t panel,
                  IntAhead ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_run<D, kKind, kRows - 1>(a, at, first, rows, panel, ahead);
  }
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
    // Runs of many blocks are large: rows are cut evenly.
    if constexpr (2 * kRows >= D::kIntRows) {
      if (ahead.at == nullptr) {
        multiply_int<D, kKind, kRows, false>(a, at, first, panel, lane, ahead);
        continue;
      }
    }
    multiply_int<D, kKind, kRows, true>(a, at, first, panel, lane, ahead);
  }
}

template <class D, int kKind>
void linear_int(const IntLinearArgs& a, const IntBlock& at, int64_t panel) {
  const int64_t runs = (at.rows + D::kIntRows - 1) / D::kIntRows;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t first = at.rows * i / runs;
    multiply_run<D, kKind, D::kIntRows>(a, at, first, at.rows * (i + 1) / runs - first, panel,
                                        int_ahead(a, panel, at, i, runs));
  }
}
