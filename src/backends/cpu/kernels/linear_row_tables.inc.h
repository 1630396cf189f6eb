// out = x w^T over packed panels with a table of values per row of W, with float activations. Codes of 16
// elements along K are made contiguous for each column, whose table fits into one register; the values are
// looked up and transposed. All rows are multiplied by slices as in linear_quantized.inc.h, which is included
// before this file. A row of W is one group, with a scale of 1.

// Loads the tables of a panel, [32][16].
template <class V, int kBits>
void load_row_tables(const QuantizedMatrixArgs& a, const std::byte* panel, float* tables) {
  constexpr int64_t kEntries = 1 << kBits;
  const auto* halves = reinterpret_cast<const uint16_t*>(panel);
  for (int64_t j = 0; j < kPanel; ++j) {
    const int64_t at = j * kEntries;
    const auto* floats = reinterpret_cast<const float*>(panel) + at;
    V::store(tables + j * 16, a.scales == kQuantizedF16    ? V::load_f16_part(halves + at, kEntries)
                              : a.scales == kQuantizedBF16 ? V::load_bf16_part(halves + at, kEntries)
                                                           : V::load_part(floats, kEntries));
  }
}

// Unpacks the codes of elements [i, i + 16) along K of columns [lane, lane + 16) to one byte each; zeros from
// `end` on. Column j begins at D::codes_of_column(j).
template <class D, int kBits>
__attribute__((always_inline)) inline void unpack_columns(const std::byte* codes, int64_t i, int64_t end,
                                                          int64_t lane, uint8_t* out) {
  constexpr int kPeriod = kChunkPeriod<kBits>;
  const auto* four = codes + i / (8 * kPeriod) * kPeriod * 32 * kBits;
  const auto load = [&](int chunk, int64_t h, typename D::I(&quads)[2]) __attribute__((always_inline)) {
    // The position of a chunk in its period is a constant in each case.
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

// Decodes elements [begin, end) along K; begin is a multiple of 16.
template <class D, int kBits>
void decode_row_tables(const QuantizedMatrixArgs& a, int64_t panel, int64_t begin, int64_t end,
                       NumberSlice& to) {
  using V = typename D::V;
  const auto* first = static_cast<const std::byte*>(a.io.weights) + panel * a.panel_bytes;
  alignas(64) float tables[kPanel * 16];
  alignas(64) uint8_t codes[16 * 16];
  load_row_tables<V, kBits>(a, first, tables);
  for (int64_t j = 0; j < kPanel; ++j) to.scales[j] = 1.0F;
  for (int64_t i = begin; i < end; i += 16) {
    const int64_t depth = end - i < 16 ? end - i : 16;
    for (int64_t lane = 0; lane < kPanel; lane += 16) {
      unpack_columns<D, kBits>(first + a.whole.codes, i, a.k, lane, codes);
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
void linear_row_tables(const QuantizedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                       int64_t panel_end) {
  const auto decode = [&](int64_t p, int64_t begin, int64_t end, NumberSlice& to) {
    decode_row_tables<D, kBits>(a, p, begin, end, to);
  };
  multiply_all_slices<typename D::V>(a, row, row_end, panel, panel_end, decode);
}

template <class D>
void fill_row_tables(CpuKernels& t) {
  t.linear_quantized[kQuantizedRowTable][2] = linear_row_tables<D, 2>;
  t.linear_quantized[kQuantizedRowTable][3] = linear_row_tables<D, 3>;
  t.linear_quantized[kQuantizedRowTable][4] = linear_row_tables<D, 4>;
}
