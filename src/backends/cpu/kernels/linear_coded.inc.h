// out = x w^T over packed panels of codes (quant/coded_layout.h) that stand for no whole numbers, with float
// activations. Codes become the numbers that they stand for; products of a group are added from first to
// last, and their sum times the group's scale is added to the output: its value does not depend on how rows
// are cut into blocks.
//
// Few rows are multiplied with numbers in registers. Many rows pass over a slice of decoded numbers that
// stays in the first-level cache, with the blocks of linear.inc.h.

// How far ahead of use codes are asked for, in bytes, where rows are few.
constexpr int64_t kCodedPrefetchBytes = 4096;
// k's of a slice.
constexpr int64_t kCodedSlice = 128;

template <class D, CodedScales kScales>
__attribute__((always_inline)) inline typename D::N stored_scale(const std::byte* scales, int64_t lane) {
  const auto* halves = reinterpret_cast<const uint16_t*>(scales) + lane;
  if constexpr (kScales == kCodedF16) return D::V::narrow_load_f16(halves);
  if constexpr (kScales == kCodedBF16) return D::load_bf16(halves);
  return D::V::narrow_load(reinterpret_cast<const float*>(scales) + lane);
}

template <class D>
__attribute__((always_inline)) inline typename D::N coded_scale(const CodedMatrixArgs& a,
                                                                const std::byte* scales, int64_t lane) {
  if (a.scales == kCodedF16) return stored_scale<D, kCodedF16>(scales, lane);
  if (a.scales == kCodedBF16) return stored_scale<D, kCodedBF16>(scales, lane);
  return stored_scale<D, kCodedF32>(scales, lane);
}

// Register h of those that begin with column `lane` of a panel: how far its panel is, and its first column
// there. Registers that do not fit one panel go on in the next.
template <class D>
constexpr int64_t panel_of(int64_t lane, int h) {
  return (lane + h * D::kLanes) / kPanel;
}
template <class D>
constexpr int64_t column_of(int64_t lane, int h) {
  return (lane + h * D::kLanes) % kPanel;
}

// The numbers of e4m3 codes [lanes] of 32 bits, divided by 2^120, in the highest 8 bits: exponent and
// mantissa where those of a float32 stand. Exact, denormal numbers too; times D::rebias() they are what they
// are.
template <class D>
typename D::N small_e4m3(typename D::I high) {
  return D::as_float(D::both(D::template right_signed<4>(high), D::set1(static_cast<int32_t>(0x87f00000U))));
}

template <class D>
__attribute__((always_inline)) inline typename D::N e4m3_scale(const std::byte* code) {
  const auto high = D::template left<24>(D::widen_u8(code));
  return D::mul(small_e4m3<D>(high), D::V::narrow_set1(0x1p120F));
}

// What the scales of groups are, of lanes from `code` on.
template <class D>
__attribute__((always_inline)) inline typename D::N group_scale(const CodedMatrixArgs& a,
                                                                const std::byte* code) {
  if (a.group_scale_table == nullptr) return D::load_i8(code);
  // 2^-127, whose code is 0, is a denormal number.
  if (a.e8m0_group_scales)
    return D::as_float(D::larger(D::template left<23>(D::widen_u8(code)), D::set1(1 << 22)));
  if (a.e4m3_group_scales) return e4m3_scale<D>(code);
  return D::gather_u8(a.group_scale_table, code);
}

// The scale of group `g` of the block at `first`, `at` its header.
template <class D>
__attribute__((always_inline)) inline typename D::N scale_of_group(const CodedMatrixArgs& a,
                                                                   const CodedHeader& at,
                                                                   const std::byte* first, int64_t g,
                                                                   int64_t column) {
  const auto scale = coded_scale<D>(a, first, column);
  if (!a.two_levels) return scale;
  return D::mul(scale, group_scale<D>(a, first + at.group_scales + g * kPanel + column));
}

// Moves bits to the left (count > 0) or to the right by few bits, a number that is known once calls are
// inlined.
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

// Bytes of the codes of 32 k's of a panel: what four chunks of eight k's take.
template <int kBits>
constexpr int64_t kChunksBytes = 128 * kBits;
// Chunks after which codes lie as before.
template <int kBits>
constexpr int kChunkPeriod = kBits == 2 || kBits == 6   ? 2
                             : kBits == 3 || kBits == 5 ? 4
                                                        : 1;

// Eight k's of a register of columns: their codes as bytes, four k's in each lane, with any bits above them.
// They are chunk `c`, 0 .. 3, of four that begin at `codes`.
template <class D, int kBits>
__attribute__((always_inline)) inline void load_raw_codes(const std::byte* codes, int c, int64_t lane,
                                                          typename D::I (&quads)[2]) {
  constexpr int kLow = kBits == 3 ? 2 : kBits < 8 && kBits > 4 ? 4 : kBits;  // bits of the wider plane
  constexpr int kHigh = kBits - kLow;
  constexpr int kUnitChunks = kBits == 4 || kBits == 8 ? 1 : kChunkPeriod<kBits>;
  const std::byte* unit = codes + c / kUnitChunks * (32 * kBits * kUnitChunks) + lane * 4;
  QUIRE_UNROLL
  for (int q = 0; q < 2; ++q) {
    const int quad = 2 * (c % kUnitChunks) + q;  // of the unit
    constexpr int kShare = 8 / kLow;             // quads of a byte
    quads[q] = moved<D>(D::load(unit + quad / kShare * 128), -(quad % kShare * kLow));
    if constexpr (kHigh > 0) {
      const auto high = D::load(unit + 2 * kUnitChunks / kShare * 128);
      quads[q] =
          D::choose(D::set1(((1 << kLow) - 1) * 0x01010101), quads[q], moved<D>(high, kLow - quad * kHigh));
    }
  }
}

// The same with nothing above them.
template <class D, int kBits>
__attribute__((always_inline)) inline void load_codes(const std::byte* codes, int c, int64_t lane,
                                                      typename D::I (&quads)[2]) {
  load_raw_codes<D, kBits>(codes, c, lane, quads);
  if constexpr (kBits < 8) {
    QUIRE_UNROLL
    for (int q = 0; q < 2; ++q) quads[q] = D::both(quads[q], D::set1(((1 << kBits) - 1) * 0x01010101));
  }
}

// How the numbers of one matrix are made of codes.
template <class D, int kBits, int kValues>
struct CodeReader {
  static constexpr bool kLookup = kBits <= 4;
  // Lookups of 4 bits see no others.
  static constexpr bool kRaw = kBits == 4 || kBits == 8;
  const float* numbers;  // [at least 16, 2^kBits]
  typename D::Table table;
  typename D::N rebias;

  explicit CodeReader(const CodedMatrixArgs& a)
      : numbers(a.table), table(D::table(a.table)), rebias(D::V::narrow_set1(0x1p120F)) {}

  // Number of k kByte of a quad.
  template <int kByte>
  typename D::N number(typename D::I quad) const {
    if constexpr (kLookup) {
      return D::lookup(table, D::template right<8 * kByte>(quad));
    } else if constexpr (kValues == kCodedE4M3) {
      return D::mul(small_e4m3<D>(D::template left<24 - 8 * kByte>(quad)), rebias);
    } else {
      auto code = D::template right<8 * kByte>(quad);
      if constexpr (kByte < 3) code = D::both(code, D::set1(255));
      return D::gather(numbers, code);
    }
  }
};

// f(k, codes [kRegs][2]) for each eight k's of [begin, end) of a panel, begin a multiple of 8, and
// end_group(header, block, group) where a group, or what is to be seen of it, ends. kRaw: codes may have any
// bits above them.
template <class D, int kBits, bool kRaw, int kRegs, bool kAhead, class F, class G>
__attribute__((always_inline)) inline void each_chunk(const CodedMatrixArgs& a, const std::byte* panel,
                                                      int64_t lane, int64_t begin, int64_t end, F&& f,
                                                      G&& end_group) {
  constexpr int kPeriod = kChunkPeriod<kBits>;
  int64_t index = begin / a.block;
  int64_t g = (begin - index * a.block) / a.group;
  for (int64_t i = begin; i < end; ++index, g = 0) {
    const int64_t first = index * a.block;
    const bool last = a.k - first <= a.block;
    const CodedHeader& at = last ? a.last : a.whole;
    const int64_t block_end = last ? a.k : first + a.block;
    const int64_t stop = block_end < end ? block_end : end;
    const std::byte* block = panel + index * a.block_bytes;
    const std::byte* codes = block + at.codes;
    if constexpr (kAhead) {
      // What stands between the codes of two blocks; chunks ask for codes.
      const int64_t header = at.codes < kCodedPrefetchBytes ? at.codes : 0;
      for (int64_t l = 0; l < header; l += 64) {
        QUIRE_UNROLL
        for (int64_t p = 0; p <= (kRegs - 1) * D::kLanes / kPanel; ++p)
          _mm_prefetch(reinterpret_cast<const char*>(block + p * a.panel_bytes + kCodedPrefetchBytes + l),
                       _MM_HINT_T0);
      }
    }
    int64_t group_end = first + g * a.group;
    for (; i < stop; ++g) {
      group_end += a.group;
      const int64_t limit = group_end < stop ? group_end : stop;
      // Chunk `c` of the four at `four`.
      const auto chunk = [&](const std::byte* four, int c) __attribute__((always_inline)) {
        if constexpr (kAhead) {
          QUIRE_UNROLL
          for (int64_t p = 0; p <= (kRegs - 1) * D::kLanes / kPanel; ++p) {
            const std::byte* ahead = four + p * a.panel_bytes + c * 32 * kBits + kCodedPrefetchBytes;
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
        for (const std::byte* own = codes + (i - first) * 4 * kBits; i < limit; own += 32 * kBits)
          chunk(own, 0);
      } else {
        // Where a chunk lies among those that follow it is known for pairs.
        while (i < limit) {
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

// Adds the products of k kByte of quad kQuad.
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

// kRegs registers of columns from `lane` on. Fewer than kRows rows: the last one several times.
template <class D, int kBits, int kValues, int kRows, int kRegs>
void coded_few(const CodedMatrixArgs& a, int64_t row, int64_t rows, int64_t panel, int64_t lane) {
  using Reader = CodeReader<D, kBits, kValues>;
  using N = typename D::N;
  const Reader reader(a);
  N part[kRows][kRegs];  // of the group
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
  const auto end_group = [&](const CodedHeader& at, const std::byte* block, int64_t g)
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

// Groups of a slice at most: none has fewer than 8 k's.
constexpr int64_t kSliceGroups = kCodedSlice / 8 + 1;

// Numbers of a panel's k's, and the scales of their groups.
struct NumberSlice {
  alignas(64) float numbers[kCodedSlice * kPanel];  // [k, rounded up to 8][32]
  alignas(64) float scales[kSliceGroups * kPanel];  // [groups][32]
};

// K's [begin, end).
template <class D, int kBits, int kValues>
void decode_slice(const CodedMatrixArgs& a, int64_t panel, int64_t begin, int64_t end, NumberSlice& to) {
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
    const auto end_group = [&](const CodedHeader& at, const std::byte* block, int64_t g)
        __attribute__((always_inline)) {
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h)
        D::V::narrow_store(scales + h * D::kLanes, scale_of_group<D>(a, at, block, g, lane + h * D::kLanes));
      scales += kPanel;
    };
    each_chunk<D, kBits, Reader::kRaw, 2, false>(a, weights, lane, begin, end, put, end_group);
  }
}

// The parts of a slice that lie in one group each.
struct SlicePart {
  int64_t begin;  // in the slice
  int64_t depth;
  bool first;  // of its group
  bool last;
};

inline int slice_parts(const CodedMatrixArgs& a, int64_t begin, int64_t end, SlicePart* parts) {
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

// Adds the sums of a group, times its scales, to those of `rows` rows by kUnits units; both [rows][stride].
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

// Rows [row_begin, row_end), at most kRowChunk of them, by kPanels panels. `decode` as decode_slice.
template <class V, int kPanels, class F>
void multiply_slices(const CodedMatrixArgs& a, int64_t row_begin, int64_t row_end, int64_t panel,
                     F&& decode) {
  constexpr int kUnits = kPanels == 1 ? 1 : kBlockRegisters<V> / (2 * kManyRows);
  constexpr int kAllUnits = kPanels * kUnitsPerPanel<V>;
  static_assert(kAllUnits % kUnits == 0);
  constexpr int64_t kAccStride = kPanels * kPanel;
  alignas(64) float acc[kRowChunk * kAccStride];
  alignas(64) float open[kRowChunk * kAccStride];  // sums of a group that goes on behind its slice
  alignas(64) float part[kManyRows * kAccStride];
  NumberSlice slice[kPanels];
  SlicePart parts[kSliceGroups];
  const int64_t rows = row_end - row_begin;
  const int64_t blocks = (rows + kManyRows - 1) / kManyRows;
  bool first_group = true;
  for (int64_t begin = 0; begin < a.k; begin += kCodedSlice) {
    const int64_t end = a.k - begin < kCodedSlice ? a.k : begin + kCodedSlice;
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

// Rows [row, row_end) by panels [panel, panel_end).
template <class V, class F>
void multiply_all_slices(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
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
void coded_few_rows(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                    int64_t panel_end) {
  // Few rows: sums enough that one product need not wait for the other. Numbers that take longer to make need
  // fewer.
  if constexpr (kRows <= 2 && D::kLanes == 16) {
    constexpr int kPanels = (kBits == 8 ? 2 : 4) / kRows;
    for (; panel + kPanels <= panel_end; panel += kPanels)
      coded_few<D, kBits, kValues, kRows, 2 * kPanels>(a, row, row_end - row, panel, 0);
  }
  constexpr int kRegs = kRows <= D::kWholeRows ? kPanel / D::kLanes : 2;
  for (; panel < panel_end; ++panel) {
    for (int64_t lane = 0; lane < kPanel; lane += kRegs * D::kLanes)
      coded_few<D, kBits, kValues, kRows, kRegs>(a, row, row_end - row, panel, lane);
  }
}

template <class D, int kBits, int kValues>
void linear_coded(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
  const int64_t rows = row_end - row;
  if (rows == 1) return coded_few_rows<D, kBits, kValues, 1>(a, row, row_end, panel, panel_end);
  if (rows == 2) return coded_few_rows<D, kBits, kValues, 2>(a, row, row_end, panel, panel_end);
  if (rows <= 4) return coded_few_rows<D, kBits, kValues, 4>(a, row, row_end, panel, panel_end);
  if constexpr (D::kFewRows >= 8) {
    if (rows <= 8) return coded_few_rows<D, kBits, kValues, 8>(a, row, row_end, panel, panel_end);
  }
  const auto decode = [&](int64_t p, int64_t begin, int64_t end, NumberSlice& to) {
    decode_slice<D, kBits, kValues>(a, p, begin, end, to);
  };
  multiply_all_slices<typename D::V>(a, row, row_end, panel, panel_end, decode);
}

template <class D>
void fill_coded(CpuKernels& t) {
  t.linear_coded[kCodedTable][2] = linear_coded<D, 2, kCodedTable>;
  t.linear_coded[kCodedTable][3] = linear_coded<D, 3, kCodedTable>;
  t.linear_coded[kCodedTable][4] = linear_coded<D, 4, kCodedTable>;
  t.linear_coded[kCodedTable][5] = linear_coded<D, 5, kCodedTable>;
  t.linear_coded[kCodedTable][6] = linear_coded<D, 6, kCodedTable>;
  t.linear_coded[kCodedTable][8] = linear_coded<D, 8, kCodedTable>;
  t.linear_coded[kCodedE4M3][8] = linear_coded<D, 8, kCodedE4M3>;
}
