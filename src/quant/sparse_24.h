// Float matrices with 2:4 structured sparsity: each row has at most two nonzero weights in columns 0 to 3, 4
// to 7, and so on. They are packed without the other weights. Free functions; thread-safe.
//
// A panel is 32 rows of W; the last panel is padded with zeros. It is a sequence of blocks of 32 columns of
// W. Each block consists of
//   codes    [32] uint32, one per row: 4 bits for each of the block's eight groups of four, the first in the
//            lowest bits. The two lower bits are the column of the first kept weight, the two upper bits
//            that of the second.
//   weights  for each group of four, the second and the first kept weight of each row: [32][2] for bfloat16,
//            [2][32] for other types
// If a group has fewer than two nonzero weights, zeros are kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace quire {

struct Sparse24 {
  static constexpr int64_t kPanel = 32;
  static constexpr int64_t kQuads = 8;           // groups of four per block
  static constexpr int64_t kBlock = 4 * kQuads;  // columns of W
  static constexpr int64_t kCodeBytes = kPanel * static_cast<int64_t>(sizeof(uint32_t));
  // Sizes in bytes for elements of `size` bytes.
  static constexpr int64_t quad_bytes(int64_t size) { return kPanel * 2 * size; }
  static constexpr int64_t block_bytes(int64_t size) { return kCodeBytes + kQuads * quad_bytes(size); }
  static constexpr int64_t panel_bytes(int64_t size, int64_t k) { return k / kBlock * block_bytes(size); }
};

// Order of the two kept weights: that in which products with the dense matrix process them.
enum class KeptOrder : uint8_t {
  kAscending,
  kOddFirst,  // column 1 before column 0, column 3 before column 2
};

// Whether rows [begin, end) are 2:4 sparse. The type is float32, bfloat16 or float16.
bool is_sparse_24(const TensorView& matrix, int64_t begin, int64_t end);

// Packs a panel of 2:4 sparse rows, given in dense form: [k / 2][32][2] for bfloat16, [k][32] for float32 and
// float16. k is a multiple of kBlock.
void pack_sparse_24(const std::byte* panel, DType dtype, int64_t k, KeptOrder order, std::byte* dst);

}  // namespace quire
