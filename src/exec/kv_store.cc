#include "exec/kv_store.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace quire {

KvStore::KvStore(Device& device, const ModelSpec& spec, DType dtype, const KvLayout& layout)
    : bytes_per_block_(layout.bytes_per_block),
      pool_(device.allocate(static_cast<size_t>(layout.bytes_per_block * layout.num_blocks),
                            MemoryKind::kDevice)) {
  if (layout.num_host_blocks > 0) {
    host_ = device.allocate(static_cast<size_t>(layout.bytes_per_block * layout.num_host_blocks),
                            MemoryKind::kPinned);
  }
  const StateLayout states = place_states(spec, layout.bytes_per_block);
  if (!states.blocks.empty()) add_states(device, states);
  layers_.resize(spec.layers.size());
  for (const KvGroupSpec& group : layout.groups) {
    if (!is_attention_group(group)) continue;
    int64_t offset = 0;
    for (const int32_t index : group.layers) {
      const LayerSpec& layer = spec.layers[static_cast<size_t>(index)];
      const KvShape shape = kv_shape(layer);
      layers_[static_cast<size_t>(index)] = {.base = pool_.data(),
                                             .block_stride = bytes_per_block_,
                                             .layer_offset = offset,
                                             .dtype = dtype,
                                             .block_size = layout.block_size,
                                             .num_kv_heads = shape.num_kv_heads,
                                             .head_dim = shape.head_dim,
                                             .value_dim = shape.value_dim};
      if (!spec.bidirectional) offset += kv_bytes_of(layer, dtype, layout.block_size);
    }
  }
}

void KvStore::add_states(Device& device, const StateLayout& layout) {
  std::vector<StatePlace> places;
  for (const StateLayout::Layer& layer : layout.layers) {
    places.insert(places.end(), layer.inputs.begin(), layer.inputs.end());
    places.insert(places.end(), layer.recurrence.begin(), layer.recurrence.end());
  }
  Buffer host(places.size() * sizeof(StatePlace));
  std::ranges::copy(places, host.as<StatePlace>());
  const std::unique_ptr<DeviceStream> stream = device.create_stream();
  state_places_ = device.upload(std::move(host), *stream);
  stream->synchronize(stream->record());
  const StatePlace* next = state_places_.as<StatePlace>();
  const auto view = [&](const std::vector<StatePlace>& parts) {
    next += parts.size();
    return StateView{pool_.data(), bytes_per_block_, {next - parts.size(), parts.size()}};
  };
  for (const StateLayout::Layer& layer : layout.layers) {
    const StateView inputs = view(layer.inputs);
    states_.push_back({inputs, view(layer.recurrence)});
  }
}

std::span<std::byte> KvStore::block(KvTier tier, BlockId block) {
  Buffer& pool = tier == KvTier::kDevice ? pool_ : host_;
  return {pool.data() + block * bytes_per_block_, static_cast<size_t>(bytes_per_block_)};
}

void KvStore::copy(std::span<const BlockCopy> copies, DeviceStream& stream) {
  for (const BlockCopy& copy : copies) {
    stream.copy(block(copy.dst_tier, copy.dst).data(), block(copy.src_tier, copy.src).data(),
                static_cast<size_t>(bytes_per_block_));
  }
}

}  // namespace quire
