// A quantized weight matrix as stored in a checkpoint, independent of its packing: codes of each row, and the
// parameters that convert codes to weights. Checkpoints provide it (io/); op tables pack it losslessly into
// their own layout. Load time only. Reading rows is const and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// The value of a code: code - zero_point, an entry of a table, or an entry of a table per row.
enum class CodeValues : uint8_t {
  kLinear,    // code - zero_point
  kTable,     // QuantFormat::table[code]
  kRowTable,  // the weight itself: an entry of the row's own table, which is stored in block_scales:
              // [2^code_bits]
};

// Conversion of codes to weights. A row is divided along K into groups that share a scale and, with two
// levels of scales, into blocks of several groups:
//   weight[i] = scale(i) * value(code[i]) - minimum(i)
// With one level (block_size == group_size):
//   scale = block_scales[i / group_size], minimum = block_minima[i / group_size]
// With two levels:
//   scale   = block_scales[i / block_size] * group_scales[i / group_size]
//   minimum = block_minima[i / block_size] * group_minima[i / group_size]
// Without mins, minimum is 0.
// Computed in float32 in this order; both products are rounded before the subtraction. So decoded weights
// have the same bits as in the tool that created the checkpoint. A size of 0 is a full row.
struct QuantFormat {
  int32_t code_bits = 4;    // 1 to 8: codes are 0 to 2^code_bits - 1
  int64_t group_size = 32;  // elements along K; the last group of a row may be shorter. 0 = full row
  int64_t block_size = 32;  // elements along K: group_size, or a multiple of it. 0 = full row
  CodeValues values = CodeValues::kLinear;
  int32_t zero_point = 0;             // kLinear
  std::span<const float> table = {};  // kTable: [2^code_bits], static storage
  bool group_zero_points = false;     // kLinear: integer zero points per group replace zero_point
  bool minima = false;
  bool half_scales = false;    // block_scales and block_minima contain float16 values
  bool bfloat_scales = false;  // block_scales and block_minima contain bfloat16 values
  // Two levels: group_scales are indices into this table ([256], static storage), as unsigned integers. Empty
  // if they are the scales themselves.
  std::span<const float> group_scale_table = {};

  bool two_levels() const { return block_size != group_size; }
  friend bool operator==(const QuantFormat& a, const QuantFormat& b) {
    return a.code_bits == b.code_bits && a.group_size == b.group_size && a.block_size == b.block_size &&
           a.values == b.values && a.zero_point == b.zero_point && a.table.data() == b.table.data() &&
           a.table.size() == b.table.size() && a.group_zero_points == b.group_zero_points &&
           a.minima == b.minima && a.half_scales == b.half_scales && a.bfloat_scales == b.bfloat_scales &&
           a.group_scale_table.data() == b.group_scale_table.data();
  }
};

// Number of block_scales per block.
inline int64_t scales_of_block(const QuantFormat& format) {
  return format.values == CodeValues::kRowTable ? int64_t{1} << format.code_bits : 1;
}

// Buffers for one row, owned by the caller.
struct QuantizedRow {
  std::span<uint8_t> codes;              // [k]
  std::span<float> block_scales;         // [k / block_size, rounded up][scales_of_block]
  std::span<int8_t> group_scales;        // [k / group_size, rounded up]; with two levels
  std::span<float> block_minima;         // like block_scales; with mins
  std::span<uint8_t> group_minima;       // like group_scales; two levels with mins
  std::span<uint8_t> group_zero_points;  // [k / group_size, rounded up]; with group_zero_points
};

// A value that is added to the weight of an input feature, in float32.
struct Outlier {
  int32_t feature = 0;
  float value = 0.0F;
};

class QuantizedMatrix {
 public:
  virtual ~QuantizedMatrix() = default;
  virtual const QuantFormat& format() const = 0;
  virtual int64_t rows() const = 0;  // output features
  virtual int64_t cols() const = 0;  // input features
  // Input features may be stored in another order (act-order): column i of read_rows belongs to input feature
  // column_order()[i]. Empty if the order is unchanged.
  virtual std::span<const int32_t> column_order() const { return {}; }
  // Reads rows [first, first + out.size()); fills the fields that the format has.
  virtual void read_rows(int64_t first, std::span<const QuantizedRow> out) const = 0;
  // Total number of outliers in all rows.
  virtual int64_t num_outliers() const { return 0; }
  // Appends the outliers of a row to `out`, in the order in which they are added.
  virtual void read_outliers(int64_t, std::vector<Outlier>&) const {}
};

}  // namespace quire
