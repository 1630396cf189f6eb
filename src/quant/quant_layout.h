// Packed layout of quantized matrices (quantized_matrix.h): codes, scales and mins. All op tables share the
// layout and the bytes. Plain data and free functions; thread-safe.
//
// A matrix is divided into panels of 32 rows of W (columns of the product); the last panel is padded with
// zeros. A panel is a sequence of blocks along K. Each block has a header, padded to 64 bytes, and codes:
//   block scales       [32] float32, float16 or bfloat16, depending on the format; row tables: [32][2^bits]
//   block mins         [32] of the same type; with mins
//   group scales       [groups][32] bytes; two levels
//   group mins         [groups][32] bytes; two levels with mins
//   group zero points  [groups][32] bytes; with zero points
// Codes are bytes [k / 4][32][4]: four elements along K of a column are contiguous. Their bits are divided
// into planes of 8, 4, 2 and 1 bits. In a plane, 8 / bits of these bytes share a byte, the first in the
// lowest bits:
//   8 bits  one plane of 8 (also 7 bits)    4 bits  one of 4
//   6 bits  4 low and 2 high                3 bits  2 low and 1 high
//   5 bits  4 low and 1 high                2 bits  one of 2 (also 1 bit)
// A unit is the number of elements along K that fill a line, 128 bytes, of the narrowest plane; the planes of
// a unit are contiguous. The codes of a block are padded to full units.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/quantized_matrix.h"

namespace quire {

// Throws Error with the unsupported field if no kernel supports the format.
void check_quant_format(const QuantFormat& format);

struct QuantLayout {
  static constexpr int64_t kPanel = 32;
  static constexpr int64_t kLine = 128;  // bytes: 4 per column

  QuantFormat format;
  int64_t k = 0;
  int64_t group = 0;        // elements along K per group
  int64_t block = 0;        // elements along K per block
  int32_t bits = 0;         // stored bits per code: 2, 3, 4, 5, 6 or 8
  int64_t unit = 0;         // elements along K per unit
  int64_t scale_bytes = 0;  // bytes of one block scale
  int64_t num_scales = 0;   // scales per block and row
  int64_t block_bytes = 0;  // size of a block other than the last
  int64_t panel_bytes = 0;

  // Offsets of the parts of a block's header, which depend on its number of groups. codes: size of the
  // header.
  struct Header {
    int64_t minima = 0;
    int64_t group_scales = 0;
    int64_t group_minima = 0;
    int64_t group_zero_points = 0;
    int64_t codes = 0;
  };

  QuantLayout(const QuantFormat& quantized, int64_t row_size);

  int64_t num_panels(int64_t n) const { return (n + kPanel - 1) / kPanel; }
  int64_t groups_of(int64_t depth) const { return (depth + group - 1) / group; }
  int64_t num_groups() const { return groups_of(k); }
  int64_t num_blocks() const { return (k + block - 1) / block; }
  // Number of elements along K in block `index`.
  int64_t depth_of(int64_t index) const { return k - index * block < block ? k - index * block : block; }
  Header header(int64_t depth) const;
};

// Packs rows [first, first + 32) of a matrix, as far as they exist, to the bytes of a panel. If a code or a
// group scale of a block represents NaN, its block scale becomes NaN. parts: the parts of one matrix, stacked
// along rows.
class QuantizedPacker {
 public:
  explicit QuantizedPacker(const QuantLayout& layout);
  void pack(std::span<const QuantizedMatrix* const> parts, int64_t first, std::byte* panel);

 private:
  void read(std::span<const QuantizedMatrix* const> parts, int64_t first);
  void store_header(int64_t index, std::byte* block) const;
  void store_codes(int64_t index, std::byte* codes) const;

  const QuantLayout& at_;
  // Buffers for the rows of one panel.
  std::vector<uint8_t> codes_;              // [32][k]
  std::vector<float> block_scales_;         // [32][blocks][scales_of_block]
  std::vector<float> block_minima_;         // [32][blocks]
  std::vector<int8_t> group_scales_;        // [32][groups]
  std::vector<uint8_t> group_minima_;       // [32][groups]
  std::vector<uint8_t> group_zero_points_;  // [32][groups]
};

// Parameters that convert the code of packed column i of row `row` of W to a weight. Not for row tables.
struct QuantGroup {
  float scale = 0.0F;
  float minimum = 0.0F;
  int32_t zero_point = 0;  // for linear codes
};
QuantGroup quant_group(const QuantLayout& at, const std::byte* weights, int64_t row, int64_t i);
// out[0, end - begin) = the codes of packed columns [begin, end) of row `row` of W.
void load_row_codes(const QuantLayout& at, const std::byte* weights, int64_t row, int64_t begin, int64_t end,
                    uint8_t* out);

// Order of accumulation of integer products: the products of an exact-accumulation block along K are summed
// exactly as int32. Blocks are added in order; the weights of a block share a scale, and so do its
// activations:
//   sum = fma(join(sum of (integer - zero_point) * x), x_scale * (scale * step), sum)
//   sum = fma(shift, x_scale * join(-sum of x), sum)         with mins or zero points per group
// x is an int8 activation, or each int8 slice of a float32 activation; join_slices combines the sums of
// slices (activation_slices.h). shift is the min. With zero points per group, which are not subtracted from
// the integers, it is fma(scale, zero_point, min).
struct IntBlocking {
  int64_t unit = 0;  // elements along K per exact-accumulation block, at most 128; groups are multiples of it
  // Elements along K that share an activation scale: a multiple of unit, or the full row.
  int64_t activation_group = 0;
  int64_t num_units = 0;  // exact-accumulation blocks per row
  int64_t depth = 0;      // k rounded up to 8: elements per row of activations

  // token_scales: all activations of a row share a scale.
  IntBlocking(const QuantLayout& at, bool token_scales);
};

// The integers that codes represent: linear codes themselves, or the entries of a table divided by `step`.
struct IntegerValues {
  bool table = false;
  std::array<int8_t, 16> numbers = {};  // for codes of a table
  float step = 1.0F;                    // a power of two
};
// Returns nullopt if codes do not represent 8-bit integers; they are then multiplied as float32.
std::optional<IntegerValues> integer_values(const QuantFormat& format);

// Decodes weights [begin, end) of row `row` of W, in packed order, to out[0, end - begin). Reference
// implementation of the kernels, with the same bits.
void decode_quantized(const QuantLayout& at, const std::byte* weights, int64_t row, int64_t begin,
                      int64_t end, float* out);

// Decodes weight `i`, in packed order, of each of the 32 rows of a panel. Not for row tables.
void decode_quantized_column(const QuantLayout& at, const std::byte* weights, int64_t panel, int64_t i,
                             float* out);

}  // namespace quire
