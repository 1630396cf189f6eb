#include "models/model.h"

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "base/strings.h"
#include "nn/scratch.h"

namespace quire {
namespace {

// Rows that go through an MLP at once. Its scratch is the widest there is; so many rows keep the kernels
// busy, and more would only take memory and leave the caches.
constexpr int64_t kMlpRows = 512;

// Where each activation lies, in floats. Attention's and the MLP's scratch are never needed at once and share
// their place.
struct ActivationLayout {
  int64_t hidden = 0;  // and the tokens' vectors
  int64_t normed = 0;
  int64_t branch = 0;
  int64_t beside = 0;
  int64_t layer_inputs = 0;
  int64_t layer_input = 0;
  int64_t layer_input_ids = 0;
  int64_t alt_up = 0;
  int64_t streams = 0;
  int64_t low = 0;
  int64_t chosen = 0;
  int64_t qkv = 0;
  int64_t heads = 0;
  int64_t indexer = 0;
  int64_t up = 0;
  int64_t act = 0;
  int64_t moe = 0;
  int64_t end = 0;
};

// Of the widest MLP there is.
int64_t act_size(const ArchSpec& spec) {
  int64_t size = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mlp && (!layer.experts || spec.moe->beside || layer.shortcut))
      size = std::max(size, intermediate_size_of(spec, layer));
  }
  if (!spec.moe) return size;
  return std::max({size, spec.moe->intermediate_size, spec.moe->shared_intermediate_size});
}
int64_t up_size(const ArchSpec& spec) {
  return (spec.gated_mlp ? 2 : 1) * act_size(spec);
}
int64_t q_size(const ArchSpec& spec) {
  int64_t size = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention) size = std::max(size, int64_t{num_heads_of(spec, layer)} * head_dim_of(spec, layer));
  }
  return size;
}
int64_t qkv_size(const ArchSpec& spec) {
  int64_t size = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.attention) continue;
    const int64_t heads = num_heads_of(spec, layer) + 2 * int64_t{num_kv_heads_of(spec, layer)};
    size = std::max(size, heads * head_dim_of(spec, layer) + num_gates_of(spec, layer));
  }
  return size;
}

// Of each size the largest that a layer has.
RecurrentSizes widest_recurrence(const ArchSpec& spec) {
  RecurrentSizes widest;
  for (const LayerSpec& layer : spec.layers) {
    const RecurrentSizes own = recurrent_sizes(spec, layer);
    widest.decays = std::max(widest.decays, own.decay_columns());
    widest.projected = std::max(widest.projected, own.projected);
    widest.result = std::max(widest.result, own.result);
  }
  return widest;
}

// Some tokens have no vector of their own for the layers.
bool has_common_inputs(const ArchSpec& spec) {
  return spec.layer_input_size > 0 && spec.layer_input_vocab < spec.vocab_size;
}

// Columns that hidden states, and the tokens' vectors beside them, lie in.
int64_t hidden_columns(const ArchSpec& spec) {
  return (spec.shared_block ? 2 : 1) * spec.hidden_size;
}
// Of the adapters of a use of a shared block.
int64_t low_size(const ArchSpec& spec) {
  if (!spec.shared_block) return 0;
  return (spec.shared_block->attention_adapters ? 3 : 1) * spec.shared_block->rank;
}

// Two branches of a layer are there at once.
bool has_branches(const ArchSpec& spec) {
  return spec.parallel_residual || spec.alt_up ||
         std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
           return layer.shortcut || (layer.attention && layer.recurrence != Recurrence::kNone);
         });
}

// Words of a row of which keys are chosen, for one choice; of compressed keys of which places count.
int64_t chosen_words(const ArchSpec& spec, int64_t max_model_len) {
  return spec.indexer.heads > 0 || spec.compressed ? (cache_places(spec, max_model_len) + 63) / 64 : 0;
}
// Of which compressed keys are chosen.
int64_t picked_words(const ArchSpec& spec, int64_t max_model_len) {
  return spec.compressed ? (max_model_len + 63) / 64 : 0;
}

ActivationLayout activation_layout(const ArchSpec& spec, int64_t max_tokens, int64_t max_model_len) {
  constexpr int64_t kLine = 16;  // floats in a cache line
  const auto area_of = [&](int64_t rows, int64_t columns) {
    return (rows * columns + kLine - 1) / kLine * kLine;
  };
  const auto area = [&](int64_t columns) { return area_of(max_tokens, columns); };
  const auto mlp_area = [&](int64_t columns) { return area_of(std::min(max_tokens, kMlpRows), columns); };
  ActivationLayout at;
  at.normed = at.hidden + area(spec.streams ? 0 : hidden_columns(spec));
  at.branch = at.normed + area(spec.hidden_size);
  at.beside = at.branch + (has_branches(spec) ? area(spec.hidden_size) : 0);
  at.layer_inputs = at.beside + (spec.moe && spec.moe->beside ? mlp_area(2 * spec.hidden_size) : 0);
  const int64_t inputs = spec.num_layers * spec.layer_input_size;
  at.layer_input = at.layer_inputs + area(2 * inputs);
  at.layer_input_ids = at.layer_input + area(inputs);
  at.alt_up = at.layer_input_ids + (has_common_inputs(spec) ? area(1) : 0);
  at.streams = at.alt_up + (spec.alt_up ? alt_up_scratch_size(spec.alt_up->sizes, max_tokens) : 0);
  at.low = at.streams + (spec.streams ? stream_scratch_size(spec.streams->sizes, max_tokens) : 0);
  at.chosen = at.low + area(low_size(spec));
  at.qkv = at.chosen + area(2 * (spec.indexer.masks() * chosen_words(spec, max_model_len) +
                                 picked_words(spec, max_model_len)));
  at.heads = at.qkv + area(qkv_size(spec));
  at.up = at.qkv;
  at.act = at.up + mlp_area(up_size(spec));
  at.indexer = at.heads + area(q_size(spec));
  ScratchLayout index(max_tokens, nullptr);
  place_indexer(spec.indexer, index);
  ScratchLayout compressed(max_tokens, nullptr);
  if (spec.compressed) place_compressed(*spec.compressed, compressed);
  const int64_t attention_end =
      spec.mla          ? at.qkv + mla_scratch_size(*spec.mla, spec.indexer, spec.num_heads, max_tokens)
      : spec.compressed ? at.qkv + compressed.size()
                        : at.indexer + index.size();
  at.moe = at.act + (spec.gated_mlp ? mlp_area(act_size(spec)) : 0);
  const int64_t mlp_rows = std::min(max_tokens, kMlpRows);
  const int64_t mlp_end =
      at.moe + (spec.moe ? moe_scratch_size(spec.moe->sizes(spec.hidden_size), mlp_rows) : 0);
  const int64_t recurrence_end = at.qkv + recurrent_scratch_size(widest_recurrence(spec), max_tokens);
  at.end = std::max({attention_end, recurrence_end, mlp_end});
  return at;
}

// True where the rows follow each other: they need no gathering.
bool consecutive(std::span<const int32_t> rows) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return false;
  }
  return true;
}

}  // namespace

int64_t Model::activation_bytes(int64_t max_tokens) const {
  return activation_layout(spec_, max_tokens, max_model_len_).end * static_cast<int64_t>(sizeof(float));
}

ActivationBuffers Model::make_buffers(int64_t max_tokens) const {
  const ActivationLayout at = activation_layout(spec_, max_tokens, max_model_len_);
  ActivationBuffers buffers;
  buffers.data = Buffer(static_cast<size_t>(at.end) * sizeof(float));
  buffers.max_tokens = max_tokens;
  float* base = buffers.data.as<float>();
  const auto place_rows = [&](int64_t offset, int64_t rows, int64_t columns) {
    return make_view(base + offset, DType::kF32, Shape{rows, columns});
  };
  const auto place = [&](int64_t offset, int64_t columns) { return place_rows(offset, max_tokens, columns); };
  const int64_t mlp_rows = std::min(max_tokens, kMlpRows);
  if (spec_.streams)
    buffers.streams = make_stream_scratch(spec_.streams->sizes, max_tokens, base + at.streams);
  const TensorView hidden = spec_.streams ? buffers.streams.hidden : place(at.hidden, hidden_columns(spec_));
  buffers.hidden = column_slice(hidden, 0, spec_.hidden_size);
  if (spec_.shared_block) buffers.words = column_slice(hidden, spec_.hidden_size, 2 * spec_.hidden_size);
  buffers.normed = place(at.normed, spec_.hidden_size);
  if (has_branches(spec_)) buffers.branch = place(at.branch, spec_.hidden_size);
  if (spec_.moe && spec_.moe->beside) buffers.beside = place_rows(at.beside, 2 * mlp_rows, spec_.hidden_size);
  if (spec_.layer_input_size > 0) {
    const int64_t inputs = spec_.num_layers * spec_.layer_input_size;
    buffers.layer_inputs = place(at.layer_inputs, 2 * inputs);
    buffers.layer_input = place(at.layer_input, inputs);
  }
  if (has_common_inputs(spec_)) {
    buffers.layer_input_ids = {reinterpret_cast<int32_t*>(base + at.layer_input_ids),
                               static_cast<size_t>(max_tokens)};
  }
  if (spec_.alt_up) buffers.alt_up = make_alt_up_scratch(spec_.alt_up->sizes, max_tokens, base + at.alt_up);
  if (spec_.mla) {
    buffers.mla = make_mla_scratch(*spec_.mla, spec_.indexer, spec_.num_heads, max_tokens, base + at.qkv);
  } else if (spec_.compressed) {
    ScratchLayout compressed(max_tokens, base + at.qkv);
    buffers.compressed = place_compressed(*spec_.compressed, compressed);
  } else {
    buffers.qkv = place(at.qkv, qkv_size(spec_));
    buffers.heads = place(at.heads, q_size(spec_));
    ScratchLayout index(max_tokens, base + at.indexer);
    buffers.indexer = place_indexer(spec_.indexer, index);
  }
  if (const int64_t words = chosen_words(spec_, max_model_len_); words > 0) {
    const KeyMask chosen = {reinterpret_cast<uint64_t*>(base + at.chosen), words, spec_.indexer.masks()};
    if (spec_.compressed) {
      buffers.compressed.chosen = chosen;
      buffers.compressed.picked = {chosen.words + max_tokens * words, picked_words(spec_, max_model_len_)};
    } else {
      (spec_.mla ? buffers.mla.indexer : buffers.indexer).chosen = chosen;
    }
  }
  buffers.recurrent = make_recurrent_scratch(widest_recurrence(spec_), max_tokens, base + at.qkv);
  buffers.up = place_rows(at.up, mlp_rows, up_size(spec_));
  if (spec_.gated_mlp) buffers.act = place_rows(at.act, mlp_rows, act_size(spec_));
  if (spec_.shared_block) {
    buffers.block = {buffers.qkv, buffers.heads, buffers.up, buffers.act, place(at.low, low_size(spec_))};
  }
  if (spec_.moe) buffers.moe = make_moe_scratch(spec_.moe->sizes(spec_.hidden_size), mlp_rows, base + at.moe);
  return buffers;
}

struct Model::Scratch {
  TensorView hidden;
  TensorView words;
  TensorView normed;
  TensorView branch;
  TensorView qkv;
  TensorView heads;
  TensorView up;      // [mlp_rows, …]
  TensorView act;     // [mlp_rows, …]
  TensorView beside;  // [2 mlp_rows, …]
  TensorView layer_inputs;
  TensorView layer_input;
  std::span<int32_t> layer_input_ids;
  AltUpScratch alt_up;
  const MoeScratch& moe;
  const MlaScratch& mla;
  const CompressedScratch& compressed;
  const IndexerScratch& indexer;
  const StreamScratch& streams;
  const BlockScratch& block;
  const RecurrentScratch& recurrent;

  Scratch(const ActivationBuffers& buffers, int64_t n)
      : hidden(row_slice(buffers.hidden, 0, n)),
        words(buffers.words.data == nullptr ? TensorView{} : row_slice(buffers.words, 0, n)),
        normed(row_slice(buffers.normed, 0, n)),
        branch(buffers.branch.data == nullptr ? TensorView{} : row_slice(buffers.branch, 0, n)),
        qkv(buffers.qkv.data == nullptr ? TensorView{} : row_slice(buffers.qkv, 0, n)),
        heads(buffers.heads.data == nullptr ? TensorView{} : row_slice(buffers.heads, 0, n)),
        up(buffers.up),
        act(buffers.act),
        beside(buffers.beside),
        layer_inputs(buffers.layer_inputs.data == nullptr ? TensorView{}
                                                          : row_slice(buffers.layer_inputs, 0, n)),
        layer_input(buffers.layer_input.data == nullptr ? TensorView{}
                                                        : row_slice(buffers.layer_input, 0, n)),
        layer_input_ids(buffers.layer_input_ids),
        alt_up(buffers.alt_up.streams.data == nullptr ? AltUpScratch{} : part_of(buffers.alt_up, n)),
        moe(buffers.moe),
        mla(buffers.mla),
        compressed(buffers.compressed),
        indexer(buffers.indexer),
        streams(buffers.streams),
        block(buffers.block),
        recurrent(buffers.recurrent) {}
};

void Model::check_batch(const ForwardBatch& batch, const ActivationBuffers& buffers) const {
  const int64_t n = batch.num_tokens();
  if (n > buffers.max_tokens || batch.positions.size() != batch.token_ids.size() ||
      batch.slot_mapping.size() != batch.token_ids.size() || batch.kv.size() != layers_.size() ||
      (token_types_ && batch.token_types.size() != batch.token_ids.size())) {
    throw Error(cat("a step of ", n, " tokens, ", batch.positions.size(), " positions, ",
                    batch.slot_mapping.size(), " slots and ", batch.kv.size(),
                    " KV layers does not fit buffers for ", buffers.max_tokens, " tokens and ",
                    layers_.size(), " layers"));
  }
  if (state_layers_ &&
      (batch.layer_states.size() != layers_.size() || batch.states.num_seqs != batch.attention.num_seqs)) {
    throw Error(cat("a step of ", batch.attention.num_seqs, " sequences has the states of ",
                    batch.states.num_seqs, " in ", batch.layer_states.size(), " of ", layers_.size(),
                    " layers"));
  }
}

TensorView Model::forward(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers) const {
  check_batch(batch, buffers);
  const Scratch at(buffers, batch.num_tokens());
  embed(ctx, batch, at);
  for (size_t i = 0; i < layers_.size(); ++i) run_layer(ctx, i, batch, at);
  if (alt_up_ends_) join_streams(*ops_, ctx, *alt_up_ends_, at.hidden, at.normed, at.alt_up);
  if (final_mix_) enter_streams(*ops_, ctx, *final_mix_, at.streams, false, batch.num_tokens());
  TensorView out = at.hidden;
  if (final_norm_) {
    apply(*ops_, ctx, *final_norm_, at.normed, at.hidden);
    out = at.normed;
  }
  if (output_head_) {
    apply(*ops_, ctx, output_head_->dense, at.hidden, at.normed);
    ops_->activation(ctx, at.hidden, output_head_->activation);
    apply(*ops_, ctx, output_head_->norm, at.normed, at.hidden);
  }
  if (!embedding_out_) return out;
  const TensorView words = column_slice(final_norm_ ? at.hidden : at.normed, 0, spec_.embedding_size);
  apply(*ops_, ctx, *embedding_out_, words, out);
  return words;
}

void Model::embed(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers) const {
  check_batch(batch, buffers);
  embed(ctx, batch, Scratch(buffers, batch.num_tokens()));
}

void Model::run_layer(const OpContext& ctx, int32_t layer, const ForwardBatch& batch,
                      ActivationBuffers& buffers) const {
  check_batch(batch, buffers);
  run_layer(ctx, static_cast<size_t>(layer), batch, Scratch(buffers, batch.num_tokens()));
}

void Model::run_layer(const OpContext& ctx, size_t index, const ForwardBatch& batch,
                      const Scratch& at) const {
  const LayerSpec& own = spec_.layers[index];
  const Layer& layer = layers_[own.weight_source < 0 ? index : static_cast<size_t>(own.weight_source)];
  const size_t kv_source = own.kv_source < 0 ? index : static_cast<size_t>(own.kv_source);
  const auto run = spec_.streams             ? &Model::run_mixed
                   : spec_.parallel_residual ? &Model::run_parallel
                                             : &Model::run_sequential;
  const LayerState state = layer.carries() ? batch.layer_states[index] : LayerState{};
  if (layer.alt_up) predict(*ops_, ctx, *layer.alt_up, at.hidden, at.normed, at.alt_up);
  (this->*run)(ctx, layer, batch, batch.kv[kv_source], state, at);
  if (index > 0 && spec_.layers[index - 1].shortcut) ops_->add(ctx, at.hidden, at.branch);
  if (layer.alt_up) correct(*ops_, ctx, *layer.alt_up, at.hidden, at.normed, at.alt_up);
  if (layer.input) {
    const int64_t size = spec_.layer_input_size;
    const auto begin = static_cast<int64_t>(index) * 2 * size;
    apply(*ops_, ctx, *layer.input, at.normed, at.hidden,
          column_slice(at.layer_inputs, begin, begin + 2 * size), column_slice(at.layer_input, 0, size));
    if (layer.alt_up) {
      add_to_others(*ops_, ctx, at.normed, at.alt_up);
    } else {
      ops_->add(ctx, at.hidden, at.normed);
    }
  }
  if (layer.scalar != 1.0F) ops_->scale_softcap(ctx, at.hidden, layer.scalar, 0.0F);
}

void Model::embed(const OpContext& ctx, const ForwardBatch& batch, const Scratch& at) const {
  const bool narrow = spec_.narrow_embeddings;
  const int64_t size = embedding_size_of(spec_);
  const TensorView sum = narrow ? column_slice(at.normed, 0, size) : at.hidden;
  const TensorView added = narrow ? column_slice(at.hidden, 0, size) : at.normed;
  if (embedding_in_ && !narrow) {
    const TensorView words = column_slice(at.normed, 0, size);
    apply(*ops_, ctx, embedding_, words, batch.token_ids);
    apply(*ops_, ctx, *embedding_in_, at.hidden, words);
  } else {
    apply(*ops_, ctx, embedding_, sum, batch.token_ids);
  }
  if (spec_.embedding_multiplier != 1.0F) ops_->scale_softcap(ctx, sum, spec_.embedding_multiplier, 0.0F);
  if (token_types_) {
    apply(*ops_, ctx, *token_types_, added, batch.token_types);
    ops_->add(ctx, sum, added);
  }
  if (position_embedding_) {
    apply(*ops_, ctx, *position_embedding_, added, batch.positions);
    ops_->add(ctx, sum, added);
  }
  if (layer_inputs_) {
    std::span<const int32_t> ids = batch.token_ids;
    if (!at.layer_input_ids.empty()) {
      std::ranges::transform(ids, at.layer_input_ids.begin(),
                             [&](int32_t id) { return id < spec_.layer_input_vocab ? id : 0; });
      ids = at.layer_input_ids.first(ids.size());
    }
    apply(*ops_, ctx, *layer_inputs_, at.layer_inputs, at.hidden, ids, at.layer_input);
  }
  if (embedding_norm_) apply(*ops_, ctx, *embedding_norm_, sum, sum);
  if (narrow) apply(*ops_, ctx, *embedding_in_, at.hidden, sum);
  if (spec_.shared_block) apply(*ops_, ctx, embedding_, at.words, batch.token_ids);
  if (alt_up_ends_) begin_streams(*ops_, ctx, *alt_up_ends_, at.hidden, at.alt_up);
  if (spec_.streams) begin_streams(*ops_, ctx, at.streams, batch.num_tokens());
}

void Model::run_attention(const OpContext& ctx, const Layer& layer, const TensorView& out,
                          const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
                          const KvCacheView& kv, const LayerState& state, const Scratch& at) const {
  if (layer.compressed) {
    apply(*ops_, ctx, *layer.compressed, *layer.rope, out, x, batch, kv, state, at.compressed);
    return;
  }
  if (layer.mla) {
    apply(*ops_, ctx, *layer.mla, layer.rope, out, x, residual, batch, kv, at.mla);
    return;
  }
  KeyMask chosen;
  if (layer.indexer) {
    const int64_t own =
        kv_bytes_per_block(kv.dtype, kv.block_size, kv.num_kv_heads, kv.head_dim, kv.value_dim);
    choose(*ops_, ctx, *layer.indexer, x, x, batch, index_cache(kv, own, spec_.indexer), at.indexer);
    if (has_choice(spec_.indexer, batch.attention)) chosen = at.indexer.chosen;
  }
  apply(*ops_, ctx, *layer.attention, layer.rope, out, x, residual, batch, kv, at.qkv, at.heads, chosen);
}

void Model::run_recurrence(const OpContext& ctx, const Layer& layer, const TensorView& out,
                           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
                           const LayerState& state, const Scratch& at) const {
  const auto run = [&](const auto& part) {
    apply(*ops_, ctx, part, out, x, residual, batch, state, at.recurrent);
  };
  if (layer.mamba) run(*layer.mamba);
  if (layer.mamba1) run(*layer.mamba1);
  if (layer.delta_net) run(*layer.delta_net);
  if (layer.short_conv) run(*layer.short_conv);
  if (layer.lightning) run(*layer.lightning);
  if (layer.kimi_delta) run(*layer.kimi_delta);
}

void Model::run_block(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch,
                      const KvCacheView& kv, const Scratch& at) const {
  TensorView both = at.hidden;  // and the tokens' vectors behind them
  both.shape = Shape{both.rows(), 2 * spec_.hidden_size};
  apply(*ops_, ctx, *layer.block, layer.block_use, layer.rope, at.branch, both, at.hidden, batch, kv,
        at.normed, at.block);
}

void Model::run_both(const OpContext& ctx, const Layer& layer, const TensorView& x, const ForwardBatch& batch,
                     const KvCacheView& kv, const LayerState& state, const Scratch& at) const {
  run_recurrence(ctx, layer, at.branch, x, {}, batch, state, at);
  if (spec_.recurrent_multiplier != 1.0F)
    ops_->scale_softcap(ctx, at.branch, spec_.recurrent_multiplier, 0.0F);
  run_attention(ctx, layer, x, x, {}, batch, kv, {}, at);
  if (spec_.attention_multiplier != 1.0F) ops_->scale_softcap(ctx, x, spec_.attention_multiplier, 0.0F);
  ops_->add(ctx, at.branch, x);
  apply(*ops_, ctx, layer.attention_join, at.hidden, at.branch);
}

void Model::run_sequential(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch,
                           const KvCacheView& kv, const LayerState& state, const Scratch& at) const {
  const TensorView& normed = spec_.norm_residual ? at.hidden : at.normed;
  if (layer.block != nullptr) run_block(ctx, layer, batch, kv, at);
  const TensorView& read = layer.block != nullptr ? at.branch : at.hidden;
  if (layer.input_norm) apply(*ops_, ctx, *layer.input_norm, normed, read);
  const TensorView& x = layer.input_norm ? normed : read;
  if (layer.laurel) apply(*ops_, ctx, *layer.laurel, at.hidden, x, at.branch, at.alt_up);
  const auto mix = [&](const TensorView& out, const TensorView& residual) {
    if (layer.attends()) {
      run_attention(ctx, layer, out, x, residual, batch, kv, {}, at);
    } else {
      run_recurrence(ctx, layer, out, x, residual, batch, state, at);
    }
  };
  if (layer.attends() && layer.recurs()) {
    run_both(ctx, layer, x, batch, kv, state, at);
  } else if (layer.attends() || layer.recurs()) {
    if (layer.attention_join.plain()) {
      mix(at.hidden, at.hidden);
      finish(*ops_, ctx, layer.attention_join, at.hidden);
    } else {
      mix(at.normed, {});
      apply(*ops_, ctx, layer.attention_join, at.hidden, at.normed);
    }
  }
  if (layer.laurel) ops_->scale_softcap(ctx, at.hidden, static_cast<float>(1.0 / std::numbers::sqrt2), 0.0F);
  if (!layer.has_mlp) return;
  if (layer.mlp_norm) apply(*ops_, ctx, *layer.mlp_norm, normed, at.hidden);
  run_mlp(ctx, layer, layer.mlp_norm ? normed : at.hidden, batch.token_ids, at);
}

// Attention and MLP of a mixture of the streams each; what they give joins all of these.
void Model::run_mixed(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch,
                      const KvCacheView& kv, const LayerState& state, const Scratch& at) const {
  const int64_t n = batch.num_tokens();
  enter_streams(*ops_, ctx, *layer.attention_mix, at.streams, false, n);
  apply(*ops_, ctx, *layer.input_norm, at.normed, at.hidden);
  run_attention(ctx, layer, at.hidden, at.normed, {}, batch, kv, state, at);
  leave_streams(*ops_, ctx, at.streams, false, n);
  enter_streams(*ops_, ctx, *layer.mlp_mix, at.streams, true, n);
  apply(*ops_, ctx, *layer.mlp_norm, at.normed, at.hidden);
  run_mlp(ctx, layer, at.normed, batch.token_ids, at);
  leave_streams(*ops_, ctx, at.streams, true, n);
}

// Attention's part waits until the MLP has seen the hidden states as they were.
void Model::run_parallel(const OpContext& ctx, const Layer& layer, const ForwardBatch& batch,
                         const KvCacheView& kv, const LayerState& /*state*/, const Scratch& at) const {
  apply(*ops_, ctx, *layer.input_norm, at.normed, at.hidden);
  run_attention(ctx, layer, at.branch, at.normed, {}, batch, kv, {}, at);
  if (layer.mlp_norm) apply(*ops_, ctx, *layer.mlp_norm, at.normed, at.hidden);
  run_mlp(ctx, layer, at.normed, batch.token_ids, at);
  apply(*ops_, ctx, layer.attention_join, at.hidden, at.branch);
}

void Model::run_beside(const OpContext& ctx, const Layer& layer, const TensorView& out, const TensorView& x,
                       const TensorView& hidden, std::span<const int32_t> tokens, const Scratch& at) const {
  const int64_t n = x.rows();
  const TensorView router = row_slice(at.beside, 0, n);
  const TensorView experts = row_slice(at.beside, at.beside.rows() / 2, at.beside.rows() / 2 + n);
  apply(*ops_, ctx, layer.beside->router, router, hidden);
  apply(*ops_, ctx, layer.beside->experts, experts, hidden);
  apply(*ops_, ctx, layer.mlp, out, x, {}, part(at.up, n, layer.mlp.up_size()),
        part(at.act, n, layer.mlp.intermediate));
  apply(*ops_, ctx, layer.beside->mlp, out, out);
  apply(*ops_, ctx, *layer.moe, experts, experts, {}, at.moe, at.up, at.act, tokens, router);
  apply(*ops_, ctx, layer.beside->out, experts, experts);
  ops_->add(ctx, out, experts);
}

// hidden += mlp(x), some rows after the others; of mixed streams hidden = mlp(x).
void Model::run_mlp(const OpContext& ctx, const Layer& layer, const TensorView& x,
                    std::span<const int32_t> tokens, const Scratch& at) const {
  for (int64_t begin = 0; begin < x.rows(); begin += kMlpRows) {
    const int64_t end = std::min(x.rows(), begin + kMlpRows);
    const TensorView in = row_slice(x, begin, end);
    const TensorView hidden = row_slice(at.hidden, begin, end);
    const auto own = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const auto compute = [&](const TensorView& out, const TensorView& residual) {
      if (layer.beside) return run_beside(ctx, layer, out, in, hidden, own, at);
      if (layer.moe) {
        const TensorView sum = layer.shortcut ? row_slice(at.branch, begin, end) : out;
        apply(*ops_, ctx, *layer.moe, sum, in, layer.shortcut ? TensorView{} : residual, at.moe, at.up,
              at.act, own);
        if (!layer.shortcut) return;
      }
      const TensorView up = part(at.up, end - begin, layer.mlp.up_size());
      const TensorView act =
          at.act.data == nullptr ? TensorView{} : part(at.act, end - begin, layer.mlp.intermediate);
      apply(*ops_, ctx, layer.mlp, out, in, residual, up, act);
    };
    if (layer.mlp_mix) {
      compute(hidden, {});
    } else if (layer.mlp_join.plain()) {
      compute(hidden, hidden);
      finish(*ops_, ctx, layer.mlp_join, hidden);
    } else {
      const TensorView branch = row_slice(at.normed, begin, end);
      compute(branch, {});
      apply(*ops_, ctx, layer.mlp_join, hidden, branch);
    }
  }
}

void Model::logits(const OpContext& ctx, const TensorView& hidden, std::span<const int32_t> rows,
                   ActivationBuffers& buffers, const TensorView& logits) const {
  if (rows.empty()) return;
  const auto count = static_cast<int64_t>(rows.size());
  if (count > buffers.max_tokens) {
    throw Error(cat("logits of ", count, " rows do not fit buffers for ", buffers.max_tokens, " tokens"));
  }
  TensorView chosen;
  if (consecutive(rows)) {
    chosen = row_slice(hidden, rows.front(), rows.front() + count);
  } else {
    const TensorView& unused = hidden.data == buffers.hidden.data ? buffers.normed : buffers.hidden;
    chosen = part(unused, count, hidden.row_size());
    ops_->gather_rows(ctx, chosen, hidden, rows);
  }
  apply(*ops_, ctx, lm_head_, logits, chosen);
  if (spec_.logit_scale != 1.0F || spec_.logit_softcap != 0.0F) {
    ops_->scale_softcap(ctx, logits, spec_.logit_scale, spec_.logit_softcap);
  }
}

}  // namespace quire
