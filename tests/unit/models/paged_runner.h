// Runs one sequence through a Model over a small paged KV cache whose blocks are handed out in a shuffled
// order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/state_layout.h"
#include "ops/op_table.h"
#include "unit/models/guarded_ops.h"

namespace quire::test {

struct RunnerOptions {
  int64_t max_tokens = 64;  // rows of a step
  int64_t max_seq_len = 256;
  int32_t block_size = 4;
  DType kv_dtype = DType::kF32;
  int threads = 1;
  uint32_t seed = 1;  // for the order of blocks
  OpProfile* profile = nullptr;
  bool nan = false;                         // the pool initially contains NaN only
  const AdapterWeights* adapter = nullptr;  // the adapter of all tokens
  bool guarded = false;  // the host cannot touch activations, workspace, cache and states between ops
};

class PagedRunner {
 public:
  PagedRunner(const Model& model, const OpTable& ops, ThreadPool* pool, const RunnerOptions& options)
      : model_(model),
        options_(options),
        buffers_(model.make_buffers(options.max_tokens)),
        tables_(model.step_tables(options.block_size)) {
    const ModelSpec& spec = model.spec();
    const int64_t num_blocks = (options.max_seq_len + options.block_size - 1) / options.block_size;
    int64_t layer_bytes = 0;
    for (const LayerSpec& layer : spec.layers)
      layer_bytes = std::max(layer_bytes, kv_bytes_of(layer, options.kv_dtype, options.block_size));
    const int64_t stride = layer_bytes * spec.num_layers();
    // Twice the required blocks, so that the ids have gaps.
    pool_ = Buffer(static_cast<size_t>(stride * num_blocks * 2));
    // Finite values of earlier sequences, far from any valid result.
    const uint16_t number = f32_to_bf16(options.kv_dtype == DType::kF16 ? 3.0F : 3e4F);
    std::fill_n(reinterpret_cast<uint16_t*>(pool_.data()), pool_.size() / 2, options.nan ? 0xffff : number);
    for (int32_t l = 0; l < spec.num_layers(); ++l) {
      const KvShape shape = kv_shape(spec.layers[static_cast<size_t>(l)]);
      kv_.push_back({pool_.data(), stride, l * layer_bytes, options.kv_dtype, options.block_size,
                     shape.num_kv_heads, shape.head_dim, shape.value_dim});
    }
    make_states(spec);
    blocks_.resize(static_cast<size_t>(num_blocks * 2));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(options.seed));
    blocks_.resize(static_cast<size_t>(num_blocks));
    const AttentionLimits limits = attention_limits(spec, options.max_seq_len);
    workspace_ = Buffer(ops.workspace_bytes(options.max_tokens, limits.slots, limits.num_heads,
                                            limits.head_dim, std::max(1, options.threads)));
    ctx_.pool = pool;
    ctx_.workspace = {workspace_.data(), workspace_.size()};
    ctx_.profile = options.profile;
    for (Buffer* buffer : {&buffers_.data, &pool_, &state_pool_, &workspace_}) memory_.add(*buffer);
  }

  // Appends the tokens to the sequence, in steps of at most `chunk`; the logits of each of them,
  // [tokens][vocab_size].
  std::vector<std::vector<float>> append(std::span<const int32_t> tokens, int64_t chunk) {
    std::vector<std::vector<float>> all;
    for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
      step(tokens.subspan(begin, std::min(static_cast<size_t>(chunk), tokens.size() - begin)), all);
    }
    return all;
  }

  // The final hidden states of the tokens, appended in one step: [tokens][hidden_size]. For pooling models,
  // whose tokens are all of type 0.
  std::vector<std::vector<float>> append_hidden(std::span<const int32_t> tokens) {
    const TensorView hidden = forward(tokens);
    std::vector<std::vector<float>> all;
    for (int64_t i = 0; i < hidden.rows(); ++i)
      all.emplace_back(hidden.row<float>(i), hidden.row<float>(i) + hidden.row_size());
    return all;
  }

  // Appends the prompt, then the best token again and again.
  std::vector<int32_t> greedy(std::span<const int32_t> prompt, int64_t chunk, size_t count) {
    std::vector<int32_t> out;
    std::vector<float> last = append(prompt, chunk).back();
    while (true) {
      out.push_back(static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
      if (out.size() == count) return out;
      last = append(std::span(&out.back(), 1), 1).back();
    }
  }

 private:
  // States in blocks of their own, three of them if no part is larger, again with gaps between.
  void make_states(const ModelSpec& spec) {
    if (state_bytes(spec) == 0) return;
    const int64_t size = std::max(largest_state_part(spec), (state_bytes(spec) / 3 + 63) / 64 * 64);
    state_layout_ = place_states(spec, size);
    const auto count = static_cast<int32_t>(state_layout_.blocks.size());
    state_pool_ = Buffer(static_cast<size_t>(size) * static_cast<size_t>(2 * count));
    std::memset(state_pool_.data(), 0xff, state_pool_.size());  // NaN
    for (int32_t l = 0; l < spec.num_layers(); ++l)
      states_.push_back(state_layout_.view(l, state_pool_.data(), size));
    for (int32_t i = 0; i < count; ++i) state_blocks_.push_back(2 * i);
    std::shuffle(state_blocks_.begin(), state_blocks_.end(), std::mt19937(options_.seed));
  }

  void step(std::span<const int32_t> tokens, std::vector<std::vector<float>>& all) {
    const auto n = static_cast<int32_t>(tokens.size());
    std::vector<int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    const TensorView hidden = forward(tokens);
    std::optional<ClosedMemory> closed;
    if (options_.guarded) closed.emplace(memory_);
    Buffer logits(tokens.size() * static_cast<size_t>(model_.spec().vocab_size) * sizeof(float));
    const TensorView view = make_view(logits.data(), DType::kF32, Shape{n, model_.spec().vocab_size});
    model_.logits(ctx_, hidden, rows, buffers_, view, {}, adapters_of(rows));
    for (int32_t i = 0; i < n; ++i)
      all.emplace_back(view.row<float>(i), view.row<float>(i) + model_.spec().vocab_size);
  }

  // The final hidden states of the tokens, [tokens, hidden_size], which stay valid until the next call.
  TensorView forward(std::span<const int32_t> tokens) {
    const auto n = static_cast<int32_t>(tokens.size());
    std::vector<int32_t> positions;
    std::vector<int64_t> slots;
    for (int32_t i = 0; i < n; ++i) {
      const int32_t p = length_ + i;
      positions.push_back(p);
      slots.push_back(int64_t{blocks_[static_cast<size_t>(p / options_.block_size)]} * options_.block_size +
                      p % options_.block_size);
    }
    length_ += n;
    const int32_t used = (length_ + options_.block_size - 1) / options_.block_size;
    const std::vector<int32_t> cu = {0, n};
    const std::vector<int32_t> lens = {length_};
    const std::vector<int32_t> first = {length_ - n};
    const std::vector<int32_t> indptr = {0, used};
    const std::vector<int32_t> types(tokens.size(), 0);
    ForwardBatch batch;
    batch.token_ids = tokens;
    batch.positions = positions;
    batch.token_types = types;
    batch.slot_mapping = slots;
    batch.attention = {1, cu, lens, indptr, std::span(blocks_).first(static_cast<size_t>(used))};
    batch.kv = kv_;
    batch.states = {1, cu, first, state_blocks_, static_cast<int32_t>(state_blocks_.size())};
    batch.layer_states = states_;
    std::vector<int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    batch.adapters = adapters_of(rows);
    batch.host = {tokens, positions, slots, lens};
    batch.tables = tables_.fill(batch.host);
    std::optional<ClosedMemory> closed;
    if (options_.guarded) closed.emplace(memory_);
    return model_.forward(ctx_, batch, buffers_);
  }

  // The option's adapter for all of the rows, which must outlive the result.
  const AdapterRows* adapters_of(std::span<const int32_t> rows) {
    if (options_.adapter == nullptr) return nullptr;
    uses_[0] = {options_.adapter, rows};
    adapters_ = {.uses = uses_,
                 .groups = groups_,
                 .expert_groups = expert_groups_,
                 .embedding_groups = embedding_groups_,
                 .token_groups = token_groups_,
                 .first_row = 0,
                 .num_rows = static_cast<int64_t>(rows.size())};
    return &adapters_;
  }

  std::array<AdapterUse, 1> uses_;
  std::array<LowRankGroup, 1> groups_;
  std::array<LowRankExpertsGroup, 1> expert_groups_;
  std::array<EmbeddingGroup, 1> embedding_groups_;
  std::array<TrainedTokensGroup, 1> token_groups_;
  AdapterRows adapters_;
  const Model& model_;
  RunnerOptions options_;
  ActivationBuffers buffers_;
  HostStepTables tables_;
  Buffer pool_;
  std::vector<KvCacheView> kv_;
  std::vector<int32_t> blocks_;
  StateLayout state_layout_;
  Buffer state_pool_;
  std::vector<LayerState> states_;
  std::vector<int32_t> state_blocks_;
  Buffer workspace_;
  OpContext ctx_;
  GuardedMemory memory_;
  int32_t length_ = 0;
};

}  // namespace quire::test
