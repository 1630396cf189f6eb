#include "exec/kv_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "models/state_layout.h"

namespace quire {

namespace {

// A layer's part of each block of its group.
struct LayerEntry {
  int32_t layer = 0;
  int64_t bytes = 0;  // per block
};

// All layers that keep the same part of the past.
struct LayerKind {
  KvGroupKind kind = KvGroupKind::kFull;
  int32_t window = 0;
  std::vector<LayerEntry> entries;  // in the order of layers
};

// The part of the past that the layer's queries attend to.
KvGroupSpec retention_of(const ModelSpec& spec, const LayerSpec& layer) {
  const MixerTraits traits = mixer_traits(layer);
  const bool longer_than_model = spec.max_model_len > 0 && traits.window >= spec.max_model_len;
  if (traits.window == 0 || longer_than_model || spec.bidirectional) return {};
  return {traits.chunked ? KvGroupKind::kChunked : KvGroupKind::kSlidingWindow, traits.window, {}};
}

// The part of the past that covers what both keep.
KvGroupSpec union_of(const KvGroupSpec& a, const KvGroupSpec& b) {
  if (a.kind == b.kind && a.kind == KvGroupKind::kSlidingWindow)
    return {a.kind, std::max(a.window, b.window), {}};
  if (a.kind == b.kind && a.window == b.window) return a;
  return {};
}

std::vector<LayerKind> layer_kinds(const ModelSpec& spec, DType dtype, int32_t block_size) {
  std::vector<KvGroupSpec> kept(spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) kept[i] = retention_of(spec, spec.layers[i]);
  for (const LayerSpec& layer : spec.layers) {
    if (kv_sharing_layer(layer) < 0) continue;
    KvGroupSpec& source = kept[static_cast<size_t>(kv_sharing_layer(layer))];
    source = union_of(source, retention_of(spec, layer));
  }
  std::vector<LayerKind> kinds;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    if (!has_kv_cache(layer)) continue;
    auto kind = std::ranges::find_if(kinds, [&](const LayerKind& each) {
      return each.kind == kept[i].kind && each.window == kept[i].window;
    });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {kept[i].kind, kept[i].window, {}});
    kind->entries.push_back({static_cast<int32_t>(i), kv_bytes_of(layer, dtype, block_size)});
  }
  std::ranges::stable_sort(kinds, std::less<>(), &LayerKind::kind);
  return kinds;
}

// How many groups of at most bytes_per_block the entries take, in order; calls add(entry, group) for each.
template <typename F>
int32_t split(std::span<const LayerEntry> entries, int64_t bytes_per_block, F add) {
  int32_t num_groups = 0;
  int64_t used = bytes_per_block;
  for (const LayerEntry& entry : entries) {
    if (num_groups == 0 || used + entry.bytes > bytes_per_block) {
      ++num_groups;
      used = 0;
    }
    used += entry.bytes;
    add(entry, num_groups - 1);
  }
  return num_groups;
}

int32_t count_groups(std::span<const LayerEntry> entries, int64_t bytes_per_block) {
  return split(entries, bytes_per_block, [](const LayerEntry&, int32_t) {});
}

int64_t sum_bytes(std::span<const LayerEntry> entries) {
  return std::accumulate(entries.begin(), entries.end(), int64_t{0},
                         [](int64_t sum, const LayerEntry& entry) { return sum + entry.bytes; });
}

// The smallest block into which the entries go as at most num_groups groups.
int64_t smallest_block(std::span<const LayerEntry> entries, int32_t num_groups) {
  int64_t low = std::ranges::max(entries, std::less<>(), &LayerEntry::bytes).bytes;
  int64_t high = std::max(low, sum_bytes(entries));
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (count_groups(entries, middle) <= num_groups) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The cost of a block size: memory of a sequence of max_model_len tokens relative to memory without padding,
// times the square root of the same for a short sequence, which no window limits. Each group adds 2 %, which
// stands for its block table: work per step, and memory for the last block of each sequence.
double cost_of(std::span<const LayerKind> kinds, int64_t bytes_per_block, double max_model_len) {
  constexpr double kCostPerGroup = 0.02;
  double padded_long = 0.0;
  double padded_short = 0.0;
  double exact_long = 0.0;
  double exact_short = 0.0;
  int32_t num_groups = 0;
  for (const LayerKind& kind : kinds) {
    const double length =
        kind.kind == KvGroupKind::kFull ? max_model_len : std::min<double>(max_model_len, kind.window);
    const int32_t own_groups = count_groups(kind.entries, bytes_per_block);
    const auto padded = static_cast<double>(own_groups) * static_cast<double>(bytes_per_block);
    const auto exact = static_cast<double>(sum_bytes(kind.entries));
    padded_long += padded * length;
    padded_short += padded;
    exact_long += exact * length;
    exact_short += exact;
    num_groups += own_groups;
  }
  return padded_long / exact_long * std::sqrt(padded_short / exact_short) *
         (1.0 + kCostPerGroup * num_groups);
}

int64_t choose_block_bytes(std::span<const LayerKind> kinds, int64_t max_model_len) {
  constexpr int32_t kMaxSplit = 64;  // groups of one kind
  constexpr int64_t kDefaultLength = 4096;
  const auto length = static_cast<double>(max_model_len > 0 ? max_model_len : kDefaultLength);
  int64_t largest = 0;  // entry
  for (const LayerKind& kind : kinds)
    largest = std::max(largest, std::ranges::max(kind.entries, std::less<>(), &LayerEntry::bytes).bytes);
  int64_t best = 0;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const LayerKind& kind : kinds) {
    const auto count = static_cast<int32_t>(kind.entries.size());
    for (int32_t num_groups = 1; num_groups <= std::min(count, kMaxSplit); ++num_groups) {
      const int64_t bytes = std::max(largest, smallest_block(kind.entries, num_groups));
      const double cost = cost_of(kinds, bytes, length);
      if (cost >= best_cost) continue;
      best = bytes;
      best_cost = cost;
    }
  }
  return best;
}

int64_t block_bytes(const ModelSpec& spec, std::span<const LayerKind> kinds) {
  if (!spec.bidirectional) return choose_block_bytes(kinds, spec.max_model_len);
  // An encoder reads nothing again once a layer is computed: all layers use the same memory one after
  // another.
  int64_t largest = 0;
  for (const LayerKind& kind : kinds) {
    for (const LayerEntry& entry : kind.entries) largest = std::max(largest, entry.bytes);
  }
  return largest;
}

}  // namespace

KvLayout make_kv_layout(const ModelSpec& spec, DType dtype, int32_t block_size) {
  KvLayout layout;
  const int32_t unit = block_unit(spec, block_size);
  layout.block_size = (block_size + unit - 1) / unit * unit;
  layout.groups.clear();
  const int64_t states = state_bytes(spec);
  const int32_t checkpoint_tokens = layout.checkpoint_blocks * block_size;
  std::vector<LayerKind> kinds = layer_kinds(spec, dtype, layout.block_size);
  if (kinds.empty()) {
    layout.bytes_per_block = states;
  } else {
    const int64_t min_bytes =
        std::max((states + kMaxStateBlocks - 1) / kMaxStateBlocks, largest_state_part(spec));
    while ((layout.bytes_per_block = block_bytes(spec, kinds)) < min_bytes) {
      layout.block_size += std::lcm(block_size, unit);
      kinds = layer_kinds(spec, dtype, layout.block_size);
    }
  }
  for (const LayerKind& kind : kinds) {
    const size_t first = layout.groups.size();
    const int64_t limit =
        spec.bidirectional ? std::numeric_limits<int64_t>::max() / 2 : layout.bytes_per_block;
    split(kind.entries, limit, [&](const LayerEntry& entry, int32_t index) {
      if (first + static_cast<size_t>(index) == layout.groups.size())
        layout.groups.push_back({kind.kind, kind.window, {}});
      layout.groups.back().layers.push_back(entry.layer);
    });
  }
  layout.checkpoint_blocks = std::max(1, checkpoint_tokens / layout.block_size);
  for (auto& layers : place_states(spec, layout.bytes_per_block).blocks)
    layout.groups.push_back({KvGroupKind::kState, 0, std::move(layers)});
  return layout;
}

}  // namespace quire
