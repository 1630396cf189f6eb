// Finds sequences of a batch that share leading blocks, such as those with the same system prompt or the
// samples of one request. Integers only; computed once per step and used by every layer. Owned and used by
// the thread that builds the batch. Keeps its memory, so a steady step allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op_table.h"

namespace quire {

class SharedPrefixes {
 public:
  // Compares the block tables of the batch. The spans are valid until the next call.
  void find(const AttentionBatch& batch);

  // AttentionBatch::shared_order and shared_blocks. Both are empty if no two sequences share their first
  // block.
  std::span<const int32_t> order() const { return order_; }
  std::span<const int32_t> blocks() const { return blocks_; }

 private:
  std::vector<int32_t> order_;   // [num_seqs]
  std::vector<int32_t> blocks_;  // [num_seqs]
};

}  // namespace quire
