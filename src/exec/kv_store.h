// The bytes of the KV pool and of the host pool below it. The bookkeeping (kv/) says which block holds what;
// here are only the blocks. Owned by an executor.
#pragma once

#include <span>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "models/model.h"
#include "models/state_layout.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

class KvStore {
 public:
  // Takes num_blocks * bytes_per_block of address space; pages are backed by memory as they are first
  // written.
  KvStore(const ArchSpec& spec, DType dtype, const KvLayout& layout);

  // One view for each decoder layer; of one without attention it is empty.
  std::span<const KvCacheView> layers() const { return layers_; }
  // The same of states; empty where no layer carries any.
  std::span<const LayerState> states() const { return states_; }
  // One after the other, in this order.
  void copy(std::span<const BlockCopy> copies);
  int64_t bytes() const { return static_cast<int64_t>(pool_.size()); }
  // The bytes of a block on the device or the host, [bytes_per_block].
  std::span<std::byte> block(KvTier tier, BlockId block);

 private:
  int64_t bytes_per_block_;
  // [num_blocks, layers with attention, (K | V)]: a block's bytes are contiguous over all layers. Or, of a
  // block with states, [parts of states] (models/state_layout.h).
  Buffer pool_;
  Buffer host_;  // [num_host_blocks, as in pool_]
  std::vector<KvCacheView> layers_;
  StateLayout state_layout_;
  std::vector<LayerState> states_;
};

// How a model's cache is cut into blocks; num_blocks is left 0. All layers with attention are in one
// full-attention group, which comes first: a layer with a sliding window keeps its whole past and reads only
// its window. States take a group for each block that they fill, of the same size. Where one sequence's
// states would fill more than kMaxStateBlocks blocks, blocks have more tokens, a multiple of block_size, so
// that at most the same share of a sequence's memory is lost to its last block.
inline constexpr int64_t kMaxStateBlocks = 32;
KvLayout make_kv_layout(const ArchSpec& spec, DType dtype, int32_t block_size);

// Bytes of a block for each of its tokens; 0 where no layer has attention.
int64_t kv_bytes_per_token(const KvLayout& layout);
// Blocks that a sequence holds at the most whatever its length: its states, and behind a checkpoint their
// copy.
int64_t state_blocks(const KvLayout& layout);
// Blocks that a sequence of so many tokens holds at the most, and tokens of the longest one that so many
// blocks hold.
int64_t sequence_blocks(const KvLayout& layout, int64_t num_tokens);
int64_t sequence_tokens(const KvLayout& layout, int64_t num_blocks);

}  // namespace quire
