// The tile registers of AMX: eight matrices of up to 16 rows of 64 bytes.

constexpr int kTileRows = 16;
constexpr int64_t kTileRowBytes = 64;
// Rows in two tiles of activations.
constexpr int64_t kTileBlock = 2 * kTileRows;

// Memory layout of the operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0, 1: sums of the first 16 rows. Tiles 2, 3: sums of the other rows. Tiles 4, 5: their activations.
// Tiles 6, 7: weights of the two halves of a panel's columns. rows: at most kTileBlock. depth: groups of four
// bytes along K in a tile of activations, which are the rows of a tile of weights; at most 16.
inline void configure_tiles(int64_t rows, int64_t depth) {
  TileConfig config;
  const auto first = static_cast<uint8_t>(rows < kTileRows ? rows : kTileRows);
  const auto second = static_cast<uint8_t>(rows - first);
  const auto deep = static_cast<uint8_t>(depth);
  const uint8_t of_tile[8] = {first, first, second, second, first, second, deep, deep};
  for (int t = 0; t < 8; ++t) {
    const bool activations = t == 4 || t == 5;
    config.rows[t] = of_tile[t];
    config.row_bytes[t] = static_cast<uint16_t>(of_tile[t] == 0 ? 0
                                                : activations   ? 4 * depth
                                                                : kTileRowBytes);
  }
  // The intrinsic declares only the first bytes of its operand.
  asm volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
}
