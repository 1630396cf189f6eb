// out = x w^T over panels that hold two of four weights (quant/two_of_four.h). Zeros are not put back: for
// each column of the product those two of four activations are picked that meet its weights, so that a four
// takes half of the multiplications. Each output has one accumulator, to which they are added one by one from
// first to last. P: how activations are picked; S: how a four is read and multiplied. Behind linear.inc.h.

// Blocks of a panel that stay in the first-level cache while many rows pass over them.
constexpr int64_t kBlockSlice = 16;

// acc: [kRows][2][lanes]. weights: a panel's first block; column: the unit's first one in it.
template <class P, class S, int kRows>
void multiply_two_of_four(const std::byte* weights, int64_t column, const typename S::X* const* x,
                          int64_t blocks, float* acc, bool first) {
  using V = typename P::V;
  constexpr int kLanes = V::kNarrowLanes;
  constexpr int64_t kFourBytes = TwoOfFour::four_bytes(S::kSize);
  typename V::Narrow sum[kRows][2];
  const typename S::X* in[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    in[r] = x[r];
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h)
      sum[r][h] = first ? V::narrow_zero() : V::narrow_load(acc + (2 * r + h) * kLanes);
  }
  const auto ask = [&](int64_t bytes) {
    QUIRE_UNROLL
    for (int64_t line = 0; line < bytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(weights) + kStreamAhead + line, _MM_HINT_T0);
  };
  int64_t i = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    typename P::Places places[2];
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h)
      places[h] = P::load_places(reinterpret_cast<const uint32_t*>(weights) + column + h * kLanes);
    ask(TwoOfFour::kCodeBytes);
    weights += TwoOfFour::kCodeBytes;
    for (int64_t f = 0; f < TwoOfFour::kFours; ++f, weights += kFourBytes, i += S::kFour) {
      ask(kFourBytes);
      if constexpr (P::kBothHalves) {
        const S low(places[0], weights, column);
        const S high(places[1], weights, column + kLanes);
        QUIRE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const auto four = S::four(in[r] + i);
          sum[r][0] = low.multiply(four, sum[r][0]);
          sum[r][1] = high.multiply(four, sum[r][1]);
        }
      } else {
        QUIRE_UNROLL
        for (int h = 0; h < 2; ++h) {
          const S kept(places[h], weights, column + h * kLanes);
          QUIRE_UNROLL
          for (int r = 0; r < kRows; ++r) sum[r][h] = kept.multiply(S::four(in[r] + i), sum[r][h]);
        }
      }
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) places[h] = P::template skip<4>(places[h]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < 2; ++h) V::narrow_store(acc + (2 * r + h) * kLanes, sum[r][h]);
  }
}

template <class P, class S, int kRows = P::kRows>
void multiply_two_of_four_rows(int64_t rows, const std::byte* weights, int64_t column,
                               const typename S::X* const* x, int64_t blocks, float* acc, bool first) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return multiply_two_of_four_rows<P, S, kRows - 1>(rows, weights, column, x, blocks, acc, first);
  }
  multiply_two_of_four<P, S, kRows>(weights, column, x, blocks, acc, first);
}

// At most kRowChunk rows of one unit. Rows that fit one block pass over it as one long stream.
template <class P, class S>
void multiply_two_of_four_unit(const LinearArgs& args, int64_t row_begin, int64_t rows, int64_t unit) {
  using V = typename P::V;
  using X = typename S::X;
  alignas(64) float acc[kRowChunk * kUnitColumns<V>];
  const int64_t panel = unit / kUnitsPerPanel<V>;
  const int64_t column = unit % kUnitsPerPanel<V> * kUnitColumns<V>;
  const auto* weights =
      static_cast<const std::byte*>(args.weights) + panel * TwoOfFour::panel_bytes(S::kSize, args.k);
  // Blocks of rows of nearly one size.
  const int64_t groups = (rows + P::kRows - 1) / P::kRows;
  const int64_t all = args.k / TwoOfFour::kBlock;
  const int64_t slice = groups == 1 ? all : kBlockSlice;
  for (int64_t block = 0; block < all; block += slice) {
    const int64_t blocks = all - block < slice ? all - block : slice;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = rows * g / groups;
      const int64_t last = rows * (g + 1) / groups;
      const X* x[P::kRows];
      for (int64_t r = first; r < last; ++r)
        x[r - first] = static_cast<const X*>(args.x) + (row_begin + r) * args.x_stride +
                       block * TwoOfFour::kFours * S::kFour;
      multiply_two_of_four_rows<P, S>(last - first, weights + block * TwoOfFour::block_bytes(S::kSize),
                                      column, x, blocks, acc + first * kUnitColumns<V>, block == 0);
    }
  }
  finish_units<V>(args, row_begin, rows, unit, 1, acc);
}

template <class P, class S>
void linear_two_of_four(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
                        int64_t panel_end) {
  constexpr int64_t kUnits = kUnitsPerPanel<typename P::V>;
  for (int64_t row = row_begin; row < row_end; row += kRowChunk) {
    const int64_t rows = row_end - row < kRowChunk ? row_end - row : kRowChunk;
    for (int64_t unit = panel_begin * kUnits; unit < panel_end * kUnits; ++unit)
      multiply_two_of_four_unit<P, S>(args, row, rows, unit);
  }
}

// Float32 activations with a register of columns of a four whose weights are stored as Stored says.
template <class P, class Stored>
class PickedFloats {
 public:
  using V = typename P::V;
  using T = typename Stored::T;
  using X = float;
  static constexpr int kFour = 4;  // activations
  static constexpr int64_t kSize = sizeof(T);

  PickedFloats(typename P::Places places, const std::byte* weights, int64_t column) : places_(places) {
    const T* at = reinterpret_cast<const T*>(weights) + column * Stored::kDepth;
    second_ = Stored::template weights<V>(at, 0);
    first_ = Stored::template weights<V>(Stored::kDepth > 1 ? at : at + kPanel, Stored::kDepth - 1);
  }
  static typename V::Narrow four(const X* x) { return P::four(x); }
  typename V::Narrow multiply(typename V::Narrow four, typename V::Narrow sum) const {
    sum = V::narrow_fma(P::pick(four, places_), first_, sum);
    return V::narrow_fma(P::pick(four, P::template skip<2>(places_)), second_, sum);
  }

 private:
  typename P::Places places_;
  typename V::Narrow first_;
  typename V::Narrow second_;
};

template <class P>
void fill_two_of_four(CpuKernels& t) {
  t.linear_two_of_four[kStorageF32] = linear_two_of_four<P, PickedFloats<P, StoredF32>>;
  t.linear_two_of_four[kStorageBF16] = linear_two_of_four<P, PickedFloats<P, StoredBF16>>;
  t.linear_two_of_four[kStorageF16] = linear_two_of_four<P, PickedFloats<P, StoredF16>>;
}
