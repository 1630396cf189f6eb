// out = x w^T over packed panels of quantized values other than integers (quant/quant_layout.h), with float
// activations. Codes are converted to the values that they represent. Products of a group are added from
// first to last, and their sum times the scale of the group is added to the output, so its value does not
// depend on how rows are divided into blocks.
//
// With few rows, values are decoded in registers. With many rows, slices of decoded values that stay in L1
// are multiplied by all rows, with the blocks of linear.inc.h.

// Prefetch distance, in bytes, for few rows.
constexpr int64_t kQuantizedPrefetchBytes = 4096;
// Elements along K per slice.
constexpr int64_t kQuantizedSlice = 128;

template <class D, QuantizedScales kScales>
__attribute__((always_inline)) inline typename D::N stored_scale(const std::byte* scales, int64_t lane) {
  const auto* halves = reinterpret_cast<const uint16_t*>(scales) + lane;
  if constexpr (kScales == kQuantizedF16) return D::V::narrow_load_f16(halves);
  if constexpr (kScales == kQuantizedBF16) return D::load_bf16(halves);
  return D::V::narrow_load(reinterpret_cast<const float*>(scales) + lane);
}

template <class D>
__attribute__((always_inline)) inline typename D::N quantized_scale(const QuantizedMatrixArgs& a,
                                                                    const std::byte* scales, int64_t lane) {
  if (a.scales == kQuantizedF16) return stored_scale<D, kQuantizedF16>(scales, lane);
  if (a.scales == kQuantizedBF16) return stored_scale<D, kQuantizedBF16>(scales, lane);
  return stored_scale<D, kQuantizedF32>(scales, lane);
}

// Panel, relative to the first, and column in that panel of register h, where register 0 starts at column
// `lane`. Registers that do not fit into one panel continue in the next.
template <class D>
constexpr int64_t panel_of(int64_t lane, int h) {
  return (lane + h * D::kLanes) / kPanel;
}
template <class D>
constexpr int64_t column_of(int64_t lane, int h) {
  return (lane + h * D::kLanes) % kPanel;
}

// Converts e4m3 codes in the highest 8 bits of [lanes] of 32 bits to their values divided by 2^120, by moving
// exponent and mantissa to their place in a float32. Exact, also for denormal numbers; multiply by
// D::rebias() to get the values.
template <class D>
typename D::N small_e4m3(typename D::I high) {
  return D::as_float(D::both(D::template right_signed<4>(high), D::set1(static_cast<int32_t>(0x87f00000U))));
}

template <class D>
__attribute__((always_inline)) inline typename D::N e4m3_scale(const std::byte* code) {
  const auto high = D::template left<24>(D::widen_u8(code));
  return D::mul(small_e4m3<D>(high), D::V::narrow_set1(0x1p120F));
}

// Second-level scales of the lanes starting at `code`.
template <class D>
__attribute__((always_inline)) inline typename D::N group_scale(const QuantizedMatrixArgs& a,
                                                                const std::byte* code) {
  if (a.group_scale_table == nullptr) return D::load_i8(code);
  // Code 0 is 2^-127, a denormal number.
  if (a.e8m0_group_scales)
    return D::as_float(D::larger(D::template left<23>(D::widen_u8(code)), D::set1(1 << 22)));
  if (a.e4m3_group_scales) return e4m3_scale<D>(code);
  return D::gather_u8(a.group_scale_table, code);
}

// The scale of group `g` of the block at `first`, whose header has the offsets `at`.
template <class D>
__attribute__((always_inline)) inline typename D::N scale_of_group(const QuantizedMatrixArgs& a,
                                                                   const QuantizedHeader& at,
                                                                   const std::byte* first, int64_t g,
                                                                   int64_t column) {
  const auto scale = quantized_scale<D>(a, first, column);
  if (!a.two_levels) return scale;
  return D::mul(scale, group_scale<D>(a, first + at.group_scales + g * kPanel + column));
}

// Shifts left (count > 0) or right by a few bits. The count is a constant after inlining.
template <class D>
__attribute__((always_inline)) inline typename D::I moved(typename D::I v, int count) {
  switch (count) {
    case 4:
      return D::template left<4>(v);
    case 3:
      return D::template left<3>(v);
    case 2:
      return D::template left<2>(v);
    case 1:
      return D::template left<1>(v);
    case 0:
      return v;
    case -1:
      return D::template right<1>(v);
    case -2:
      return D::template right<2>(v);
    case -3:
      return D::template right<3>(v);
    case -4:
      return D::template right<4>(v);
    case -5:
      return D::template right<5>(v);
    default:
      return D::template right<6>(v);
  }
}

// Packed bytes of 32 elements along K of a panel: four chunks of eight elements each.
template <int kBits>
constexpr int64_t kChunksBytes = 128 * kBits;
// Number of chunks after which the position of the bits repeats.
template <int kBits>
constexpr int kChunkPeriod = kBits == 2 || kBits == 6   ? 2
                             : kBits == 3 || kBits == 5 ? 4
                                                        : 1;

// Bits of the wider of the two planes that codes of this many bits are stored in.
constexpr int low_bits(int bits) {
  if (bits == 3) return 2;
  return bits > 4 && bits < 8 ? 4 : bits;
}

// Loads eight elements along K of a register of columns: their codes as bytes, four per lane, possibly with
// other bits above them. They are chunk `c`, 0 to 3, of the four that begin at `codes`.
template <class D, int kBits>
__attribute__((always_inline)) inline void load_raw_codes(const std::byte* codes, int c, int64_t lane,
                                                          typename D::I (&quads)[2]) {
  constexpr int kLow = low_bits(kBits);
  constexpr int kHigh = kBits - kLow;
  constexpr int kUnitChunks = kBits == 4 || kBits == 8 ? 1 : kChunkPeriod<kBits>;
  const std::byte* unit = codes + c / kUnitChunks * (32 * kBits * kUnitChunks) + lane * 4;
  QUIRE_UNROLL
  for (int q = 0; q < 2; ++q) {
    const int quad = 2 * (c % kUnitChunks) + q;  // in the exact-accumulation block
    constexpr int kShare = 8 / kLow;             // quads per byte
    quads[q] = moved<D>(D::load(unit + quad / kShare * 128), -(quad % kShare * kLow));
    if constexpr (kHigh > 0) {
      const auto high = D::load(unit + 2 * kUnitChunks / kShare * 128);
      quads[q] =
          D::choose(D::set1(((1 << kLow) - 1) * 0x01010101), quads[q], moved<D>(high, kLow - quad * kHigh));
    }
  }
}

// Same, with the other bits cleared.
template <class D, int kBits>
__attribute__((always_inline)) inline void load_codes(const std::byte* codes, int c, int64_t lane,
                                                      typename D::I (&quads)[2]) {
  load_raw_codes<D, kBits>(codes, c, lane, quads);
  if constexpr (kBits < 8) {
    QUIRE_UNROLL
    for (int q = 0; q < 2; ++q) quads[q] = D::both(quads[q], D::set1(((1 << kBits) - 1) * 0x01010101));
  }
}

// Converts codes of one matrix to values.
template <class D, int kBits, int kValues>
struct CodeReader {
  static constexpr bool kLookup = kBits <= 4;
  // 4-bit lookups ignore higher bits.
  static constexpr bool kRaw = kBits == 4 || kBits == 8;
  const float* numbers;  // [at least 16, 2^kBits]
  typename D::Table table;
  typename D::N rebias;

  explicit CodeReader(const QuantizedMatrixArgs& a)
      : numbers(a.table), table(D::table(a.table)), rebias(D::V::narrow_set1(0x1p120F)) {}

  // Value of element kByte of a quad.
  template <int kByte>
  typename D::N number(typename D::I quad) const {
    if constexpr (kLookup) {
      return D::lookup(table, D::template right<8 * kByte>(quad));
    } else if constexpr (kValues == kQuantizedE4M3) {
      return D::mul(small_e4m3<D>(D::template left<24 - 8 * kByte>(quad)), rebias);
    } else {
      auto code = D::template right<8 * kByte>(quad);
      if constexpr (kByte < 3) code = D::both(code, D::set1(255));
      return D::gather(numbers, code);
    }
  }
};

// Calls f(k, codes [kRegs][2]) for each chunk of eight elements along K in [begin, end) of a panel, begin a
// multiple of 8, and end_group(header, block, group) at the end of each group or of the range. kRaw: codes
// may have other bits above them.
template <class D, int kBits, bool kRaw, int kRegs, bool kAhead, class F, class G>
__attribute__((always_inline)) inline void each_chunk(const QuantizedMatrixArgs& a, const std::byte* panel,
                                                      int64_t lane, int64_t begin, int64_t end, F&& f,
                                                      G&& end_group) {
  constexpr int kPeriod = kChunkPeriod<kBits>;
  int64_t index = begin / a.block;
  int64_t g = (begin - index * a.block) / a.group;
  for (int64_t i = begin; i < end; ++index, g = 0) {
    const int64_t first = index * a.block;
    const bool last = a.k - first <= a.block;
    const QuantizedHeader& at = last ? a.last : a.whole;
    const int64_t block_end = last ? a.k : first + a.block;
    const int64_t stop = block_end < end ? block_end : end;
    const std::byte* block = panel + index * a.block_bytes;
    const std::byte* codes = block + at.codes;
    if constexpr (kAhead) {
      // Prefetches the header between the codes of two blocks; chunks prefetch codes.
      const int64_t header = at.codes < kQuantizedPrefetchBytes ? at.codes : 0;
      for (int64_t l = 0; l < header; l += 64) {
        QUIRE_UNROLL
        for (int64_t p = 0; p <= (kRegs - 1) * D::kLanes / kPanel; ++p)
          _mm_prefetch(reinterpret_cast<const char*>(block + p * a.panel_bytes + kQuantizedPrefetchBytes + l),
                       _MM_HINT_T0);
      }
    }
    int64_t group_end = first + g * a.group;
    for (; i < stop; ++g) {
      group_end += a.group;
      const int64_t limit = group_end < stop ? group_end : stop;
      // Processes chunk `c` of the four at `four`.
      const auto chunk = [&](const std::byte* four, int c) __attribute__((always_inline)) {
        if constexpr (kAhead) {
          QUIRE_UNROLL
          for (int64_t p = 0; p <= (kRegs - 1) * D::kLanes / kPanel; ++p) {
            const std::byte* ahead = four + p * a.panel_bytes + c * 32 * kBits + kQuantizedPrefetchBytes;
            QUIRE_UNROLL
            for (int64_t l = 0; l < 32 * kBits; l += 64)
              _mm_prefetch(reinterpret_cast<const char*>(ahead + l), _MM_HINT_T0);
          }
        }
        typename D::I quads[kRegs][2];
        QUIRE_UNROLL
        for (int h = 0; h < kRegs; ++h) {
          const std::byte* from = four + panel_of<D>(lane, h) * a.panel_bytes;
          if constexpr (kRaw) {
            load_raw_codes<D, kBits>(from, c, column_of<D>(lane, h), quads[h]);
          } else {
            load_codes<D, kBits>(from, c, column_of<D>(lane, h), quads[h]);
          }
        }
        f(i, quads);
        i += 8;
      };
      if constexpr (kPeriod == 1) {
        // NOLINTNEXTLINE(bugprone-infinite-loop): chunk() advances i
        for (const std::byte* own = codes + (i - first) * 4 * kBits; i < limit; own += 32 * kBits)
          chunk(own, 0);
      } else {
        // Chunks are processed in pairs, so that their position is a constant.
        while (i < limit) {  // NOLINT(bugprone-infinite-loop): chunk() advances i
          const int64_t c = (i - first) / 8;
          const int place = static_cast<int>(c % kPeriod);
          const std::byte* four = codes + (c - place) * 32 * kBits;
          if (place == 0 && i + 8 < limit) {
            chunk(four, 0);
            chunk(four, 1);
          } else if (kPeriod == 4 && place == 2 && i + 8 < limit) {
            chunk(four, 2);
            chunk(four, 3);
          } else {
            chunk(four, place);
          }
        }
      }
      end_group(at, block, g);
    }
    i = stop;
  }
}

// Adds the products of element kByte of quad kQuad.
template <class D, class R, int kQuad, int kByte, int kRows, int kRegs>
__attribute__((always_inline)) inline void multiply_code(const R& reader,
                                                         const typename D::I (&quads)[kRegs][2],
                                                         const float* const (&x)[kRows], int64_t i,
                                                         typename D::N (&sum)[kRows][kRegs]) {
  typename D::N w[kRegs];
  QUIRE_UNROLL
  for (int h = 0; h < kRegs; ++h) w[h] = reader.template number<kByte>(quads[h][kQuad]);
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const typename D::N in = D::V::narrow_set1(x[r][i + 4 * kQuad + kByte]);
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; ++h) sum[r][h] = D::V::narrow_fma(in, w[h], sum[r][h]);
  }
}

template <class D, int kRows, int kRegs>
__attribute__((always_inline)) inline void clear(typename D::N (&sum)[kRows][kRegs]) {
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; ++h) sum[r][h] = D::V::narrow_zero();
  }
}

// kRegs registers of columns starting at `lane`. If there are fewer than kRows rows, the last one is
// repeated.
template <class D, int kBits, int kValues, int kRows, int kRegs>
void quantized_few(const QuantizedMatrixArgs& a, int64_t row, int64_t rows, int64_t panel, int64_t lane) {
  using Reader = CodeReader<D, kBits, kValues>;
  using N = typename D::N;
  const Reader reader(a);
  N part[kRows][kRegs];  // terms of the current group
  N sum[kRows][kRegs];
  clear<D>(part);
  clear<D>(sum);
  const float* x[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t from = row + (r < rows ? r : rows - 1);
    x[r] = static_cast<const float*>(a.io.x) + from * a.io.x_stride;
  }
  const auto* weights = static_cast<const std::byte*>(a.io.weights) + panel * a.panel_bytes;
  const auto multiply = [&](int64_t i, const typename D::I(&quads)[kRegs][2]) __attribute__((always_inline)) {
    const auto add = [&]<int kQuad, int kByte>() __attribute__((always_inline)) {
      multiply_code<D, Reader, kQuad, kByte>(reader, quads, x, i, part);
    };
    const int64_t left = a.k - i;
    if (left >= 8) {
      add.template operator()<0, 0>();
      add.template operator()<0, 1>();
      add.template operator()<0, 2>();
      add.template operator()<0, 3>();
      add.template operator()<1, 0>();
      add.template operator()<1, 1>();
      add.template operator()<1, 2>();
      add.template operator()<1, 3>();
      return;
    }
    add.template operator()<0, 0>();
    if (left > 1) add.template operator()<0, 1>();
    if (left > 2) add.template operator()<0, 2>();
    if (left > 3) add.template operator()<0, 3>();
    if (left > 4) add.template operator()<1, 0>();
    if (left > 5) add.template operator()<1, 1>();
    if (left > 6) add.template operator()<1, 2>();
  };
  const auto end_group = [&](const QuantizedHeader& at, const std::byte* block, int64_t g)
      __attribute__((always_inline)) {
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; ++h) {
      const N scale =
          scale_of_group<D>(a, at, block + panel_of<D>(lane, h) * a.panel_bytes, g, column_of<D>(lane, h));
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r][h] = D::V::narrow_fma(part[r][h], scale, sum[r][h]);
    }
    clear<D>(part);
  };
  each_chunk<D, kBits, Reader::kRaw, kRegs, true>(a, weights, lane, 0, a.k, multiply, end_group);
  for (int r = 0; r < rows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; h += 2)
      finish_pair<typename D::V>(a.io, row + r, panel * kPanel + lane + h * D::kLanes, sum[r][h],
                                 sum[r][h + 1]);
  }
}

// Maximum number of groups per slice: a group has at least 8 elements.
constexpr int64_t kSliceGroups = kQuantizedSlice / 8 + 1;

// Decoded values of a part of a panel, and the scales of their groups.
struct NumberSlice {
  alignas(64) float numbers[kQuantizedSlice * kPanel];  // [k, rounded up to 8][32]
  alignas(64) float scales[kSliceGroups * kPanel];      // [groups][32]
};

// Decodes elements [begin, end) along K.
template <class D, int kBits, int kValues>
void decode_slice(const QuantizedMatrixArgs& a, int64_t panel, int64_t begin, int64_t end, NumberSlice& to) {
  using Reader = CodeReader<D, kBits, kValues>;
  const Reader reader(a);
  const auto* weights = static_cast<const std::byte*>(a.io.weights) + panel * a.panel_bytes;
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
    float* scales = to.scales + lane;
    const auto put = [&](int64_t i, const typename D::I(&quads)[2][2]) __attribute__((always_inline)) {
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        float* at = to.numbers + (i - begin) * kPanel + lane + h * D::kLanes;
        QUIRE_UNROLL
        for (int q = 0; q < 2; ++q, at += 4 * kPanel) {
          D::V::narrow_store(at, reader.template number<0>(quads[h][q]));
          D::V::narrow_store(at + kPanel, reader.template number<1>(quads[h][q]));
          D::V::narrow_store(at + 2 * kPanel, reader.template number<2>(quads[h][q]));
          D::V::narrow_store(at + 3 * kPanel, reader.template number<3>(quads[h][q]));
        }
      }
    };
    const auto end_group = [&](const QuantizedHeader& at, const std::byte* block, int64_t g)
        __attribute__((always_inline)) {
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h)
        D::V::narrow_store(scales + h * D::kLanes, scale_of_group<D>(a, at, block, g, lane + h * D::kLanes));
      scales += kPanel;
    };
    each_chunk<D, kBits, Reader::kRaw, 2, false>(a, weights, lane, begin, end, put, end_group);
  }
}

// The part of a slice that belongs to one group.
struct SlicePart {
  int64_t begin;  // in the slice
  int64_t depth;
  bool first;  // whether it starts the group
  bool last;   // whether it ends the group
};

inline int slice_parts(const QuantizedMatrixArgs& a, int64_t begin, int64_t end, SlicePart* parts) {
  int count = 0;
  for (int64_t i = begin; i < end;) {
    const int64_t block = i / a.block * a.block;
    const int64_t group = block + (i - block) / a.group * a.group;
    int64_t stop = group + a.group;
    if (stop > block + a.block) stop = block + a.block;
    if (stop > a.k) stop = a.k;
    const int64_t seen = stop < end ? stop : end;
    parts[count++] = {i - begin, seen - i, i == group, seen == stop};
    i = seen;
  }
  return count;
}

// Multiplies the sums of a group by its scales and adds them to the results of `rows` rows by kUnits units;
// both are [rows][stride].
template <class V, int kUnits>
void add_group(const float* part, const float* const* scales, int64_t rows, int64_t stride, bool first,
               float* acc) {
  constexpr int kLanes = V::kNarrowLanes;
  for (int64_t r = 0; r < rows; ++r, part += stride, acc += stride) {
    QUIRE_UNROLL
    for (int j = 0; j < 2 * kUnits; ++j) {
      const auto sum = first ? V::narrow_zero() : V::narrow_load(acc + j * kLanes);
      const auto scale = V::narrow_load(scales[j / 2] + j % 2 * kLanes);
      V::narrow_store(acc + j * kLanes, V::narrow_fma(V::narrow_load(part + j * kLanes), scale, sum));
    }
  }
}

// Rows [row_begin, row_end), at most kRowChunk, and kPanels panels. `decode` is like decode_slice.
template <class V, int kPanels, class F>
void multiply_slices(const QuantizedMatrixArgs& a, int64_t row_begin, int64_t row_end, int64_t panel,
                     F&& decode) {
  constexpr int kUnits = kPanels == 1 ? 1 : kBlockRegisters<V> / (2 * kManyRows);
  constexpr int kAllUnits = kPanels * kUnitsPerPanel<V>;
  static_assert(kAllUnits % kUnits == 0);
  constexpr int64_t kAccStride = kPanels * kPanel;
  alignas(64) float acc[kRowChunk * kAccStride];
  alignas(64) float open[kRowChunk * kAccStride];  // sums of a group that continues in the next slice
  alignas(64) float part[kManyRows * kAccStride];
  NumberSlice slice[kPanels];
  SlicePart parts[kSliceGroups];
  const int64_t rows = row_end - row_begin;
  const int64_t blocks = (rows + kManyRows - 1) / kManyRows;
  bool first_group = true;
  for (int64_t begin = 0; begin < a.k; begin += kQuantizedSlice) {
    const int64_t end = a.k - begin < kQuantizedSlice ? a.k : begin + kQuantizedSlice;
    for (int p = 0; p < kPanels; ++p) decode(panel + p, begin, end, slice[p]);
    const int count = slice_parts(a, begin, end, parts);
    for (int unit = 0; unit < kAllUnits; unit += kUnits) {
      bool first = first_group;
      for (int g = 0; g < count; ++g) {
        const SlicePart& of = parts[g];
        const float* weights[kUnits];
        const float* scales[kUnits];
        QUIRE_UNROLL
        for (int u = 0; u < kUnits; ++u) {
          const NumberSlice& from = slice[(unit + u) / kUnitsPerPanel<V>];
          const int64_t column = (unit + u) % kUnitsPerPanel<V> * kUnitColumns<V>;
          weights[u] = from.numbers + of.begin * kPanel + column;
          scales[u] = from.scales + g * kPanel + column;
        }
        for (int64_t b = 0; b < blocks; ++b) {
          const int64_t low = rows * b / blocks;
          const int64_t high = rows * (b + 1) / blocks;
          const float* x[kManyRows];
          for (int64_t r = low; r < high; ++r)
            x[r - low] =
                static_cast<const float*>(a.io.x) + (row_begin + r) * a.io.x_stride + begin + of.begin;
          const int64_t at = low * kAccStride + unit * kUnitColumns<V>;
          float* sums = of.first && of.last ? part : open + at;
          multiply_rows<V, StoredF32, kManyRows, kUnits, true>(static_cast<int>(high - low), weights, x,
                                                               of.depth, sums, kAccStride, of.first, {});
          if (of.last) add_group<V, kUnits>(sums, scales, high - low, kAccStride, first, acc + at);
        }
        if (of.last) first = false;
      }
    }
    for (int g = 0; g < count; ++g) first_group = first_group && !parts[g].last;
  }
  finish_units<V>(a.io, row_begin, rows, panel * kUnitsPerPanel<V>, kAllUnits, acc);
}

// Rows [row, row_end) and panels [panel, panel_end).
template <class V, class F>
void multiply_all_slices(const QuantizedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                         int64_t panel_end, F&& decode) {
  for (; row < row_end; row += kRowChunk) {
    const int64_t last = row_end - row < kRowChunk ? row_end : row + kRowChunk;
    int64_t p = panel;
    if constexpr (kUnitsPerPanel<V> == 1) {
      for (; p + 2 <= panel_end; p += 2) multiply_slices<V, 2>(a, row, last, p, decode);
    }
    for (; p < panel_end; ++p) multiply_slices<V, 1>(a, row, last, p, decode);
  }
}

template <class D, int kBits, int kValues, int kRows>
void quantized_few_rows(const QuantizedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                        int64_t panel_end) {
  // With few rows, several registers of columns are computed at once, so that consecutive products do not
  // wait for each other. Types that take longer to decode need fewer.
  if constexpr (kRows <= 2 && D::kLanes == 16) {
    constexpr int kPanels = (kBits == 8 ? 2 : 4) / kRows;
    for (; panel + kPanels <= panel_end; panel += kPanels)
      quantized_few<D, kBits, kValues, kRows, 2 * kPanels>(a, row, row_end - row, panel, 0);
  }
  constexpr int kRegs = kRows <= D::kWholeRows ? kPanel / D::kLanes : 2;
  for (; panel < panel_end; ++panel) {
    for (int64_t lane = 0; lane < kPanel; lane += kRegs * D::kLanes)
      quantized_few<D, kBits, kValues, kRows, kRegs>(a, row, row_end - row, panel, lane);
  }
}

template <class D, int kBits, int kValues>
void linear_quantized(const QuantizedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                      int64_t panel_end) {
  const int64_t rows = row_end - row;
  if (rows == 1) return quantized_few_rows<D, kBits, kValues, 1>(a, row, row_end, panel, panel_end);
  if (rows == 2) return quantized_few_rows<D, kBits, kValues, 2>(a, row, row_end, panel, panel_end);
  if (rows <= 4) return quantized_few_rows<D, kBits, kValues, 4>(a, row, row_end, panel, panel_end);
  if constexpr (D::kFewRows >= 8) {
    if (rows <= 8) return quantized_few_rows<D, kBits, kValues, 8>(a, row, row_end, panel, panel_end);
  }
  const auto decode = [&](int64_t p, int64_t begin, int64_t end, NumberSlice& to) {
    decode_slice<D, kBits, kValues>(a, p, begin, end, to);
  };
  multiply_all_slices<typename D::V>(a, row, row_end, panel, panel_end, decode);
}

template <class D>
void fill_quantized(CpuKernels& t) {
  t.linear_quantized[kQuantizedTable][2] = linear_quantized<D, 2, kQuantizedTable>;
  t.linear_quantized[kQuantizedTable][3] = linear_quantized<D, 3, kQuantizedTable>;
  t.linear_quantized[kQuantizedTable][4] = linear_quantized<D, 4, kQuantizedTable>;
  t.linear_quantized[kQuantizedTable][5] = linear_quantized<D, 5, kQuantizedTable>;
  t.linear_quantized[kQuantizedTable][6] = linear_quantized<D, 6, kQuantizedTable>;
  t.linear_quantized[kQuantizedTable][8] = linear_quantized<D, 8, kQuantizedTable>;
  t.linear_quantized[kQuantizedE4M3][8] = linear_quantized<D, 8, kQuantizedE4M3>;
}
