// A matrix of quantized weights as a checkpoint stores it, whatever its packing: rows of codes, and what
// turns codes into weights. Checkpoints give it (io/), op tables pack it into their own layout without loss.
// Load time only; reading rows is const and may be done by several threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// What a code stands for before its scale: code - zero, or an entry of a table; or the weight itself.
enum class CodeValues : uint8_t {
  kLinear,    // the code as a number, less the format's `zero`
  kTable,     // CodedFormat::table[code]
  kRowTable,  // the weight: an entry of the row's own table, which is in block_scales: [2^code_bits]
};

// How the codes of one matrix become weights. A row's k's are cut into groups that share a scale, and these,
// where there are two levels of scales, into blocks of several whole groups:
//   weight[i] = scale(i) * value(code[i]) - minimum(i)
// with one level (block_size == group_size)
//   scale = block_scales[i / group_size], minimum = block_minima[i / group_size]
// and with two
//   scale   = block_scales[i / block_size] * group_scales[i / group_size]
//   minimum = block_minima[i / block_size] * group_minima[i / group_size]
// Without minima that term is 0.
// All of it in float32 in this order, the two products rounded once each before the difference: so decoded
// weights have the bits that the tool which made the checkpoint has. A size of 0 is the whole row.
struct CodedFormat {
  int32_t code_bits = 4;    // 1 to 8: codes are 0 .. 2^code_bits - 1
  int64_t group_size = 32;  // k's; the last group of a row may be short. 0: the whole row
  int64_t block_size = 32;  // k's; group_size, or a multiple of it. 0: the whole row
  CodeValues values = CodeValues::kLinear;
  int32_t zero = 0;                   // kLinear
  std::span<const float> table = {};  // kTable: [2^code_bits], static storage
  bool group_zeros = false;           // kLinear: each group has a whole zero of its own in place of `zero`
  bool minima = false;
  bool half_scales = false;    // each of block_scales and block_minima is a float16 number
  bool bfloat_scales = false;  // the same, a bfloat16 number
  // Two levels: group_scales are indices of this table ([256], static storage), as unsigned numbers. Empty:
  // they are the numbers themselves.
  std::span<const float> group_scale_table = {};

  bool two_levels() const { return block_size != group_size; }
  friend bool operator==(const CodedFormat& a, const CodedFormat& b) {
    return a.code_bits == b.code_bits && a.group_size == b.group_size && a.block_size == b.block_size &&
           a.values == b.values && a.zero == b.zero && a.table.data() == b.table.data() &&
           a.table.size() == b.table.size() && a.group_zeros == b.group_zeros && a.minima == b.minima &&
           a.half_scales == b.half_scales && a.bfloat_scales == b.bfloat_scales &&
           a.group_scale_table.data() == b.group_scale_table.data();
  }
};

// How many numbers of block_scales a block has.
inline int64_t scales_of_block(const CodedFormat& format) {
  return format.values == CodeValues::kRowTable ? int64_t{1} << format.code_bits : 1;
}

// Room for one row, of the caller.
struct CodedRow {
  std::span<uint8_t> codes;         // [k]
  std::span<float> block_scales;    // [k / block_size, rounded up][scales_of_block]
  std::span<int8_t> group_scales;   // [k / group_size, rounded up]; two levels
  std::span<float> block_minima;    // as block_scales; with minima
  std::span<uint8_t> group_minima;  // as group_scales; two levels with minima
  std::span<uint8_t> group_zeros;   // [k / group_size, rounded up]; with group_zeros
};

// What is added to the weight of an input feature, in float32.
struct Outlier {
  int32_t feature = 0;
  float value = 0.0F;
};

class CodedMatrix {
 public:
  virtual ~CodedMatrix() = default;
  virtual const CodedFormat& format() const = 0;
  virtual int64_t rows() const = 0;  // output features
  virtual int64_t cols() const = 0;  // input features
  // Input features may be stored in another order (act-order): column i of what read_rows gives belongs to
  // input feature column_order()[i]. Empty: as they are.
  virtual std::span<const int32_t> column_order() const { return {}; }
  // Rows [first, first + out.size()), each into its place; fills what the format has.
  virtual void read_rows(int64_t first, std::span<const CodedRow> out) const = 0;
  // Of all rows.
  virtual int64_t num_outliers() const { return 0; }
  // Those of a row, behind what `out` has, in the order in which they are added.
  virtual void read_outliers(int64_t, std::vector<Outlier>&) const {}
};

}  // namespace quire
