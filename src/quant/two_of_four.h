// Matrices of floats of which each row has at most two of four weights (columns 0 .. 3, 4 .. 7, ...), as
// pruning leaves them, packed without the other two. Free functions; any thread.
//
// A panel is 32 rows of W, the last one padded with zeros; it is blocks of 32 columns of W, one behind the
// other, each
//   codes    [32] uint32, one for each row: 4 bits for each of the block's eight fours, the first in the
//            lowest; the two lower ones say in which column the first weight that is kept stands, the others
//            the second
//   weights  for each four the second one of each row and the first: of bfloat16 [32][2], of others [2][32]
// Where fewer than two weights are not zero, zeros are kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace quire {

struct TwoOfFour {
  static constexpr int64_t kPanel = 32;
  static constexpr int64_t kFours = 8;           // of a block
  static constexpr int64_t kBlock = 4 * kFours;  // columns of W
  static constexpr int64_t kCodeBytes = kPanel * static_cast<int64_t>(sizeof(uint32_t));
  // Of elements of `size` bytes.
  static constexpr int64_t four_bytes(int64_t size) { return kPanel * 2 * size; }
  static constexpr int64_t block_bytes(int64_t size) { return kCodeBytes + kFours * four_bytes(size); }
  static constexpr int64_t panel_bytes(int64_t size, int64_t k) { return k / kBlock * block_bytes(size); }
};

// Which of the two that are kept is the first one: the one that the table's products of the same matrix with
// its zeros come to first.
enum class KeptOrder : uint8_t {
  kAscending,
  kOddFirst,  // of columns 0 and 1 the latter, then of columns 2 and 3
};

// Whether rows [begin, end) have at most two of four weights. float32, bfloat16 or float16.
bool is_two_of_four(const TensorView& matrix, int64_t begin, int64_t end);

// dst = a panel of such rows, given with its zeros: [k / 2][32][2] of bfloat16, [k][32] of float32 and
// float16; k is whole blocks.
void pack_two_of_four(const std::byte* panel, DType dtype, int64_t k, KeptOrder order, std::byte* dst);

}  // namespace quire
