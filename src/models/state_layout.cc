#include "models/state_layout.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int64_t kAlignment = 64;

int64_t part_bytes(int64_t floats) {
  const auto bytes = floats * static_cast<int64_t>(sizeof(float));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Calls f(layer, number of parts, bytes of each, whether they are recurrent matrices) for all layers in
// order.
template <typename F>
void for_parts(const ModelSpec& spec, F&& f) {
  for (int32_t i = 0; i < spec.num_layers(); ++i) {
    const RecurrentSizes sizes = recurrent_sizes(spec.layers[static_cast<size_t>(i)]);
    if (sizes.inputs() > 0) f(i, 1, part_bytes(sizes.inputs()), false);
    if (sizes.heads > 0) f(i, sizes.heads, part_bytes(sizes.head_state), true);
  }
}

}  // namespace

int64_t state_bytes(const ModelSpec& spec) {
  int64_t sum = 0;
  for_parts(spec, [&](int32_t, int32_t parts, int64_t bytes, bool) { sum += parts * bytes; });
  return sum;
}

int64_t largest_state_part(const ModelSpec& spec) {
  int64_t largest = 0;
  for_parts(spec, [&](int32_t, int32_t, int64_t bytes, bool) { largest = std::max(largest, bytes); });
  return largest;
}

StateLayout place_states(const ModelSpec& spec, int64_t bytes_per_block) {
  StateLayout out;
  out.layers.resize(spec.layers.size());
  int64_t end = bytes_per_block;  // used bytes of the last block
  for_parts(spec, [&](int32_t layer, int32_t parts, int64_t bytes, bool recurrence) {
    StateLayout::Layer& own = out.layers[static_cast<size_t>(layer)];
    for (int32_t i = 0; i < parts; ++i) {
      if (end + bytes > bytes_per_block) {
        out.blocks.emplace_back();
        end = 0;
      }
      std::vector<int32_t>& users = out.blocks.back();
      if (users.empty() || users.back() != layer) users.push_back(layer);
      (recurrence ? own.recurrence : own.inputs)
          .push_back({static_cast<int32_t>(out.blocks.size()) - 1, end});
      end += bytes;
    }
  });
  return out;
}

LayerState StateLayout::view(int32_t layer, std::byte* base, int64_t block_stride) const {
  const Layer& own = layers[static_cast<size_t>(layer)];
  return {{base, block_stride, own.inputs}, {base, block_stride, own.recurrence}};
}

}  // namespace quire
