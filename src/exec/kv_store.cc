#include "exec/kv_store.h"

#include <cstring>

namespace quire {

KvLayout make_kv_layout(const ArchSpec& spec, DType dtype, int32_t block_size) {
  KvLayout layout;
  layout.block_size = block_size;
  const auto num_layers = static_cast<int32_t>(spec.num_layers);
  layout.bytes_per_block =
      num_layers * kv_bytes_per_block(dtype, block_size, static_cast<int32_t>(spec.num_kv_heads),
                                      static_cast<int32_t>(spec.head_dim));
  for (int32_t i = 0; i < num_layers; ++i) layout.groups[0].layers.push_back(i);
  return layout;
}

KvStore::KvStore(const ArchSpec& spec, DType dtype, const KvLayout& layout)
    : bytes_per_block_(layout.bytes_per_block),
      pool_(static_cast<size_t>(layout.bytes_per_block) * static_cast<size_t>(layout.num_blocks)) {
  if (layout.num_host_blocks > 0) {
    host_ = Buffer(static_cast<size_t>(layout.bytes_per_block) * static_cast<size_t>(layout.num_host_blocks));
  }
  const int64_t layer_bytes = kv_bytes_per_block(
      dtype, layout.block_size, static_cast<int32_t>(spec.num_kv_heads), static_cast<int32_t>(spec.head_dim));
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    layers_.push_back(KvCacheView{.base = pool_.data(),
                                  .block_stride = bytes_per_block_,
                                  .layer_offset = i * layer_bytes,
                                  .dtype = dtype,
                                  .block_size = layout.block_size,
                                  .num_kv_heads = static_cast<int32_t>(spec.num_kv_heads),
                                  .head_dim = static_cast<int32_t>(spec.head_dim)});
  }
}

std::span<std::byte> KvStore::block(KvTier tier, BlockId block) {
  Buffer& pool = tier == KvTier::kDevice ? pool_ : host_;
  return {pool.data() + block * bytes_per_block_, static_cast<size_t>(bytes_per_block_)};
}

void KvStore::copy(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    const std::span<const std::byte> src = block(copy.src_tier, copy.src);
    std::memcpy(block(copy.dst_tier, copy.dst).data(), src.data(), src.size());
  }
}

}  // namespace quire
