// The bytes of the KV pool and of the host pool below it. The bookkeeping (kv/) says which block holds what;
// here are only the blocks. Owned by an executor.
#pragma once

#include <span>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "models/model.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

class KvStore {
 public:
  // Takes num_blocks * bytes_per_block of address space; pages are backed by memory as they are first
  // written.
  KvStore(const ArchSpec& spec, DType dtype, const KvLayout& layout);

  // One view for each decoder layer.
  std::span<const KvCacheView> layers() const { return layers_; }
  // One after the other, in this order.
  void copy(std::span<const BlockCopy> copies);
  int64_t bytes() const { return static_cast<int64_t>(pool_.size()); }
  // The bytes of a block on the device or the host, [bytes_per_block].
  std::span<std::byte> block(KvTier tier, BlockId block);

 private:
  int64_t bytes_per_block_;
  Buffer pool_;  // [num_blocks, num_layers, (K | V)]: a block's bytes are contiguous over all layers
  Buffer host_;  // [num_host_blocks, as in pool_]
  std::vector<KvCacheView> layers_;
};

// How a model's cache is cut into blocks; num_blocks is left 0. All layers are in one full-attention group: a
// layer with a sliding window keeps its whole past and reads only its window.
KvLayout make_kv_layout(const ArchSpec& spec, DType dtype, int32_t block_size);

}  // namespace quire
