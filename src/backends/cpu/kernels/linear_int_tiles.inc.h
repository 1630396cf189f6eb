// out = x w^T over packed panels of integer weights, for many rows, on the tile registers of AMX. The
// products of an exact-accumulation block are summed exactly, in any order, so that the results have the bits
// of linear_int.inc.h. Included after tiles.inc.h and finish.inc.h.

// Elements along K per slice. The weights of a slice stay in L1 while all blocks of rows are multiplied by
// them.
constexpr int64_t kTileSlice = 512;
// Blocks of rows whose results are kept at once.
constexpr int64_t kTileBlocks = 8;
// Bytes of four elements along K of a panel.
constexpr int64_t kQuad = 4 * kPanel;

// The weights of an exact-accumulation block.
struct TileUnit {
  const std::byte* scales;
  const std::byte* codes;
  int64_t quads;  // groups of four elements along K
};

struct TileSlice {
  static constexpr int kUnits = 16;
  TileUnit units[kUnits];
  int count;
};

// Position along K in a panel.
struct TilePlace {
  const std::byte* group;
  int64_t left;      // elements
  int64_t in_group;  // elements that have been passed
};

// The exact-accumulation blocks up to the end of the next slice.
inline void next_slice(const IntLinearArgs& a, TilePlace& place, TileSlice& slice) {
  slice.count = 0;
  for (int64_t taken = 0; place.left > 0 && taken < kTileSlice && slice.count < TileSlice::kUnits;) {
    const int64_t depth = place.left < a.in.unit ? place.left : a.in.unit;
    slice.units[slice.count++] = {place.group, place.group + a.header_bytes + place.in_group / 4 * kQuad,
                                  (depth + 3) / 4};
    taken += depth;
    place.left -= depth;
    place.in_group += depth;
    if (place.in_group < a.group) continue;
    place.in_group = 0;
    place.group += a.group_bytes;
  }
}

// Prefetches the next panel, some lines with each step: a burst would keep tiles waiting.
class TilePrefetch {
 public:
  // count: blocks whose steps share the panel.
  TilePrefetch(const IntLinearArgs& a, int64_t panel, int64_t tile_quads, int64_t count) {
    // a.next is an int4 panel, half as large as it is in int8.
    const int64_t bytes = a.next != nullptr ? a.panel_bytes / 2 : a.panel_bytes;
    next_ =
        reinterpret_cast<const char*>(a.next != nullptr ? a.next : a.weights + (panel + 1) * a.panel_bytes);
    end_ = next_ + bytes;
    const int64_t lines = tile_quads * kQuad / 64 / (a.next != nullptr ? 2 : 1);
    step_ = (lines + count - 1) / count * 64;
  }
  void step() {
    for (const char* end = next_ + step_ < end_ ? next_ + step_ : end_; next_ < end; next_ += 64)
      _mm_prefetch(next_, _MM_HINT_T1);
  }

 private:
  const char* next_;
  const char* end_;
  int64_t step_;
};

// Adds the products of the elements that do not fill a tile.
inline void sum_rest(const int8_t* x, int64_t x_bytes, const std::byte* codes, int64_t quads, int64_t rows,
                     int32_t* sums) {
  for (int64_t r = 0; r < rows; ++r, x += x_bytes, sums += kPanel) {
    __m512i low = _mm512_loadu_si512(sums);
    __m512i high = _mm512_loadu_si512(sums + kPanel / 2);
    for (int64_t q = 0; q < quads; ++q) {
      int32_t four;
      __builtin_memcpy(&four, x + 4 * q, 4);
      low = _mm512_dpbusd_epi32(low, _mm512_loadu_si512(codes + q * kQuad), _mm512_set1_epi32(four));
      high = _mm512_dpbusd_epi32(high, _mm512_loadu_si512(codes + q * kQuad + 64), _mm512_set1_epi32(four));
    }
    _mm512_storeu_si512(sums, low);
    _mm512_storeu_si512(sums + kPanel / 2, high);
  }
}

inline __m512 tile_scales(const std::byte* scales, int64_t lane) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + 2 * lane)));
}

// An exact-accumulation block of some rows whose tiles have been summed.
struct TileSums {
  int32_t* sums;  // [rows, kPanel]
  const TileUnit* unit;
  int64_t done;  // quads that the sums contain
  const int8_t* x;
  const float* x_scales;
  const int32_t* x_sums;
  int64_t rows;
  float* acc;  // [rows, kPanel]
};

// Adds it to the results, some rows at a time.
template <int kKind>
class TileAdder {
 public:
  TileAdder(const TileSums& of, int64_t x_bytes) : of_(of) {
    if (of.done < of.unit->quads)
      sum_rest(of.x + 4 * of.done, x_bytes, of.unit->codes + of.done * kQuad, of.unit->quads - of.done,
               of.rows, of.sums);
    if constexpr (kKind != kInt8Rows) {
      scales_[0] = tile_scales(of.unit->scales, 0);
      scales_[1] = tile_scales(of.unit->scales, kPanel / 2);
    }
  }
  void add(int64_t rows) {
    const int64_t end = row_ + rows < of_.rows ? row_ + rows : of_.rows;
    const int32_t* sums = of_.sums + row_ * kPanel;
    float* acc = of_.acc + row_ * kPanel;
    for (; row_ < end; ++row_, sums += kPanel, acc += kPanel) {
      const __m512i begin = _mm512_set1_epi32(of_.x_sums[row_]);
      const __m512 x_scale = _mm512_set1_ps(of_.x_scales[row_]);
      QUIRE_UNROLL
      for (int h = 0; h < 2; ++h) {
        const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums + h * kPanel / 2), begin);
        const __m512 factor = kKind == kInt8Rows ? x_scale : _mm512_mul_ps(x_scale, scales_[h]);
        float* result = acc + h * kPanel / 2;
        _mm512_storeu_ps(result, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, _mm512_loadu_ps(result)));
      }
    }
  }
  int64_t rows() const { return of_.rows; }

 private:
  const TileSums of_;
  int64_t row_ = 0;
  __m512 scales_[2] = {};
};
struct NoTileAdder {
  void add(int64_t /*rows*/) {}
  int64_t rows() const { return 0; }
};

// sums [rows, kPanel] = the products of `steps` tiles along K. Between them, the adder adds its rows, so that
// vectors and tiles are computed at the same time.
template <class Adder>
inline void sum_tiles(const int8_t* x, int64_t x_bytes, const std::byte* codes, int64_t steps,
                      int64_t tile_quads, bool two, int32_t* sums, TilePrefetch& ahead, Adder&& adder) {
  const int64_t share = steps > 0 ? (adder.rows() + 2 * steps - 1) / (2 * steps) : 0;
  _tile_zero(0);
  _tile_zero(1);
  if (two) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; ++s, x += 4 * tile_quads, codes += tile_quads * kQuad) {
    _tile_loadd(6, codes, kQuad);
    _tile_loadd(7, codes + kTileRowBytes, kQuad);
    _tile_loadd(4, x, x_bytes);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    ahead.step();
    adder.add(share);
    if (!two) {
      adder.add(share);
      continue;
    }
    _tile_loadd(5, x + kTileRows * x_bytes, x_bytes);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
    adder.add(share);
  }
  adder.add(kIntTileBlock);
  constexpr int64_t kRowBytes = kPanel * static_cast<int64_t>(sizeof(int32_t));
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kPanel / 2, kRowBytes);
  if (!two) return;
  _tile_stored(2, sums + kTileRows * kPanel, kRowBytes);
  _tile_stored(3, sums + kTileRows * kPanel + kPanel / 2, kRowBytes);
}

// The results of a block of rows.
template <int kKind>
void finish_tiles(const IntLinearArgs& a, int64_t row, int64_t rows, int64_t panel, const float* acc) {
  const std::byte* scales = a.weights + panel * a.panel_bytes;
  const bool plain = a.gate.apply == nullptr && a.bias == nullptr && a.residual == nullptr;
  const bool whole = plain && (panel + 1) * kPanel <= a.n;
  for (int64_t r = 0; r < rows; ++r, acc += kPanel) {
    __m512 result[2] = {_mm512_loadu_ps(acc), _mm512_loadu_ps(acc + kPanel / 2)};
    if constexpr (kKind == kInt8Rows) {
      result[0] = _mm512_mul_ps(result[0], _mm512_loadu_ps(scales));
      result[1] = _mm512_mul_ps(result[1], _mm512_loadu_ps(scales + 2 * kPanel));
    }
    if (whole) {
      float* out = a.out + (row + r) * a.out_stride + panel * kPanel;
      _mm512_storeu_ps(out, result[0]);
      _mm512_storeu_ps(out + kPanel / 2, result[1]);
    } else {
      finish_pair<Avx512>(a, row + r, panel * kPanel, result[0], result[1]);
    }
  }
}

// Blocks [first, first + count) of `at`, at most kTileBlocks, times a panel. configured: rows that the tiles
// are configured for.
template <int kKind>
void multiply_tile_blocks(const IntLinearArgs& a, const IntBlocks& at, int64_t first, int64_t count,
                          int64_t panel, int64_t tile_quads, int64_t& configured) {
  alignas(64) float acc[kTileBlocks * kIntTileBlock * kPanel];
  // The sums of two blocks in turn: those of one are added while the tiles of the next are multiplied,
  // because what a tile has just stored cannot be read at once.
  alignas(64) int32_t sums[2][kIntTileBlock * kPanel];
  TileSums stored[2];
  const auto first_row = [&](int64_t block) { return at.rows * (at.first + first + block) / at.count; };
  const int64_t begin = first_row(0);
  __builtin_memset(acc, 0, static_cast<size_t>((first_row(count) - begin) * kPanel) * sizeof(float));
  const auto finish = [&](int64_t b) {
    const int64_t row = first_row(b);
    finish_tiles<kKind>(a, row, first_row(b + 1) - row, panel, acc + (row - begin) * kPanel);
  };
  TilePrefetch ahead(a, panel, tile_quads, count);
  TilePlace place = {a.weights + panel * a.panel_bytes, a.in.k, 0};
  int64_t unit = 0;
  TileSlice slice;
  for (next_slice(a, place, slice); slice.count > 0; unit += slice.count, next_slice(a, place, slice)) {
    int64_t turn = 0;
    for (int64_t b = 0; b < count; ++b) {
      const int64_t row = first_row(b);
      const int64_t rows = first_row(b + 1) - row;
      if (rows != configured) configure_tiles(configured = rows, tile_quads);
      const int8_t* x = a.in.codes + row * a.in.depth + unit * a.in.unit;
      const int64_t of_unit = row * a.in.num_units + unit * rows;
      for (int u = 0; u < slice.count; ++u, x += a.in.unit, ++turn) {
        const TileUnit& own = slice.units[u];
        const int64_t steps = own.quads / tile_quads;
        TileSums& now = stored[turn % 2];
        now = {sums[turn % 2],
               &own,
               steps * tile_quads,
               x,
               a.in.scales + of_unit + u * rows,
               a.in.sums + of_unit + u * rows,
               rows,
               acc + (row - begin) * kPanel};
        const auto sum = [&](auto&& adder) __attribute__((always_inline)) {
          sum_tiles(x, a.in.depth, own.codes, steps, tile_quads, rows > kTileRows, now.sums, ahead, adder);
        };
        if (turn > 0) {
          sum(TileAdder<kKind>(stored[(turn - 1) % 2], a.in.depth));
        } else {
          sum(NoTileAdder());
        }
      }
      // The block before is complete.
      if (place.left == 0 && b > 0) finish(b - 1);
    }
    TileAdder<kKind>(stored[(turn - 1) % 2], a.in.depth).add(kIntTileBlock);
  }
  finish(count - 1);
}

template <int kKind>
void linear_int_tiles(const IntLinearArgs& a, const IntBlocks& at, int64_t panel, int64_t panel_end) {
  // Units of 32 elements fill half a tile.
  const int64_t tile_quads = a.in.unit < 64 ? kTileRows / 2 : kTileRows;
  int64_t configured = 0;
  for (; panel < panel_end; ++panel) {
    for (int64_t first = 0; first < at.num; first += kTileBlocks) {
      const int64_t count = at.num - first < kTileBlocks ? at.num - first : kTileBlocks;
      multiply_tile_blocks<kKind>(a, at, first, count, panel, tile_quads, configured);
    }
  }
  // An idle thread with tiles in use keeps its core from entering deep sleep states.
  _tile_release();
}
