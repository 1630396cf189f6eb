// out = x w^T over packed panels of bfloat16, on the tile registers of AMX. Activations are rounded to
// bfloat16 (prepare_x), and a panel's pairs of k are just what a tile of weights holds. A row of a tile is
// computed by itself, so an output does not depend on how rows are cut into tiles: steps of 32 k one after
// the other, as the processor adds their pairs, then pair by pair what is left of k.

constexpr int kTileRows = 16;
// Pairs of k in a step: the rows of a tile of weights.
constexpr int64_t kTilePairs = 16;
constexpr int64_t kTileRowBytes = 64;
// Rows that two tiles of activations hold.
constexpr int64_t kTileBlock = 2 * kTileRows;

// What LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0, 1: sums of the first 16 rows; 2, 3: of the others; 4, 5: their activations; 6, 7: weights of the
// two halves of a panel's columns.
inline void configure_tiles(int64_t rows) {
  TileConfig config;
  const auto first = static_cast<uint8_t>(rows < kTileRows ? rows : kTileRows);
  const auto second = static_cast<uint8_t>(rows - first);
  const uint8_t of_tile[8] = {first, first, second, second, first, second, kTilePairs, kTilePairs};
  for (int t = 0; t < 8; ++t) {
    config.rows[t] = of_tile[t];
    config.row_bytes[t] = of_tile[t] == 0 ? 0 : kTileRowBytes;
  }
  // The intrinsic tells the compiler of the first bytes alone.
  asm volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// acc [rows, kPanel] = steps of x times a panel, with tiles configured for so many rows.
inline void multiply_tiles(const char* x, int64_t x_bytes, const char* weights, int64_t steps, bool two,
                           float* acc) {
  constexpr int64_t kStoredRow = 2 * kTileRowBytes;
  _tile_zero(0);
  _tile_zero(1);
  if (two) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; ++s, x += kTileRowBytes, weights += kTilePairs * kStoredRow) {
    _tile_loadd(6, weights, kStoredRow);
    _tile_loadd(7, weights + kTileRowBytes, kStoredRow);
    _tile_loadd(4, x, x_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!two) continue;
    _tile_loadd(5, x + kTileRows * x_bytes, x_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  constexpr int64_t kAccBytes = kPanel * static_cast<int64_t>(sizeof(float));
  _tile_stored(0, acc, kAccBytes);
  _tile_stored(1, acc + kPanel / 2, kAccBytes);
  if (!two) return;
  _tile_stored(2, acc + kTileRows * kPanel, kAccBytes);
  _tile_stored(3, acc + kTileRows * kPanel + kPanel / 2, kAccBytes);
}

// The pairs of k from `pair` on, which fill no tile.
inline void multiply_rest(const LinearArgs& args, int64_t row, int64_t rows, const uint16_t* weights,
                          int64_t pair, int64_t pairs, float* acc) {
  for (int64_t r = 0; r < rows; ++r, acc += kPanel) {
    const auto* x = static_cast<const uint32_t*>(args.x) + (row + r) * args.x_stride;
    __m512 low = _mm512_loadu_ps(acc);
    __m512 high = _mm512_loadu_ps(acc + kPanel / 2);
    for (int64_t p = pair; p < pairs; ++p) {
      const uint16_t* w = weights + p * 2 * kPanel;
      low = RoundedBF16::multiply<Avx512>(x[p], RoundedBF16::weights<Avx512>(w, 0), low);
      high = RoundedBF16::multiply<Avx512>(x[p], RoundedBF16::weights<Avx512>(w + kPanel, 0), high);
    }
    _mm512_storeu_ps(acc, low);
    _mm512_storeu_ps(acc + kPanel / 2, high);
  }
}

inline void linear_amx(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
                       int64_t panel_end) {
  alignas(64) float acc[kTileBlock * kPanel];
  const int64_t pairs = (args.k + 1) / 2;
  const int64_t steps = pairs / kTilePairs;
  const int64_t x_bytes = args.x_stride * static_cast<int64_t>(sizeof(uint32_t));
  int64_t configured = 0;
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    const auto* weights = static_cast<const uint16_t*>(args.weights) + panel * pairs * 2 * kPanel;
    for (int64_t row = row_begin; row < row_end; row += kTileBlock) {
      const int64_t rows = row_end - row < kTileBlock ? row_end - row : kTileBlock;
      if (rows != configured) configure_tiles(configured = rows);
      multiply_tiles(static_cast<const char*>(args.x) + row * x_bytes, x_bytes,
                     reinterpret_cast<const char*>(weights), steps, rows > kTileRows, acc);
      multiply_rest(args, row, rows, weights, steps * kTilePairs, pairs, acc);
      finish_units<Avx512>(args, row, rows, panel, 1, acc);
    }
  }
  // A thread that rests with tiles in use keeps the processor from sleeping deeply.
  _tile_release();
}

// Independent sums of products on tiles. Returns the operations done.
inline double probe_amx_bf16(int64_t rounds, float* sink) {
  constexpr int64_t kSums = 4;
  alignas(64) float acc[kTileBlock * kPanel];
  alignas(64) const char zeros[kTileRowBytes * kTileRows] = {};
  asm volatile("" ::"r"(zeros) : "memory");
  configure_tiles(kTileBlock);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, kTileRowBytes);
  _tile_loadd(5, zeros, kTileRowBytes);
  _tile_loadd(6, zeros, kTileRowBytes);
  _tile_loadd(7, zeros, kTileRowBytes);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, acc, kTileRowBytes);
  _tile_release();
  _mm512_storeu_ps(sink, _mm512_loadu_ps(acc));
  return 2.0 * kTileRows * kTileRows * 2 * kTilePairs * kSums * static_cast<double>(rounds);
}
