// out = x w^T over packed panels of codes whose rows of W have tables of their own, with float activations.
// Codes of 16 k's of 16 columns are put side by side for each column, whose table one register holds; what is
// looked up is transposed. All rows pass over slices of linear_coded.inc.h, which comes before this file: a
// row of W is one group, and its scale is 1.

// Entries of a panel's tables, [32][16].
template <class V, int kBits>
void load_row_tables(const CodedMatrixArgs& a, const std::byte* panel, float* tables) {
  constexpr int64_t kEntries = 1 << kBits;
  const auto* halves = reinterpret_cast<const uint16_t*>(panel);
  for (int64_t j = 0; j < kPanel; ++j) {
    const int64_t at = j * kEntries;
    const auto* floats = reinterpret_cast<const float*>(panel) + at;
    V::store(tables + j * 16, a.scales == kCodedF16    ? V::load_f16_part(halves + at, kEntries)
                              : a.scales == kCodedBF16 ? V::load_bf16_part(halves + at, kEntries)
                                                       : V::load_part(floats, kEntries));
  }
}

// The codes of k's [i, i + 16) of columns `lane` .. lane + 15, a byte each; zeros from `end` on. Column j's
// begin at D::codes_of_column(j).
template <class D, int kBits>
__attribute__((always_inline)) inline void spread_columns(const std::byte* codes, int64_t i, int64_t end,
                                                          int64_t lane, uint8_t* out) {
  constexpr int kPeriod = kChunkPeriod<kBits>;
  const auto* four = codes + i / (8 * kPeriod) * kPeriod * 32 * kBits;
  const auto load = [&](int chunk, int64_t h, typename D::I(&quads)[2]) __attribute__((always_inline)) {
    // Where a chunk lies among those of its period is known in each of these.
    if constexpr (kPeriod == 4) {
      if (i % 32 != 0) return load_codes<D, kBits>(four, chunk + 2, lane + h, quads);
    }
    load_codes<D, kBits>(kPeriod == 1 ? four + chunk * 32 * kBits : four, kPeriod == 1 ? 0 : chunk, lane + h,
                         quads);
  };
  QUIRE_UNROLL
  for (int64_t h = 0; h < 16; h += D::kLanes) {
    typename D::I first[2];
    typename D::I second[2] = {D::set1(0), D::set1(0)};
    load(0, h, first);
    if (i + 8 < end) load(1, h, second);
    D::store_columns(out + h * 16, first, second);
  }
}

// K's [begin, end), begin a multiple of 16.
template <class D, int kBits>
void decode_row_tables(const CodedMatrixArgs& a, int64_t panel, int64_t begin, int64_t end, NumberSlice& to) {
  using V = typename D::V;
  const auto* first = static_cast<const std::byte*>(a.io.weights) + panel * a.panel_bytes;
  alignas(64) float tables[kPanel * 16];
  alignas(64) uint8_t codes[16 * 16];
  load_row_tables<V, kBits>(a, first, tables);
  for (int64_t j = 0; j < kPanel; ++j) to.scales[j] = 1.0F;
  for (int64_t i = begin; i < end; i += 16) {
    const int64_t depth = end - i < 16 ? end - i : 16;
    for (int64_t lane = 0; lane < kPanel; lane += 16) {
      spread_columns<D, kBits>(first + a.whole.codes, i, a.k, lane, codes);
      typename V::F weights[16];
      QUIRE_UNROLL
      for (int j = 0; j < 16; ++j)
        weights[j] = D::lookup_bytes(tables + (lane + j) * 16, codes + D::codes_of_column(j));
      V::transpose(weights);
      float* at = to.numbers + (i - begin) * kPanel + lane;
      if (depth == 16) {
        QUIRE_UNROLL
        for (int t = 0; t < 16; ++t) V::store(at + t * kPanel, weights[t]);
      } else {
        for (int64_t t = 0; t < depth; ++t) V::store(at + t * kPanel, weights[t]);
      }
    }
  }
}

template <class D, int kBits>
void linear_row_tables(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                       int64_t panel_end) {
  const auto decode = [&](int64_t p, int64_t begin, int64_t end, NumberSlice& to) {
    decode_row_tables<D, kBits>(a, p, begin, end, to);
  };
  multiply_all_slices<typename D::V>(a, row, row_end, panel, panel_end, decode);
}

template <class D>
void fill_row_tables(CpuKernels& t) {
  t.linear_coded[kCodedRowTable][2] = linear_row_tables<D, 2>;
  t.linear_coded[kCodedRowTable][3] = linear_row_tables<D, 3>;
  t.linear_coded[kCodedRowTable][4] = linear_row_tables<D, 4>;
}
