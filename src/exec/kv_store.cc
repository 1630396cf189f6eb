#include "exec/kv_store.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace quire {

namespace {

int32_t attention_layers(const ArchSpec& spec) {
  return static_cast<int32_t>(std::ranges::count_if(spec.layers, &LayerSpec::attention));
}

int64_t attention_bytes(const ArchSpec& spec, DType dtype, int32_t block_size) {
  int64_t sum = 0;
  int64_t largest = 0;
  for (const LayerSpec& layer : spec.layers) {
    const int64_t bytes = kv_bytes_of(spec, layer, dtype, block_size);
    sum += bytes;
    largest = std::max(largest, bytes);
  }
  // Where nothing is read again once a layer is computed, all layers use the same place, one after the other.
  return spec.bidirectional ? largest : sum;
}

}  // namespace

KvLayout make_kv_layout(const ArchSpec& spec, DType dtype, int32_t block_size) {
  KvLayout layout;
  const int32_t unit = block_unit(spec, block_size);
  layout.block_size = (block_size + unit - 1) / unit * unit;
  layout.groups.clear();
  const int64_t states = state_bytes(spec);
  const int32_t distance = layout.checkpoint_blocks * block_size;
  if (attention_layers(spec) > 0) {
    const int64_t least =
        std::max((states + kMaxStateBlocks - 1) / kMaxStateBlocks, largest_state_part(spec));
    while (attention_bytes(spec, dtype, layout.block_size) < least)
      layout.block_size += std::lcm(block_size, unit);
    layout.bytes_per_block = attention_bytes(spec, dtype, layout.block_size);
    KvGroupSpec& group = layout.groups.emplace_back();
    for (int32_t i = 0; i < spec.num_layers; ++i) {
      if (spec.layers[static_cast<size_t>(i)].attention) group.layers.push_back(i);
    }
  } else {
    layout.bytes_per_block = states;
  }
  layout.checkpoint_blocks = std::max(1, distance / layout.block_size);
  for (auto& layers : place_states(spec, layout.bytes_per_block).blocks)
    layout.groups.push_back({KvGroupKind::kState, 0, std::move(layers)});
  return layout;
}

namespace {

bool has_attention(const KvLayout& layout) {
  return layout.groups.front().kind != KvGroupKind::kState;
}

}  // namespace

int64_t kv_bytes_per_token(const KvLayout& layout) {
  return has_attention(layout) ? layout.bytes_per_block / layout.block_size : 0;
}

int64_t state_blocks(const KvLayout& layout) {
  return 2 * std::ranges::count(layout.groups, KvGroupKind::kState, &KvGroupSpec::kind);
}

int64_t sequence_blocks(const KvLayout& layout, int64_t num_tokens) {
  const int64_t blocks = (num_tokens + layout.block_size - 1) / layout.block_size;
  return state_blocks(layout) + (has_attention(layout) ? blocks : 0);
}

int64_t sequence_tokens(const KvLayout& layout, int64_t num_blocks) {
  const int64_t left = num_blocks - state_blocks(layout);
  if (left < 0) return 0;
  return has_attention(layout) ? left * layout.block_size : std::numeric_limits<int32_t>::max();
}

KvStore::KvStore(const ArchSpec& spec, DType dtype, const KvLayout& layout)
    : bytes_per_block_(layout.bytes_per_block),
      pool_(static_cast<size_t>(layout.bytes_per_block) * static_cast<size_t>(layout.num_blocks)),
      state_layout_(place_states(spec, layout.bytes_per_block)) {
  if (layout.num_host_blocks > 0) {
    host_ = Buffer(static_cast<size_t>(layout.bytes_per_block) * static_cast<size_t>(layout.num_host_blocks));
  }
  int64_t offset = 0;
  for (int32_t i = 0; i < spec.num_layers; ++i) {
    KvCacheView& view = layers_.emplace_back();
    if (!state_layout_.blocks.empty())
      states_.push_back(state_layout_.view(i, pool_.data(), bytes_per_block_));
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    if (!layer.attention) continue;
    view = {.base = pool_.data(),
            .block_stride = bytes_per_block_,
            .layer_offset = offset,
            .dtype = dtype,
            .block_size = layout.block_size,
            .num_kv_heads = num_kv_heads_of(spec, layer),
            .head_dim = head_dim_of(spec, layer),
            .value_dim = value_dim_of(spec, layer)};
    if (!spec.bidirectional) offset += kv_bytes_of(spec, layer, dtype, layout.block_size);
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
