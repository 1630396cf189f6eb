// The two products of a low-rank change: rows with A, and the results with B.

// Distance of prefetching in A and B, which are read from first to last byte.
constexpr int64_t kLowRankAhead = 2048;

template <class T>
void prefetch_ahead(const T* p, int64_t elements) {
  const auto* bytes = reinterpret_cast<const char*>(p) + kLowRankAhead;
  for (int64_t b = 0; b < elements * static_cast<int64_t>(sizeof(T)); b += 64)
    _mm_prefetch(bytes + b, _MM_HINT_T0);
}

// h[r, rank] for a block of rows.
template <class V, class S, int kRows>
void shrink_block(const LowRankShrinkArgs& args, int64_t row, int64_t rank) {
  using F = typename V::F;
  const float* x[kRows];
  F sum[kRows][4];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    x[r] = args.x + args.rows[row + r] * args.x_stride;
    QUIRE_UNROLL
    for (int part = 0; part < 4; ++part) sum[r][part] = V::zero();
  }
  const auto* a = static_cast<const typename S::T*>(args.a) + rank * args.k;
  int64_t i = 0;
  for (; i + 64 <= args.k; i += 64) {
    prefetch_ahead(a + i, 64);
    QUIRE_UNROLL
    for (int part = 0; part < 4; ++part) {
      const F w = S::template load<V>(a + i + 16 * part);
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r][part] = V::fma(w, V::load(x[r] + i + 16 * part), sum[r][part]);
    }
  }
  QUIRE_UNROLL
  for (int part = 0; part < 4; ++part) {
    const int64_t at = i + 16 * part;
    const int64_t n = args.k - at < 16 ? args.k - at : 16;
    if (n <= 0) break;
    const F w = n == 16 ? S::template load<V>(a + at) : S::template load_part<V>(a + at, n);
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r][part] = V::fma(w, load_up_to_16<V>(x[r] + at, n), sum[r][part]);
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    args.h[(row + r) * args.h_stride + rank] =
        V::reduce_add(V::add(V::add(sum[r][0], sum[r][1]), V::add(sum[r][2], sum[r][3])));
  }
}

template <class V, class S, int kRows>
void shrink_rows(const LowRankShrinkArgs& args, int64_t row) {
  for (int64_t rank = 0; rank < args.ranks; ++rank) shrink_block<V, S, kRows>(args, row, rank);
}

template <class V, class S>
void low_rank_shrink(const LowRankShrinkArgs& args) {
  int64_t row = 0;
  if constexpr (V::kMaxAccumulators >= 24) {
    for (; row + 6 <= args.num_rows; row += 6) shrink_rows<V, S, 6>(args, row);
    for (; row + 2 <= args.num_rows; row += 2) shrink_rows<V, S, 2>(args, row);
  }
  for (; row < args.num_rows; ++row) shrink_rows<V, S, 1>(args, row);
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
    prefetch_ahead(b, 16 * kColumns);
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
