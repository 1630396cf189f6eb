#include "quantize/layer_runner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "backends/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;

// h += the sum of x x^T over the rows of x, computed with the op table: X^T [k, m] times itself.
void add_inputs(const OpTable& ops, const OpContext& ctx, const TensorView& x, InputStats& stats) {
  const int64_t m = x.rows();
  const int64_t k = stats.k;
  Buffer transposed(static_cast<size_t>(k * m) * sizeof(float));
  auto* columns = transposed.as<float>();
  for (int64_t r = 0; r < m; ++r) {
    const float* row = x.row<float>(r);
    for (int64_t i = 0; i < k; ++i) {
      columns[i * m + r] = row[i];
      float& largest = stats.largest[static_cast<size_t>(i)];
      largest = std::max(largest, std::fabs(row[i]));
    }
  }
  const TensorView view = make_view(columns, DType::kF32, Shape{k, m});
  const PackedLinear packed = ops.pack_linear(ctx, std::span(&view, 1), {DType::kF32});
  const TensorView sum = make_view(stats.h.data(), DType::kF32, Shape{k, k});
  ops.run(ctx, ops::Linear{.out = sum, .x = view, .w = packed, .residual = sum});
  stats.rows += m;
}

float largest(const float* numbers, int64_t count) {
  float result = 0.0F;
  for (int64_t i = 0; i < count; ++i) result = std::max(result, std::fabs(numbers[i]));
  return result;
}

// Whether the layer reads keys, values, selected keys or outputs of other layers, or shares weights with
// them.
bool reads_other_layers(const LayerSpec& layer) {
  return kv_sharing_layer(layer) >= 0 || mixer_traits(layer).shares_selection || layer.shared_block ||
         layer.feed_forward.shortcut();
}

}  // namespace

LayerRunner::LayerRunner(Checkpoint& checkpoint, ThreadPool& pool, std::vector<std::vector<int32_t>> windows)
    : checkpoint_(checkpoint),
      pool_(pool),
      ops_(select_cpu_isa().table),
      spec_(parse_checkpoint(checkpoint)) {
  const bool dependent = std::ranges::any_of(spec_.layers, reads_other_layers);
  if (dependent || spec_.per_layer_input || spec_.streams) {
    throw Error(cat(checkpoint.path().string(), ": layers of ", spec_.architecture,
                    " read from other layers, which calibration does not support; use --method rtn"));
  }
  for (auto& ids : windows) {
    longest_ = std::max(longest_, static_cast<int64_t>(ids.size()));
    Window& window = windows_.emplace_back();
    window.hidden = Buffer(ids.size() * static_cast<size_t>(spec_.hidden_size) * sizeof(float));
    window.ids = std::move(ids);
  }
  if (longest_ == 0) throw Error("the calibration text is empty");
  std::unique_ptr<Model> model = load({.ends = ModelEnds::kEmbeddings, .end_layer = 0});
  buffers_ = model->make_buffers(longest_);
  int64_t block_bytes = 0;
  for (const LayerSpec& layer : spec_.layers)
    block_bytes = std::max(block_bytes, kv_bytes_of(layer, DType::kF32, kBlockSize));
  cache_ = Buffer(static_cast<size_t>(block_bytes * ((longest_ + kBlockSize - 1) / kBlockSize)));
  // The recurrent states of one sequence, in blocks of the size of the largest part.
  const int64_t state_block = (largest_state_part(spec_) + 63) / 64 * 64;
  if (state_block > 0) {
    states_ = place_states(spec_, state_block);
    state_block_ = state_block;
    state_memory_ = Buffer(static_cast<size_t>(state_block) * states_.blocks.size());
  }
  const AttentionLimits limits = attention_limits(spec_, longest_);
  workspace_ = Buffer(
      ops_->workspace_bytes(longest_, limits.slots, limits.num_heads, limits.head_dim, pool_.num_threads()));
  const OpContext ctx{&pool_, {workspace_.data(), workspace_.size()}};
  for_windows(*model, true, [&](const ForwardBatch& batch) { model->embed(ctx, batch, buffers_); });
  // Looking up rows loaded whole pages of the embedding.
  model.reset();
  for (const std::string& name : checkpoint_.names()) checkpoint_.release(name);
}

std::unique_ptr<Model> LayerRunner::load(const ModelPart& part, OpProfile* watch,
                                         const PackedListener& listener) {
  const ModelOptions options{.max_model_len = std::min(spec_.max_model_len, std::max<int64_t>(longest_, 1)),
                             .part = part,
                             .on_packed = listener};
  return Model::load(checkpoint_, watch == nullptr ? *ops_ : watch->table(), {&pool_, {}, watch}, options,
                     {});
}

template <typename Run>
void LayerRunner::for_windows(const Model& model, bool keep, Run run) {
  HostStepTables tables(model.step_tables(kBlockSize));
  std::vector<int32_t> blocks(static_cast<size_t>((longest_ + kBlockSize - 1) / kBlockSize));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<int32_t> positions(static_cast<size_t>(longest_));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int64_t> slots(static_cast<size_t>(longest_));
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<KvCacheView> kv;
  for (const LayerSpec& layer : spec_.layers) {
    const KvShape shape = kv_shape(layer);
    kv.push_back({.base = cache_.data(),
                  .block_stride = kv_bytes_of(layer, DType::kF32, kBlockSize),
                  .dtype = DType::kF32,
                  .block_size = kBlockSize,
                  .num_kv_heads = shape.num_kv_heads,
                  .head_dim = shape.head_dim,
                  .value_dim = shape.value_dim});
  }
  std::vector<int32_t> state_blocks(states_.blocks.size());
  std::iota(state_blocks.begin(), state_blocks.end(), 0);
  std::vector<LayerState> layer_states;
  for (int32_t i = 0; state_block_ > 0 && i < spec_.num_layers(); ++i)
    layer_states.push_back(states_.view(i, state_memory_.data(), state_block_));
  const std::vector<int32_t> token_types(static_cast<size_t>(spec_.token_types > 0 ? longest_ : 0));
  const std::array<int32_t, 1> first_position = {0};
  for (Window& window : windows_) {
    const size_t n = window.ids.size();
    const auto count = static_cast<int32_t>(n);
    const std::array<int32_t, 2> bounds = {0, count};
    const std::array<int32_t, 1> length = {count};
    const std::array<int32_t, 2> table = {0, (count + kBlockSize - 1) / kBlockSize};
    ForwardBatch batch;
    batch.token_ids = window.ids;
    batch.positions = std::span(positions).first(n);
    batch.slot_mapping = std::span(slots).first(n);
    batch.attention = {1, bounds, length, table, std::span(blocks).first(static_cast<size_t>(table[1]))};
    batch.kv = kv;
    batch.host = {batch.token_ids, batch.positions, batch.slot_mapping, length};
    batch.tables = tables.fill(batch.host);
    if (!token_types.empty()) batch.token_types = std::span(token_types).first(n);
    if (!layer_states.empty()) {
      batch.states = {1, bounds, first_position, state_blocks, static_cast<int32_t>(state_blocks.size())};
      batch.layer_states = layer_states;
    }
    std::memcpy(buffers_.hidden.data, window.hidden.data(), window.hidden.size());
    run(batch);
    if (keep) std::memcpy(window.hidden.data(), buffers_.hidden.data, window.hidden.size());
  }
}

std::vector<InputStats> LayerRunner::observe(int32_t layer, const std::set<std::string>& tensors) {
  std::map<const std::byte*, InputStats> seen;
  OpProfile watch(*ops_, {}, 0);
  const auto model = load({.ends = ModelEnds::kNone, .first_layer = layer, .end_layer = layer + 1}, &watch,
                          [&](std::span<const std::string> names, const PackedLinear& matrix) {
                            InputStats stats;
                            for (const std::string& name : names) {
                              if (tensors.contains(name)) stats.tensors.push_back(name);
                            }
                            if (stats.tensors.empty()) return;
                            stats.k = matrix.k;
                            stats.h.resize(static_cast<size_t>(matrix.k * matrix.k));
                            stats.largest.resize(static_cast<size_t>(matrix.k));
                            seen.emplace(matrix.data.data(), std::move(stats));
                          });
  buffers_ = model->make_buffers(longest_);
  // The workspace is in use by the observed product.
  const OpContext plain{&pool_, {}};
  watch.on_input([&](const TensorView& x, const PackedLinear& matrix) {
    const auto at = seen.find(matrix.data.data());
    if (at != seen.end()) add_inputs(*ops_, plain, x, at->second);
  });
  OpContext ctx{&pool_, {workspace_.data(), workspace_.size()}};
  ctx.profile = &watch;
  for_windows(*model, false,
              [&](const ForwardBatch& batch) { model->run_layer(ctx, layer, batch, buffers_); });
  std::vector<InputStats> all;
  for (auto& [data, stats] : seen) all.push_back(std::move(stats));
  return all;
}

KvLimits LayerRunner::advance(int32_t layer) {
  const auto model = load({.ends = ModelEnds::kNone, .first_layer = layer, .end_layer = layer + 1});
  const OpContext ctx{&pool_, {workspace_.data(), workspace_.size()}};
  buffers_ = model->make_buffers(longest_);
  std::fill_n(cache_.data(), cache_.size(), std::byte{0});
  KvLimits limits;
  for_windows(*model, true, [&](const ForwardBatch& batch) {
    model->run_layer(ctx, layer, batch, buffers_);
    // A block contains the keys of the layer, its values, and the keys of the indexer, if it has one.
    const KvCacheView& kv = batch.kv[static_cast<size_t>(layer)];
    const auto floats = [&](int32_t dim) { return int64_t{kv.block_size} * kv.num_kv_heads * dim; };
    const int64_t num_keys = floats(kv.head_dim);
    const int64_t num_values = floats(kv.value_size());
    for (size_t block = 0; block < batch.attention.block_table.size(); ++block) {
      const auto* numbers =
          reinterpret_cast<const float*>(kv.base + static_cast<int64_t>(block) * kv.block_stride);
      limits.keys = std::max(limits.keys, largest(numbers, num_keys));
      limits.values = std::max(limits.values, largest(numbers + num_keys, num_values));
    }
  });
  return limits;
}

void change_layers(OverlayCheckpoint& checkpoint, ThreadPool& pool,
                   const std::vector<std::vector<int32_t>>& windows,
                   const std::vector<std::set<std::string>>& layers, const LayerChange& change) {
  LayerRunner runner(checkpoint, pool, windows);
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<int32_t>(i);
    std::vector<InputStats> inputs = runner.observe(layer, layers[i]);
    change(layer, inputs);
    if (i + 1 < layers.size()) runner.advance(layer);
    checkpoint.clear();
    for (const std::string& tensor : layers[i]) checkpoint.release(tensor);
  }
}

}  // namespace quire
