// out = x w^T over packed panels of codes (quant/coded_layout.h) with float activations. Codes become the
// weights themselves, with the bits of decode_coded there, and each output has one accumulator to which the
// products are added from first to last: its value does not depend on how rows are cut into blocks.
//
// Few rows are multiplied with weights in registers. Many rows pass over a slice of decoded weights that
// stays in the first-level cache, with the blocks of linear.inc.h.

// How far ahead of use codes are asked for, in bytes, where rows are few.
constexpr int64_t kCodedPrefetchBytes = 4096;
// k's of a slice.
constexpr int64_t kCodedSlice = 128;

// How weights are shifted: by minima, by zeros of their groups, or by both.
constexpr int kMinima = 1;
constexpr int kZeros = 2;

// What the codes of a group are multiplied with and, where they are, shifted by.
template <class D, int kRegs>
struct GroupScales {
  typename D::N scale[kRegs];
  typename D::N minimum[kRegs];
  typename D::N zero[kRegs];
};

template <class D>
__attribute__((always_inline)) inline typename D::N coded_scale(const CodedMatrixArgs& a,
                                                                const std::byte* scales, int64_t lane) {
  const auto* halves = reinterpret_cast<const uint16_t*>(scales) + lane;
  if (a.scales == kCodedF16) return D::V::narrow_load_f16(halves);
  if (a.scales == kCodedBF16) return D::load_bf16(halves);
  return D::V::narrow_load(reinterpret_cast<const float*>(scales) + lane);
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

// What the scales of groups are, of lanes from `code` on.
template <class D>
__attribute__((always_inline)) inline typename D::N group_scale(const CodedMatrixArgs& a,
                                                                const std::byte* code) {
  if (a.group_scale_table == nullptr) return D::load_i8(code);
  if (!a.e4m3_group_scales) return D::gather_u8(a.group_scale_table, code);
  const auto high = D::template left<24>(D::widen_u8(code));
  return D::mul(small_e4m3<D>(high), D::V::narrow_set1(0x1p120F));
}

// What all groups of a block have.
template <class D, int kShift, int kRegs>
__attribute__((always_inline)) inline void load_block(const CodedMatrixArgs& a, const CodedHeader& at,
                                                      const std::byte* first, int64_t lane,
                                                      GroupScales<D, kRegs>& out) {
  QUIRE_UNROLL
  for (int h = 0; h < kRegs; ++h) {
    const std::byte* block = first + panel_of<D>(lane, h) * a.panel_bytes;
    const int64_t column = column_of<D>(lane, h);
    out.scale[h] = coded_scale<D>(a, block, column);
    if constexpr ((kShift & kMinima) != 0) out.minimum[h] = coded_scale<D>(a, block + at.minima, column);
  }
}

// Group `g` of a block that has `of_block`.
template <class D, int kShift, int kRegs>
__attribute__((always_inline)) inline void load_group(const CodedMatrixArgs& a, const CodedHeader& at,
                                                      const GroupScales<D, kRegs>& of_block,
                                                      const std::byte* first, int64_t g, int64_t lane,
                                                      GroupScales<D, kRegs>& out) {
  QUIRE_UNROLL
  for (int h = 0; h < kRegs; ++h) {
    const std::byte* own = first + panel_of<D>(lane, h) * a.panel_bytes + g * kPanel + column_of<D>(lane, h);
    out.scale[h] = of_block.scale[h];
    if (a.two_levels) out.scale[h] = D::mul(out.scale[h], group_scale<D>(a, own + at.group_scales));
    if constexpr ((kShift & kMinima) != 0) {
      out.minimum[h] = of_block.minimum[h];
      if (a.two_levels) out.minimum[h] = D::mul(out.minimum[h], D::load_u8(own + at.group_minima));
    }
    if constexpr ((kShift & kZeros) != 0) out.zero[h] = D::load_u8(own + at.group_zeros);
  }
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
  static constexpr bool kLookup =
      kBits <= 4 && (kValues == kCodedTable || (kValues == kCodedLinear && D::kLookupLinear));
  static constexpr bool kPlaced = kValues == kCodedLinear && !kLookup;
  // Lookups of 4 bits, and where bits become a number's mantissa, see no others.
  static constexpr bool kRaw = kPlaced || (kLookup && kBits == 4) || kBits == 8;
  const float* numbers;  // [at least 16, 2^kBits]
  typename D::Table table;
  typename D::N rebias;
  typename D::N too_large[3];  // what linear codes are by, placed at bits 0, 8 and 16

  explicit CodeReader(const CodedMatrixArgs& a)
      : numbers(a.table),
        table(D::table(a.table)),
        rebias(D::V::narrow_set1(0x1p120F)),
        too_large{D::V::narrow_set1(a.zero + 0x1p23F), D::V::narrow_set1(a.zero + 0x1p15F),
                  D::V::narrow_set1(a.zero + 0x1p7F)} {}

  // Weight of k kByte of a quad.
  template <int kByte, int kShift>
  typename D::N weight(typename D::I quad, typename D::N scale, typename D::N minimum,
                       typename D::N zero) const {
    typename D::N v;
    if constexpr (kLookup) {
      v = D::lookup(table, D::template right<8 * kByte>(quad));
      if constexpr ((kShift & kZeros) != 0) v = D::sub(v, zero);
    } else if constexpr (kPlaced) {
      // The code's bits become the lowest of the mantissa of a number that has the value 1 there, or as many
      // places higher as they stand in the lane: a difference is the code, exactly.
      constexpr int kShifted = 8 * kByte + kBits > 23 ? 16 : 0;
      constexpr int kPlace = 8 * kByte - kShifted;
      const auto code = D::merge(D::template right<kShifted>(quad), D::set1(((1 << kBits) - 1) << kPlace),
                                 D::set1((150 - kPlace) << 23));
      constexpr float kAbove = static_cast<float>(1 << (23 - kPlace));
      v = D::sub(D::as_float(code), (kShift & kZeros) != 0 ? D::V::narrow_add(zero, D::V::narrow_set1(kAbove))
                                                           : too_large[kPlace / 8]);
    } else if constexpr (kValues == kCodedE4M3) {
      v = D::mul(small_e4m3<D>(D::template left<24 - 8 * kByte>(quad)), rebias);
    } else {
      auto code = D::template right<8 * kByte>(quad);
      if constexpr (kByte < 3) code = D::both(code, D::set1(255));
      v = D::gather(numbers, code);
    }
    v = D::mul(scale, v);
    if constexpr ((kShift & kMinima) != 0) v = D::sub(v, minimum);
    return v;
  }
};

// f(k, codes [kRegs][2], scales) for each eight k's of [begin, end) of a panel, begin a multiple of 8. kRaw:
// codes may have any bits above them.
template <class D, int kBits, bool kRaw, int kShift, int kRegs, bool kAhead, class F>
__attribute__((always_inline)) inline void each_chunk(const CodedMatrixArgs& a, const std::byte* panel,
                                                      int64_t lane, int64_t begin, int64_t end, F&& f) {
  constexpr int kPeriod = kChunkPeriod<kBits>;
  for (int64_t i = begin; i < end;) {
    const int64_t index = i / a.block;
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
    GroupScales<D, kRegs> of_block;
    load_block<D, kShift>(a, at, block, lane, of_block);
    int64_t g = (i - first) / a.group;
    int64_t group_end = first + g * a.group;
    for (; i < stop; ++g) {
      group_end += a.group;
      const int64_t limit = group_end < stop ? group_end : stop;
      GroupScales<D, kRegs> scales;
      load_group<D, kShift>(a, at, of_block, block, g, lane, scales);
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
        f(i, quads, scales);
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
    }
    i = stop;
  }
}

// Adds the products of k kByte of quad kQuad.
template <class D, class R, int kShift, int kQuad, int kByte, int kRows, int kRegs>
__attribute__((always_inline)) inline void multiply_code(const R& reader,
                                                         const typename D::I (&quads)[kRegs][2],
                                                         const GroupScales<D, kRegs>& s,
                                                         const float* const (&x)[kRows], int64_t i,
                                                         typename D::N (&sum)[kRows][kRegs]) {
  typename D::N w[kRegs];
  QUIRE_UNROLL
  for (int h = 0; h < kRegs; ++h)
    w[h] = reader.template weight<kByte, kShift>(quads[h][kQuad], s.scale[h], s.minimum[h], s.zero[h]);
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const typename D::N in = D::V::narrow_set1(x[r][i + 4 * kQuad + kByte]);
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; ++h) sum[r][h] = D::V::narrow_fma(in, w[h], sum[r][h]);
  }
}

// kRegs registers of columns from `lane` on. Fewer than kRows rows: the last one several times.
template <class D, int kBits, int kValues, int kShift, int kRows, int kRegs>
void coded_few(const CodedMatrixArgs& a, int64_t row, int64_t rows, int64_t panel, int64_t lane) {
  using Reader = CodeReader<D, kBits, kValues>;
  const Reader reader(a);
  typename D::N sum[kRows][kRegs];
  const float* x[kRows];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t from = row + (r < rows ? r : rows - 1);
    x[r] = static_cast<const float*>(a.io.x) + from * a.io.x_stride;
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; ++h) sum[r][h] = D::V::narrow_zero();
  }
  const auto* weights = static_cast<const std::byte*>(a.io.weights) + panel * a.panel_bytes;
  each_chunk<D, kBits, Reader::kRaw, kShift, kRegs, true>(
      a, weights, lane, 0, a.k,
      [&](int64_t i, const typename D::I(&quads)[kRegs][2], const GroupScales<D, kRegs>& s)
          __attribute__((always_inline)) {
            const auto add = [&]<int kQuad, int kByte>() __attribute__((always_inline)) {
              multiply_code<D, Reader, kShift, kQuad, kByte>(reader, quads, s, x, i, sum);
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
          });
  for (int r = 0; r < rows; ++r) {
    QUIRE_UNROLL
    for (int h = 0; h < kRegs; ++h)
      finish_columns<typename D::V>(a.io, row + r, panel * kPanel + lane + h * D::kLanes, sum[r][h]);
  }
}

// Weights of k's [begin, end) as float32 [end - begin, rounded up to 8][32].
template <class D, int kBits, int kValues, int kShift>
void decode_slice(const CodedMatrixArgs& a, int64_t panel, int64_t begin, int64_t end, float* dst) {
  using Reader = CodeReader<D, kBits, kValues>;
  const Reader reader(a);
  const auto* weights = static_cast<const std::byte*>(a.io.weights) + panel * a.panel_bytes;
  for (int64_t lane = 0; lane < kPanel; lane += 2 * D::kLanes) {
    each_chunk<D, kBits, Reader::kRaw, kShift, 2, false>(
        a, weights, lane, begin, end,
        [&](int64_t i, const typename D::I(&quads)[2][2],
            const GroupScales<D, 2>& s) __attribute__((always_inline)) {
          QUIRE_UNROLL
          for (int h = 0; h < 2; ++h) {
            float* to = dst + (i - begin) * kPanel + lane + h * D::kLanes;
            QUIRE_UNROLL
            for (int q = 0; q < 2; ++q, to += 4 * kPanel) {
              const auto put = [&](int byte, typename D::N w) { D::V::narrow_store(to + byte * kPanel, w); };
              put(0, reader.template weight<0, kShift>(quads[h][q], s.scale[h], s.minimum[h], s.zero[h]));
              put(1, reader.template weight<1, kShift>(quads[h][q], s.scale[h], s.minimum[h], s.zero[h]));
              put(2, reader.template weight<2, kShift>(quads[h][q], s.scale[h], s.minimum[h], s.zero[h]));
              put(3, reader.template weight<3, kShift>(quads[h][q], s.scale[h], s.minimum[h], s.zero[h]));
            }
          }
        });
  }
}

// Rows [row_begin, row_end), at most kRowChunk of them, by kPanels panels. `decode` as decode_slice.
template <class V, int kPanels, class F>
void multiply_slices(const CodedMatrixArgs& a, int64_t row_begin, int64_t row_end, int64_t panel,
                     F&& decode) {
  constexpr int kUnits = kPanels == 1 ? 1 : kBlockRegisters<V> / (2 * kManyRows);
  constexpr int kAllUnits = kPanels * kUnitsPerPanel<V>;
  static_assert(kAllUnits % kUnits == 0);
  constexpr int64_t kUnitColumns = 2 * V::kNarrowLanes;
  constexpr int64_t kAccStride = kPanels * kPanel;
  alignas(64) float acc[kRowChunk * kAccStride];
  alignas(64) float slice[kPanels * kCodedSlice * kPanel];
  const int64_t rows = row_end - row_begin;
  const int64_t blocks = (rows + kManyRows - 1) / kManyRows;
  for (int64_t begin = 0; begin < a.k; begin += kCodedSlice) {
    const int64_t depth = a.k - begin < kCodedSlice ? a.k - begin : kCodedSlice;
    for (int p = 0; p < kPanels; ++p)
      decode(panel + p, begin, begin + depth, slice + p * kCodedSlice * kPanel);
    for (int unit = 0; unit < kAllUnits; unit += kUnits) {
      const float* weights[kUnits];
      QUIRE_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        weights[u] = slice + (unit + u) / kUnitsPerPanel<V> * kCodedSlice * kPanel +
                     (unit + u) % kUnitsPerPanel<V> * kUnitColumns;
      }
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = rows * b / blocks;
        const int64_t last = rows * (b + 1) / blocks;
        const float* x[kManyRows];
        for (int64_t r = first; r < last; ++r)
          x[r - first] = static_cast<const float*>(a.io.x) + (row_begin + r) * a.io.x_stride + begin;
        multiply_rows<V, StoredF32, kManyRows, kUnits, true>(
            static_cast<int>(last - first), weights, x, depth, acc + first * kAccStride + unit * kUnitColumns,
            kAccStride, begin == 0, {});
      }
    }
  }
  finish_units<V>(a.io, row_begin, rows, panel * kUnitsPerPanel<V>, kAllUnits, acc);
}

template <class D, int kBits, int kValues, int kShift, int kRows>
void coded_few_rows(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel,
                    int64_t panel_end) {
  constexpr int kRegs = kRows <= D::kWholeRows ? kPanel / D::kLanes : 2;
  // One row: sums enough that one product need not wait for the other.
  if constexpr (kRows == 1 && D::kLanes == 16) {
    for (; panel + 2 <= panel_end; panel += 2)
      coded_few<D, kBits, kValues, kShift, 1, 4>(a, row, row_end - row, panel, 0);
  }
  for (; panel < panel_end; ++panel) {
    for (int64_t lane = 0; lane < kPanel; lane += kRegs * D::kLanes)
      coded_few<D, kBits, kValues, kShift, kRows, kRegs>(a, row, row_end - row, panel, lane);
  }
}

template <class D, int kBits, int kValues, int kShift>
void coded_rows(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
  using V = typename D::V;
  const int64_t rows = row_end - row;
  if (rows == 1) return coded_few_rows<D, kBits, kValues, kShift, 1>(a, row, row_end, panel, panel_end);
  if (rows == 2) return coded_few_rows<D, kBits, kValues, kShift, 2>(a, row, row_end, panel, panel_end);
  if (rows <= 4) return coded_few_rows<D, kBits, kValues, kShift, 4>(a, row, row_end, panel, panel_end);
  if constexpr (D::kFewRows >= 8) {
    if (rows <= 8) return coded_few_rows<D, kBits, kValues, kShift, 8>(a, row, row_end, panel, panel_end);
  }
  const auto decode = [&](int64_t p, int64_t begin, int64_t end, float* dst) {
    decode_slice<D, kBits, kValues, kShift>(a, p, begin, end, dst);
  };
  for (; row < row_end; row += kRowChunk) {
    const int64_t last = row_end - row < kRowChunk ? row_end : row + kRowChunk;
    int64_t p = panel;
    if constexpr (kUnitsPerPanel<V> == 1) {
      for (; p + 2 <= panel_end; p += 2) multiply_slices<V, 2>(a, row, last, p, decode);
    }
    for (; p < panel_end; ++p) multiply_slices<V, 1>(a, row, last, p, decode);
  }
}

template <class D, int kBits, int kValues>
void linear_coded(const CodedMatrixArgs& a, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
  const auto run = [&]<int kShift>() {
    coded_rows<D, kBits, kValues, kShift>(a, row, row_end, panel, panel_end);
  };
  if constexpr (kValues == kCodedLinear) {
    if (a.minima && a.group_zeros) return run.template operator()<kMinima | kZeros>();
    if (a.group_zeros) return run.template operator()<kZeros>();
  }
  if (a.minima) return run.template operator()<kMinima>();
  run.template operator()<0>();
}

template <class D>
void fill_coded(CpuKernels& t) {
  const auto fill_bits = [&]<int kBits>() {
    t.linear_coded[kCodedLinear][kBits] = linear_coded<D, kBits, kCodedLinear>;
    t.linear_coded[kCodedTable][kBits] = linear_coded<D, kBits, kCodedTable>;
  };
  fill_bits.template operator()<2>();
  fill_bits.template operator()<3>();
  fill_bits.template operator()<4>();
  fill_bits.template operator()<5>();
  fill_bits.template operator()<6>();
  fill_bits.template operator()<8>();
  t.linear_coded[kCodedE4M3][8] = linear_coded<D, 8, kCodedE4M3>;
}
