// The two products of a low-rank change: rows with A, and the results with B.

// h[r, j] for a block of rows and of rows of A.
template <class V, class S, int kRows, int kRanks>
void shrink_block(const LowRankShrinkArgs& args, int64_t row, int64_t rank) {
  using F = typename V::F;
  const float* x[kRows];
  const typename S::T* a[kRanks];
  F sum[kRows][kRanks][2];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    x[r] = args.x + args.rows[row + r] * args.x_stride;
    QUIRE_UNROLL
    for (int j = 0; j < kRanks; ++j) sum[r][j][0] = sum[r][j][1] = V::zero();
  }
  QUIRE_UNROLL
  for (int j = 0; j < kRanks; ++j) a[j] = static_cast<const typename S::T*>(args.a) + (rank + j) * args.k;
  const auto step = [&](int part, auto load_a, auto load_x) __attribute__((always_inline)) {
    F w[kRanks];
    QUIRE_UNROLL
    for (int j = 0; j < kRanks; ++j) w[j] = load_a(a[j]);
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F v = load_x(x[r]);
      QUIRE_UNROLL
      for (int j = 0; j < kRanks; ++j) sum[r][j][part] = V::fma(w[j], v, sum[r][j][part]);
    }
  };
  int64_t i = 0;
  for (; i + 32 <= args.k; i += 32) {
    QUIRE_UNROLL
    for (int part = 0; part < 2; ++part) {
      const int64_t at = i + 16 * part;
      step(
          part, [at](const typename S::T* p) { return S::template load<V>(p + at); },
          [at](const float* p) { return V::load(p + at); });
    }
  }
  for (int part = 0; i < args.k; i += 16, ++part) {
    const int64_t n = args.k - i < 16 ? args.k - i : 16;
    step(
        part, [i, n](const typename S::T* p) { return S::template load_part<V>(p + i, n); },
        [i, n](const float* p) { return V::load_part(p + i, n); });
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int j = 0; j < kRanks; ++j)
      args.h[(row + r) * args.h_stride + rank + j] = V::reduce_add(V::add(sum[r][j][0], sum[r][j][1]));
  }
}

template <class V, class S, int kRows, int kRanks>
void shrink_rows(const LowRankShrinkArgs& args, int64_t row) {
  int64_t rank = 0;
  for (; rank + kRanks <= args.ranks; rank += kRanks) shrink_block<V, S, kRows, kRanks>(args, row, rank);
  for (; rank < args.ranks; ++rank) shrink_block<V, S, kRows, 1>(args, row, rank);
}

template <class V, class S>
void low_rank_shrink(const LowRankShrinkArgs& args) {
  constexpr bool kMany = V::kMaxAccumulators >= 16;
  int64_t row = 0;
  if constexpr (kMany) {
    for (; row + 4 <= args.num_rows; row += 4) shrink_rows<V, S, 4, 2>(args, row);
  }
  for (; row < args.num_rows; ++row) shrink_rows<V, S, 1, kMany ? 4 : 2>(args, row);
}

// Columns [column, column + 16 * kColumns) of a block of rows; n: columns of the last register.
template <class V, class S, int kRows, int kColumns>
void expand_block(const LowRankExpandArgs& args, int64_t row, int64_t column, int64_t n) {
  using F = typename V::F;
  F sum[kRows][kColumns];
  const float* h[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    h[r] = args.h + (row + r) * args.h_stride;
    QUIRE_UNROLL
    for (int c = 0; c < kColumns; ++c) sum[r][c] = V::zero();
  }
  const auto* b = static_cast<const typename S::T*>(args.b) + column;
  for (int64_t j = 0; j < args.rank; ++j, b += args.width) {
    F w[kColumns];
    QUIRE_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      w[c] = c + 1 < kColumns || n == 16 ? S::template load<V>(b + 16 * c)
                                         : S::template load_part<V>(b + 16 * c, n);
    }
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const F v = V::set1(h[r][j]);
      QUIRE_UNROLL
      for (int c = 0; c < kColumns; ++c) sum[r][c] = V::fma(v, w[c], sum[r][c]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* out = args.out + args.rows[row + r] * args.out_stride + column;
    QUIRE_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const int64_t lanes = c + 1 < kColumns ? 16 : n;
      store_up_to_16<V>(out + 16 * c, V::add(load_up_to_16<V>(out + 16 * c, lanes), sum[r][c]), lanes);
    }
  }
}

template <class V, class S, int kRows>
void expand_rows(const LowRankExpandArgs& args, int64_t row) {
  if (args.width == 64) return expand_block<V, S, kRows, 4>(args, row, 0, 16);
  for (int64_t column = 0; column < args.width; column += 16) {
    const int64_t left = args.width - column;
    expand_block<V, S, kRows, 1>(args, row, column, left < 16 ? left : 16);
  }
}

template <class V, class S>
void low_rank_expand(const LowRankExpandArgs& args) {
  int64_t row = 0;
  if constexpr (V::kMaxAccumulators >= 16) {
    for (; row + 4 <= args.num_rows; row += 4) expand_rows<V, S, 4>(args, row);
  }
  for (; row < args.num_rows; ++row) expand_rows<V, S, 1>(args, row);
}

template <class V>
void fill_low_rank(CpuKernels& t) {
  t.low_rank_shrink[kStorageF32] = low_rank_shrink<V, StoredF32>;
  t.low_rank_shrink[kStorageBF16] = low_rank_shrink<V, StoredBF16>;
  t.low_rank_shrink[kStorageF16] = low_rank_shrink<V, StoredF16>;
  t.low_rank_expand[kStorageF32] = low_rank_expand<V, StoredF32>;
  t.low_rank_expand[kStorageBF16] = low_rank_expand<V, StoredBF16>;
  t.low_rank_expand[kStorageF16] = low_rank_expand<V, StoredF16>;
}
