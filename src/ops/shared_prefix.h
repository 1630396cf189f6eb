// Which sequences of a batch read the same leading blocks: those with the same system prompt, samples and
// beams of one request. Integers only; found once a step and used by every layer. Owned by who builds the
// batch, used by its thread; keeps its memory, so that a steady step allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op_table.h"

namespace quire {

class SharedPrefixes {
 public:
  // Looks at the block tables of the batch. The spans are valid until the next call.
  void find(const AttentionBatch& batch);

  // As AttentionBatch has them; both empty where no two sequences have their first block in common.
  std::span<const int32_t> order() const { return order_; }
  std::span<const int32_t> blocks() const { return blocks_; }

 private:
  std::vector<int32_t> order_;   // [num_seqs]
  std::vector<int32_t> blocks_;  // [num_seqs]
};

}  // namespace quire
