// out = x w^T over packed panels of bfloat16, on the tile registers of AMX. Activations are rounded to
// bfloat16 (prepare_x), and the pairs of a panel have the layout of a tile of weights. Each row of a tile is
// computed independently, so an output does not depend on how rows are divided into tiles. Terms are added in
// steps of 32 elements along K, in the processor's order of pairs, then pair by pair for the rest.

// Pairs along K per step: the rows of a tile of weights.
constexpr int64_t kTilePairs = 16;

// acc [rows, kPanel] = `steps` steps of x times a panel. Tiles are configured for this number of rows.
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

// The pairs along K starting at `pair`, which do not fill a tile.
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
      if (rows != configured) configure_tiles(configured = rows, kTilePairs);
      multiply_tiles(static_cast<const char*>(args.x) + row * x_bytes, x_bytes,
                     reinterpret_cast<const char*>(weights), steps, rows > kTileRows, acc);
      multiply_rest(args, row, rows, weights, steps * kTilePairs, pairs, acc);
      finish_units<Avx512>(args, row, rows, panel, 1, acc);
    }
  }
  // An idle thread with tiles in use keeps its core from entering deep sleep states.
  _tile_release();
}

// Independent sums of tile products. Returns the number of operations.
inline double probe_amx_bf16(int64_t rounds, float* sink) {
  constexpr int64_t kSums = 4;
  alignas(64) float acc[kTileBlock * kPanel];
  alignas(64) const char zeros[kTileRowBytes * kTileRows] = {};
  asm volatile("" ::"r"(zeros) : "memory");
  configure_tiles(kTileBlock, kTilePairs);
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
