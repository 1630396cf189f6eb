// out = x w^T over panels of 2:4 sparse weights (quant/sparse_24.h). Zeros are not restored: for each column,
// the activations that correspond to its nonzero weights are gathered, which halves the multiplications.
// Each output has one accumulator, to which terms are added from first to last. P gathers activations; S
// reads and multiplies a group of four. Included after linear.inc.h.

// Blocks of a panel that stay in L1 while many rows iterate over them.
constexpr int64_t kBlockSlice = 16;

// acc: [kRows][2][lanes]. weights: first block of a panel; column: first column of the unit in it.
template <class P, class S, int kRows>
void multiply_sparse_24(const std::byte* weights, int64_t column, const typename S::X* const* x,
                        int64_t blocks, float* acc, bool first) {
  using V = typename P::V;
  constexpr int kLanes = V::kNarrowLanes;
  constexpr int64_t kFourBytes = Sparse24::quad_bytes(S::kSize);
  typename V::Narrow sum[kRows][2];
  const typename S::X* in[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    in[r] = x[r];
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h)
      sum[r][h] = first ? V::narrow_zero() : V::narrow_load(acc + (2 * r + h) * kLanes);
  }
  const auto prefetch = [&](int64_t bytes) {
    QUIRE_UNROLL
    for (int64_t line = 0; line < bytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(weights) + kStreamAhead + line, _MM_HINT_T0);
  };
  int64_t i = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    typename P::Indices indices[2];
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h)
      indices[h] = P::load_indices(reinterpret_cast<const uint32_t*>(weights) + column + h * kLanes);
    prefetch(Sparse24::kCodeBytes);
    weights += Sparse24::kCodeBytes;
    for (int64_t f = 0; f < Sparse24::kQuads; ++f, weights += kFourBytes, i += S::kFour) {
      prefetch(kFourBytes);
      if constexpr (P::kBothHalves) {
        const S low(indices[0], weights, column);
        const S high(indices[1], weights, column + kLanes);
        QUIRE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const auto four = S::four(in[r] + i);
          sum[r][0] = low.multiply(four, sum[r][0]);
          sum[r][1] = high.multiply(four, sum[r][1]);
        }
      } else {
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          const S kept(indices[h], weights, column + h * kLanes);
          QUIRE_UNROLL
          for (int r = 0; r < kRows; ++r) sum[r][h] = kept.multiply(S::four(in[r] + i), sum[r][h]);
        }
      }
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) indices[h] = P::template skip<4>(indices[h]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) V::narrow_store(acc + (2 * r + h) * kLanes, sum[r][h]);
  }
}

template <class P, class S, int kRows = P::kRows>
void multiply_sparse_24_rows(int64_t rows, const std::byte* weights, int64_t column,
                             const typename S::X* const* x, int64_t blocks, float* acc, bool first) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return multiply_sparse_24_rows<P, S, kRows - 1>(rows, weights, column, x, blocks, acc, first);
  }
  multiply_sparse_24<P, S, kRows>(weights, column, x, blocks, acc, first);
}

// At most kRowChunk rows of one unit. Rows that fit into one block read it as one long stream.
template <class P, class S>
void multiply_sparse_24_unit(const LinearArgs& args, int64_t row_begin, int64_t rows, int64_t unit) {
  using V = typename P::V;
  using X = typename S::X;
  alignas(64) float acc[kRowChunk * kUnitColumns<V>];
  const int64_t panel = unit / kUnitsPerPanel<V>;
  const int64_t column = unit % kUnitsPerPanel<V> * kUnitColumns<V>;
  const auto* weights =
      static_cast<const std::byte*>(args.weights) + panel * Sparse24::panel_bytes(S::kSize, args.k);
  // Blocks of rows have nearly equal size.
  const int64_t groups = (rows + P::kRows - 1) / P::kRows;
  const int64_t all = args.k / Sparse24::kBlock;
  const int64_t slice = groups == 1 ? all : kBlockSlice;
  for (int64_t block = 0; block < all; block += slice) {
    const int64_t blocks = all - block < slice ? all - block : slice;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = rows * g / groups;
      const int64_t last = rows * (g + 1) / groups;
      const X* x[P::kRows];
      for (int64_t r = first; r < last; ++r)
        x[r - first] = static_cast<const X*>(args.x) + (row_begin + r) * args.x_stride +
                       block * Sparse24::kQuads * S::kFour;
      multiply_sparse_24_rows<P, S>(last - first, weights + block * Sparse24::block_bytes(S::kSize), column,
                                    x, blocks, acc + first * kUnitColumns<V>, block == 0);
    }
  }
  finish_units<V>(args, row_begin, rows, unit, 1, acc);
}

template <class P, class S>
void linear_sparse_24(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
                      int64_t panel_end) {
  constexpr int64_t kUnits = kUnitsPerPanel<typename P::V>;
  for (int64_t row = row_begin; row < row_end; row += kRowChunk) {
    const int64_t rows = row_end - row < kRowChunk ? row_end - row : kRowChunk;
    for (int64_t unit = panel_begin * kUnits; unit < panel_end * kUnits; ++unit)
      multiply_sparse_24_unit<P, S>(args, row, rows, unit);
  }
}

// Multiplies float32 activations by a register of columns of a group of four; Stored is the format of the
// weights.
template <class P, class Stored>
class GatheredFloats {
 public:
  using V = typename P::V;
  using T = typename Stored::T;
  using X = float;
  static constexpr int kFour = 4;  // activations per group
  static constexpr int64_t kSize = sizeof(T);

  GatheredFloats(typename P::Indices indices, const std::byte* weights, int64_t column) : indices_(indices) {
    const T* at = reinterpret_cast<const T*>(weights) + column * Stored::kDepth;
    second_ = Stored::template weights<V>(at, 0);
    first_ = Stored::template weights<V>(Stored::kDepth > 1 ? at : at + kPanel, Stored::kDepth - 1);
  }
  static typename V::Narrow four(const X* x) { return P::four(x); }
  typename V::Narrow multiply(typename V::Narrow four, typename V::Narrow sum) const {
    sum = V::narrow_fma(P::pick(four, indices_), first_, sum);
    return V::narrow_fma(P::pick(four, P::template skip<2>(indices_)), second_, sum);
  }

 private:
  typename P::Indices indices_;
  typename V::Narrow first_;
  typename V::Narrow second_;
};

template <class P>
void fill_sparse_24(CpuKernels& t) {
  t.linear_sparse_24[kStorageF32] = linear_sparse_24<P, GatheredFloats<P, StoredF32>>;
  t.linear_sparse_24[kStorageBF16] = linear_sparse_24<P, GatheredFloats<P, StoredBF16>>;
  t.linear_sparse_24[kStorageF16] = linear_sparse_24<P, GatheredFloats<P, StoredF16>>;
}
