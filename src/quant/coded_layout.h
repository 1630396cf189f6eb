// Where codes, scales and minima of a matrix of codes (coded_matrix.h) lie, packed. All op tables share the
// layout and the bytes. Plain data and free functions; any thread.
//
// A matrix is cut into panels of 32 rows of W (columns of the product), the last one padded with zeros. A
// panel is its blocks of k one behind the other, each a header, padded to 64 bytes, and codes:
//   block scales   [32] float32, or float16 or bfloat16 as the format has them; tables of rows: [32][2^bits]
//   block minima   [32] the same; with minima
//   group scales   [groups][32] bytes; two levels
//   group minima   [groups][32] bytes; two levels with minima
//   group zeros    [groups][32] bytes; with zeros
// Codes are bytes [k / 4][32][4], four k's of a column side by side, whose bits are cut into planes of 8, 4,
// 2 and 1 bits, and 8 / bits of the bytes of a plane share one, the first in the lowest bits:
//   8 bits  one plane of 8 (7 bits too)     4 bits  one of 4
//   6 bits  4 low and 2 high                3 bits  2 low and 1 high
//   5 bits  4 low and 1 high                2 bits  one of 2 (1 bit too)
// A unit is the k's that fill a line, 128 bytes, of the narrowest plane; a unit's planes follow each other.
// The codes of a block are padded to whole units.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quant/coded_matrix.h"

namespace quire {

// Throws Error that says which field no kernel can take.
void check_coded_format(const CodedFormat& format);

struct CodedLayout {
  static constexpr int64_t kPanel = 32;
  static constexpr int64_t kLine = 128;  // bytes: 4 of each column

  CodedFormat format;
  int64_t k = 0;
  int64_t group = 0;        // k's
  int64_t block = 0;        // k's
  int32_t bits = 0;         // that a code takes: 2, 3, 4, 5, 6 or 8
  int64_t unit = 0;         // k's
  int64_t scale_bytes = 0;  // of one block scale
  int64_t num_scales = 0;   // of a block of a row
  int64_t block_bytes = 0;  // of a block that is not the last
  int64_t panel_bytes = 0;

  // Where the parts of a block's header begin, which depends on its number of groups; codes: all of it.
  struct Header {
    int64_t minima = 0;
    int64_t group_scales = 0;
    int64_t group_minima = 0;
    int64_t group_zeros = 0;
    int64_t codes = 0;
  };

  CodedLayout(const CodedFormat& coded, int64_t row_size);

  int64_t num_panels(int64_t n) const { return (n + kPanel - 1) / kPanel; }
  int64_t groups_of(int64_t depth) const { return (depth + group - 1) / group; }
  int64_t num_groups() const { return groups_of(k); }
  int64_t num_blocks() const { return (k + block - 1) / block; }
  // k's of block `index`.
  int64_t depth_of(int64_t index) const { return k - index * block < block ? k - index * block : block; }
  Header header(int64_t depth) const;
};

// Rows [first, first + 32) of a matrix, those that there are, into a panel's bytes. A block with a code or a
// scale of a group that stands for NaN gets a block scale of NaN. rows: the parts of one matrix, one below
// the other.
class CodedPacker {
 public:
  explicit CodedPacker(const CodedLayout& layout);
  void pack(std::span<const CodedMatrix* const> parts, int64_t first, std::byte* panel);

 private:
  void read(std::span<const CodedMatrix* const> parts, int64_t first);
  void store_header(int64_t index, std::byte* block) const;
  void store_codes(int64_t index, std::byte* codes) const;

  const CodedLayout& at_;
  // One row behind the other.
  std::vector<uint8_t> codes_;         // [32][k]
  std::vector<float> block_scales_;    // [32][blocks][scales_of_block]
  std::vector<float> block_minima_;    // [32][blocks]
  std::vector<int8_t> group_scales_;   // [32][groups]
  std::vector<uint8_t> group_minima_;  // [32][groups]
  std::vector<uint8_t> group_zeros_;   // [32][groups]
};

// What the code of packed column i of row `row` of W is turned into a weight with. Not of tables of rows.
struct CodedGroup {
  float scale = 0.0F;
  float minimum = 0.0F;
  int32_t zero = 0;  // linear codes
};
CodedGroup coded_group(const CodedLayout& at, const std::byte* weights, int64_t row, int64_t i);
int32_t coded_code(const CodedLayout& at, const std::byte* weights, int64_t row, int64_t i);

// How products of whole numbers are summed: those of a unit of k's as int32, exactly, and then units one
// after the other, each from weights of one scale and activations of one scale:
//   sum = fma(join(sum of (number - zero) * x), x_scale * (scale * step), sum)
//   sum = fma(shift, x_scale * join(-sum of x), sum)                       with minima or zeros of groups
// x is an int8 activation, or each of the digits of a float32 one, whose sums join_digits puts together
// (activation_digits.h). shift is the minimum, or with zeros of groups, which are not taken off the numbers,
// fma(scale, zero, minimum).
struct CodedIntUnits {
  int64_t unit = 0;              // k's, at most 128; groups are whole units
  int64_t activation_group = 0;  // k's that share a scale of the activations, whole units
  int64_t num_units = 0;         // in a row
  int64_t depth = 0;             // k rounded up to 8: elements of a row of activations

  explicit CodedIntUnits(const CodedLayout& at);
};

// The whole numbers that codes stand for there: linear codes themselves, entries of a table divided by
// `step`.
struct CodedNumbers {
  bool table = false;
  std::array<int8_t, 16> numbers = {};  // of a table
  float step = 1.0F;                    // a power of two
};
// None where the codes stand for no whole numbers of 8 bits: they become float32 numbers.
std::optional<CodedNumbers> coded_numbers(const CodedFormat& format);

// Weights [begin, end) of row `row` of W, in packed order: out[0, end - begin). The plain form of what the
// kernels do, bit by bit.
void decode_coded(const CodedLayout& at, const std::byte* weights, int64_t row, int64_t begin, int64_t end,
                  float* out);

// Weight `i`, in packed order, of each of the 32 rows of a panel. Not of tables of rows.
void decode_coded_column(const CodedLayout& at, const std::byte* weights, int64_t panel, int64_t i,
                         float* out);

}  // namespace quire
