// The AMX tile kernels with emulated tile instructions, one element at a time as in Intel's manual, to test
// them on machines without AMX. Compiled for AVX512-BF16; nothing here is shared with other files.
#include "amx_emulated.h"

#include <immintrin.h>

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbsud

namespace quire::cpu {
namespace {

struct Tiles {
  struct Tile {
    int rows = 0;
    int row_bytes = 0;
    unsigned char data[16][64];
  };
  Tile tile[8];
  bool used_badly = false;

  void configure(const void* config) {
    const auto* bytes = static_cast<const unsigned char*>(config);
    if (bytes[0] != 1) used_badly = true;
    for (int t = 0; t < 8; ++t) {
      tile[t].row_bytes = bytes[16 + 2 * t] + 256 * bytes[17 + 2 * t];
      tile[t].rows = bytes[48 + t];
      if (tile[t].rows > 16 || tile[t].row_bytes > 64) used_badly = true;
      clear(t);
    }
  }
  // Checks that the tile is configured. On hardware, using an unconfigured tile raises an exception.
  Tile& used(int t) {
    if (tile[t].rows == 0 || tile[t].row_bytes == 0) used_badly = true;
    return tile[t];
  }
  void zero(int t) {
    used(t);
    clear(t);
  }
  void clear(int t) {
    for (auto& row : tile[t].data) {
      for (unsigned char& byte : row) byte = 0;
    }
  }
  void load(int t, const void* from, long stride) {
    Tile& to = used(t);
    clear(t);
    for (int r = 0; r < to.rows; ++r) {
      for (int i = 0; i < to.row_bytes; ++i)
        to.data[r][i] = static_cast<const unsigned char*>(from)[r * stride + i];
    }
  }
  void store(int t, void* to, long stride) {
    const Tile& from = used(t);
    for (int r = 0; r < from.rows; ++r) {
      for (int i = 0; i < from.row_bytes; ++i)
        static_cast<unsigned char*>(to)[r * stride + i] = from.data[r][i];
    }
  }
  // The tile of sums. Checks that the shapes of the operands match.
  Tile& sums_of(int sums, int a, int b) {
    Tile& c = used(sums);
    if (used(a).rows != c.rows || used(b).row_bytes != c.row_bytes || tile[a].row_bytes != 4 * tile[b].rows)
      used_badly = true;
    return c;
  }
  // sums [m][n] += a [m][2 k] * b [k][2 n], pair by pair.
  void add_products(int sums, int a, int b) {
    Tile& c = sums_of(sums, a, b);
    for (int m = 0; m < c.rows; ++m) {
      for (int k = 0; k < tile[b].rows; ++k) {
        for (int n = 0; n < c.row_bytes / 4; ++n) {
          float sum = 0;
          __builtin_memcpy(&sum, &c.data[m][4 * n], 4);
          sum += number(a, m, 2 * k) * number(b, k, 2 * n);
          sum += number(a, m, 2 * k + 1) * number(b, k, 2 * n + 1);
          __builtin_memcpy(&c.data[m][4 * n], &sum, 4);
        }
      }
    }
  }
  // sums [m][n] += a [m][4 k] * b [k][4 n]: signed by unsigned bytes.
  void add_byte_products(int sums, int a, int b) {
    Tile& c = sums_of(sums, a, b);
    for (int m = 0; m < c.rows; ++m) {
      for (int n = 0; n < c.row_bytes / 4; ++n) {
        int sum = 0;
        __builtin_memcpy(&sum, &c.data[m][4 * n], 4);
        for (int k = 0; k < tile[b].rows; ++k) {
          for (int i = 0; i < 4; ++i)
            sum += static_cast<signed char>(tile[a].data[m][4 * k + i]) * tile[b].data[k][4 * n + i];
        }
        __builtin_memcpy(&c.data[m][4 * n], &sum, 4);
      }
    }
  }
  float number(int t, int row, int i) const {
    unsigned char bytes[4] = {0, 0, tile[t].data[row][2 * i], tile[t].data[row][2 * i + 1]};
    float value = 0;
    __builtin_memcpy(&value, bytes, 4);
    return value;
  }
};

thread_local Tiles tiles;

#define _tile_loadconfig(config) tiles.configure(config)
#define _tile_release() ((void)0)
#define _tile_loadd(t, from, stride) tiles.load(t, from, stride)
#define _tile_stored(t, to, stride) tiles.store(t, to, stride)
#define _tile_zero(t) tiles.zero(t)
#define _tile_dpbf16ps(sums, a, b) tiles.add_products(sums, a, b)
#define _tile_dpbsud(sums, a, b) tiles.add_byte_products(sums, a, b)

#include "backends/cpu/kernels/unroll.inc.h"

#include "backends/cpu/kernels/vec_avx512.inc.h"

#include "backends/cpu/kernels/storage.inc.h"

#include "backends/cpu/kernels/finish.inc.h"

#include "backends/cpu/kernels/linear.inc.h"

#include "backends/cpu/kernels/linear_bf16.inc.h"

#include "backends/cpu/kernels/tiles.inc.h"

#include "backends/cpu/kernels/linear_amx.inc.h"

#include "backends/cpu/kernels/quantize_rows.inc.h"

#include "backends/cpu/kernels/linear_int_tiles.inc.h"

// Sets the outputs to NaN if a tile was misused.
void linear_or_nan(const LinearArgs& args, int64_t row_begin, int64_t row_end, int64_t panel_begin,
                   int64_t panel_end) {
  tiles.used_badly = false;
  linear_amx(args, row_begin, row_end, panel_begin, panel_end);
  if (tiles.used_badly) args.out[row_begin * args.out_stride] = __builtin_nanf("");
}

template <int kKind>
void linear_int_or_nan(const IntLinearArgs& args, const IntBlocks& blocks, int64_t panel, int64_t panel_end) {
  tiles.used_badly = false;
  linear_int_tiles<kKind>(args, blocks, panel, panel_end);
  if (tiles.used_badly) args.out[0] = __builtin_nanf("");
}

}  // namespace

void fill_amx_emulated(CpuKernels& kernels) {
  kernels.linear[kStorageBF16] = linear_or_nan;
  kernels.int_tile_rows = 2;
  kernels.quantize_flat = quantize_rows<Avx512, true>;
  kernels.linear_int_tiles[kInt8Rows] = linear_int_or_nan<kInt8Rows>;
  kernels.linear_int_tiles[kInt8Groups] = linear_int_or_nan<kInt8Groups>;
}

}  // namespace quire::cpu
