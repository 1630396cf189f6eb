#include "models/decoder/decoder.h"

#include <algorithm>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>

#include "nn/pooler.h"

namespace quire {
namespace {

// One layer in one step.
struct LayerStep {
  const OpRunner& run;
  const Decoder& decoder;
  const DecoderLayer& layer;
  const Rope* rope;  // null = no rotary embedding
  const ForwardBatch& batch;
  const KvCacheView& kv;
  const LayerState& state;
  const DecoderScratch& at;
  std::span<const StepTableView> tables;

  MixerArgs mixer_args(const TensorView& out, const TensorView& x, const TensorView& residual) const {
    return {.out = out,
            .x = x,
            .residual = residual,
            .tables = decoder.tables,
            .rope = rope,
            .batch = batch,
            .kv = kv,
            .state = state,
            .step_tables = tables,
            .chosen = at.chosen,
            .picked = at.picked,
            .work = at.work};
  }
};

// hidden += mixer(x), with the norms and factors of the branch. Overwrites x.
void add_mixer(const LayerStep& step, const TensorView& x) {
  const DecoderScratch& at = step.at;
  const ResidualAdd& join = step.layer.mixer_join;
  if (!step.layer.mixer) return;
  if (step.layer.mixer_overwrites_input) {
    step.layer.mixer->forward(step.run, step.mixer_args(at.branch, x, {}));
    apply(step.run, join, at.hidden, at.branch);
  } else if (join.plain()) {
    step.layer.mixer->forward(step.run, step.mixer_args(at.hidden, x, at.hidden));
    finish(step.run, join, at.hidden);
  } else {
    step.layer.mixer->forward(step.run, step.mixer_args(at.normed, x, {}));
    apply(step.run, join, at.hidden, at.normed);
  }
}

// hidden += feed_forward(x), kMlpRows rows at a time; with hyper-connections hidden = feed_forward(x).
void add_feed_forward(const LayerStep& step, const TensorView& x) {
  const ResidualAdd& join = step.layer.feed_forward_join;
  for (int64_t begin = 0; begin < x.rows(); begin += kMlpRows) {
    const int64_t end = std::min(x.rows(), begin + kMlpRows);
    const RunnerOfRows rows(step.run, begin, end);
    const OpRunner& run = rows.get();
    const TensorView hidden = row_slice(step.at.hidden, begin, end);
    FeedForwardArgs args{
        .out = hidden,
        .x = row_slice(x, begin, end),
        .hidden = hidden,
        .shortcut = step.at.branch.data == nullptr ? TensorView{} : row_slice(step.at.branch, begin, end),
        .tokens = step.batch.token_ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
        .work = step.at.work};
    if (step.layer.feed_forward_streams) {
      step.layer.feed_forward->forward(run, args);
    } else if (join.plain()) {
      args.residual = hidden;
      step.layer.feed_forward->forward(run, args);
      finish(run, join, hidden);
    } else {
      args.out = row_slice(step.at.normed, begin, end);
      step.layer.feed_forward->forward(run, args);
      apply(run, join, hidden, args.out);
    }
  }
}

// branch = hidden + shared_block([hidden, token embeddings]).
void run_shared_block(const LayerStep& step) {
  const DecoderScratch& at = step.at;
  const SharedBlockLayer& own = *step.layer.shared_block;
  TensorView both = at.hidden;  // the token embeddings follow in the same rows
  both.shape = Shape{both.rows(), 2 * at.hidden.row_size()};
  apply(step.run, *own.block, own.use, step.mixer_args(at.branch, both, at.hidden), at.normed,
        std::min(at.hidden.rows(), kMlpRows));
}

void run_sequential(const LayerStep& step) {
  const DecoderScratch& at = step.at;
  const DecoderLayer& layer = step.layer;
  const TensorView& normed = step.decoder.spec.postnorm ? at.hidden : at.normed;
  if (layer.shared_block) run_shared_block(step);
  const TensorView& read = layer.shared_block ? at.branch : at.hidden;
  if (layer.mixer_norm) apply(step.run, *layer.mixer_norm, normed, read);
  const TensorView& x = layer.mixer_norm ? normed : read;
  if (layer.laurel) apply(step.run, *layer.laurel, at.hidden, x, at.branch, at.alt_up);
  add_mixer(step, x);
  if (layer.laurel)
    step.run(ops::ScaleSoftcap{.x = at.hidden, .scale = static_cast<float>(1.0 / std::numbers::sqrt2)});
  if (!layer.feed_forward) return;
  if (layer.feed_forward_norm) apply(step.run, *layer.feed_forward_norm, normed, at.hidden);
  add_feed_forward(step, layer.feed_forward_norm ? normed : at.hidden);
}

// The output of the mixer is added after the feed-forward layer has read the hidden states.
void run_parallel(const LayerStep& step) {
  const DecoderScratch& at = step.at;
  const DecoderLayer& layer = step.layer;
  apply(step.run, *layer.mixer_norm, at.normed, at.hidden);
  layer.mixer->forward(step.run, step.mixer_args(at.branch, at.normed, {}));
  if (layer.feed_forward_norm) apply(step.run, *layer.feed_forward_norm, at.normed, at.hidden);
  add_feed_forward(step, at.normed);
  apply(step.run, layer.mixer_join, at.hidden, at.branch);
}

// Hyper-connections: mixer and feed-forward each read a mixture of the streams and are added to all of them.
void run_streams(const LayerStep& step) {
  const DecoderScratch& at = step.at;
  const DecoderLayer& layer = step.layer;
  const int64_t n = step.batch.num_tokens();
  hc_pre_mapping(step.run, *layer.mixer_streams, at.streams, false, n);
  apply(step.run, *layer.mixer_norm, at.normed, at.hidden);
  layer.mixer->forward(step.run, step.mixer_args(at.hidden, at.normed, {}));
  hc_post_mapping(step.run, at.streams, false, n);
  hc_pre_mapping(step.run, *layer.feed_forward_streams, at.streams, true, n);
  apply(step.run, *layer.feed_forward_norm, at.normed, at.hidden);
  add_feed_forward(step, at.normed);
  hc_post_mapping(step.run, at.streams, true, n);
}

// Adds the bottleneck of the per-layer embeddings (nn/per_layer_input.h).
void add_per_layer_input(const LayerStep& step, size_t index) {
  const DecoderScratch& at = step.at;
  const int64_t size = step.decoder.spec.per_layer_input->size;
  const auto begin = static_cast<int64_t>(index) * 2 * size;
  apply(step.run, *step.layer.input, at.normed, at.hidden,
        column_slice(at.per_layer_inputs, begin, begin + 2 * size),
        column_slice(at.per_layer_projection, 0, size));
  if (step.layer.alt_up) {
    add_to_others(step.run, at.normed, at.alt_up);
  } else {
    step.run(ops::Add{.x = at.hidden, .y = at.normed});
  }
}

// The layers that layer `index` has its weights, and its keys and values, from.
struct LayerSources {
  size_t weights;
  size_t cache;
};
LayerSources sources_of(const LayerSpec& layer, size_t index) {
  const int32_t sharing = kv_sharing_layer(layer);
  return {layer.weight_sharing_layer < 0 ? index : static_cast<size_t>(layer.weight_sharing_layer),
          sharing < 0 ? index : static_cast<size_t>(sharing)};
}

// The token whose embedding is used.
int32_t embedded_id(const ModelSpec& spec, int32_t id) {
  return std::ranges::find(spec.placeholder_ids, id) == spec.placeholder_ids.end() ? id : spec.pad_token_id;
}

bool has_placeholders(const ModelSpec& spec) {
  return !spec.placeholder_ids.empty();
}

// Whether some tokens use the per-layer embeddings of token 0.
bool has_common_inputs(const ModelSpec& spec) {
  return spec.per_layer_input && spec.per_layer_input->vocab_size < spec.vocab_size;
}

// Whether the outputs of two branches exist at the same time.
bool has_branches(const ModelSpec& spec) {
  return spec.parallel_residual || spec.alt_up ||
         std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
           return layer.shared_block || layer.feed_forward.shortcut() || mixer_traits(layer).overwrites_input;
         });
}

bool has_shared_block(const DecoderLayer& layer) {
  return layer.shared_block.has_value();
}

// A bit per slot that a query may attend to, for each of `masks` masks.
SparseMask make_mask(int64_t slots, int64_t masks, ScratchLayout& layout) {
  constexpr int64_t kBits = 64;
  const int64_t words = (slots + kBits - 1) / kBits;
  const std::span<uint64_t> memory = layout.integers<uint64_t>(layout.rows() * masks * words);
  return {memory.data(), words, masks};
}

// The masks of the layers that select keys; the same memory serves all of them.
void add_masks(const Decoder& decoder, ScratchLayout& layout, DecoderScratch& out) {
  bool compressed = false;
  int64_t masks = 0;
  for (const LayerSpec& layer : decoder.spec.layers) {
    const MixerTraits traits = mixer_traits(layer);
    compressed = compressed || traits.compresses_keys;
    masks = std::max(masks, traits.masks);
  }
  if (masks == 0) return;
  const int64_t slots = attention_limits(decoder.spec, decoder.max_model_len).slots;
  out.chosen = make_mask(slots, masks, layout);
  if (compressed) out.picked = make_mask(decoder.max_model_len, 1, layout);
}

int64_t work_size(const Decoder& decoder, int64_t rows) {
  const int64_t mlp_rows = std::min(rows, kMlpRows);
  int64_t size = 0;
  for (const DecoderLayer& layer : decoder.layers) {
    ScratchLayout mixer(rows);
    ScratchLayout feed_forward(mlp_rows);
    ScratchLayout block(rows);
    if (layer.mixer) layer.mixer->count_scratch(mixer);
    if (layer.feed_forward) layer.feed_forward->count_scratch(decoder.spec.hidden_size, feed_forward);
    if (layer.shared_block)
      count_scratch(*layer.shared_block->block, layer.shared_block->use, mlp_rows, block);
    size = std::max({size, mixer.size(), feed_forward.size(), block.size()});
  }
  return size;
}

}  // namespace

Decoder::Decoder() = default;
Decoder::~Decoder() = default;

std::vector<ModelStepTable> step_tables(const Decoder& decoder, int32_t block_size) {
  const ModelSpec& spec = decoder.spec;
  std::vector<ModelStepTable> tables;
  const auto add_ids = [&](std::string_view name, const auto& id_of) {
    tables.push_back({0,
                      {.name = std::string(name),
                       .per_token = 1,
                       .fill = [id_of](const HostBatch& batch, std::span<int32_t> ids) {
                         std::ranges::transform(batch.token_ids, ids.begin(), id_of);
                       }}});
  };
  if (has_placeholders(spec))
    add_ids("embedded tokens", [&spec](int32_t id) { return embedded_id(spec, id); });
  if (has_common_inputs(spec)) {
    add_ids("tokens of per-layer inputs", [&spec](int32_t id) {
      const int32_t embedded = embedded_id(spec, id);
      return embedded < spec.per_layer_input->vocab_size ? embedded : 0;
    });
  }
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    const auto [weights, cache] = sources_of(spec.layers[i], i);
    const DecoderLayer& layer = decoder.layers[weights];
    if (!layer.mixer) continue;
    for (StepTable& table : layer.mixer->step_tables(block_size))
      tables.push_back({static_cast<int32_t>(cache), std::move(table)});
  }
  return tables;
}

void number_step_tables(Decoder& decoder) {
  constexpr int32_t kAnyBlockSize = 16;
  const ModelSpec& spec = decoder.spec;
  size_t next = (has_placeholders(spec) ? 1 : 0) + (has_common_inputs(spec) ? 1 : 0);
  decoder.first_table = {next};
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const DecoderLayer* layer =
        i < decoder.layers.size() ? &decoder.layers[sources_of(spec.layers[i], i).weights] : nullptr;
    if (layer != nullptr && layer->mixer) next += layer->mixer->step_tables(kAnyBlockSize).size();
    decoder.first_table.push_back(next);
  }
}

DecoderScratch make_scratch(const Decoder& decoder, ScratchLayout& layout) {
  const ModelSpec& spec = decoder.spec;
  DecoderScratch out;
  if (spec.streams) {
    out.streams = make_scratch(*spec.streams, layout);
    out.hidden = out.streams.hidden;
  } else if (std::ranges::none_of(decoder.layers, has_shared_block)) {
    out.hidden = layout.matrix(spec.hidden_size);
  } else {
    const TensorView both = layout.matrix(2 * spec.hidden_size);
    if (both.data != nullptr) {
      out.hidden = column_slice(both, 0, spec.hidden_size);
      out.words = column_slice(both, spec.hidden_size, 2 * spec.hidden_size);
    }
  }
  out.normed = layout.matrix(spec.hidden_size);
  if (has_branches(spec)) out.branch = layout.matrix(spec.hidden_size);
  if (spec.per_layer_input) {
    const int64_t inputs = spec.num_layers() * spec.per_layer_input->size;
    out.per_layer_inputs = layout.matrix(2 * inputs);
    out.per_layer_projection = layout.matrix(inputs);
  }
  if (spec.alt_up) out.alt_up = make_scratch(*spec.alt_up, layout);
  add_masks(decoder, layout, out);
  out.work = layout.end();
  layout.advance(work_size(decoder, layout.rows()));
  return out;
}

DecoderScratch DecoderScratch::first(int64_t rows) const {
  const auto part = [&](const TensorView& view) {
    return view.data == nullptr ? TensorView{} : row_slice(view, 0, rows);
  };
  DecoderScratch out = *this;
  for (TensorView DecoderScratch::*view :
       {&DecoderScratch::hidden, &DecoderScratch::words, &DecoderScratch::normed, &DecoderScratch::branch,
        &DecoderScratch::per_layer_inputs, &DecoderScratch::per_layer_projection})
    out.*view = part(this->*view);
  if (alt_up.streams.data != nullptr) out.alt_up = part_of(alt_up, rows);
  return out;
}

void embed(const OpRunner& run, const Decoder& decoder, const ForwardBatch& batch, const DecoderScratch& at) {
  const ModelSpec& spec = decoder.spec;
  const bool narrow = spec.project_embedding_sum;
  // As step_tables() orders them.
  const std::span<const int32_t> token_ids =
      has_placeholders(spec) ? batch.tables[0].narrow : batch.token_ids;
  const std::span<const int32_t> per_layer_token_ids =
      has_common_inputs(spec) ? batch.tables[has_placeholders(spec) ? 1 : 0].narrow : token_ids;
  const int64_t size = embedding_size_of(spec);
  const TensorView sum = narrow ? column_slice(at.normed, 0, size) : at.hidden;
  const TensorView added = narrow ? column_slice(at.hidden, 0, size) : at.normed;
  if (decoder.embedding_in && !narrow) {
    const TensorView words = column_slice(at.normed, 0, size);
    apply(run, decoder.embedding, words, token_ids);
    apply(run, *decoder.embedding_in, at.hidden, words);
  } else {
    apply(run, decoder.embedding, sum, token_ids);
  }
  if (spec.embedding_multiplier != 1.0F) run(ops::ScaleSoftcap{.x = sum, .scale = spec.embedding_multiplier});
  if (decoder.token_types) {
    apply(run, *decoder.token_types, added, batch.token_types);
    run(ops::Add{.x = sum, .y = added});
  }
  if (decoder.position_embedding) {
    apply(run, *decoder.position_embedding, added, batch.positions);
    run(ops::Add{.x = sum, .y = added});
  }
  if (decoder.per_layer_inputs) {
    apply(run, *decoder.per_layer_inputs, at.per_layer_inputs, at.hidden, per_layer_token_ids,
          at.per_layer_projection);
  }
  if (decoder.embedding_norm) apply(run, *decoder.embedding_norm, sum, sum);
  if (narrow) apply(run, *decoder.embedding_in, at.hidden, sum);
  if (at.words.data != nullptr) apply(run, decoder.embedding, at.words, batch.token_ids);
  if (decoder.alt_up_ends) begin_streams(run, *decoder.alt_up_ends, at.hidden, at.alt_up);
  if (spec.streams) begin_streams(run, at.streams, batch.num_tokens());
}

void run_layer(const OpRunner& run, const Decoder& decoder, size_t index, const ForwardBatch& batch,
               const KvGroupBatches& groups, const DecoderScratch& at) {
  const auto [weights, cache] = sources_of(decoder.spec.layers[index], index);
  const DecoderLayer& layer = decoder.layers[weights];
  const LayerState state = batch.layer_states.empty() ? LayerState{} : batch.layer_states[index];
  const ForwardBatch of_group = groups.select(batch, cache);
  const Rope* rope = decoder.tables.rope(decoder.spec.layers[weights].rope);
  const auto tables = batch.tables.subspan(decoder.first_table[index],
                                           decoder.first_table[index + 1] - decoder.first_table[index]);
  const LayerStep step{run, decoder, layer, rope, of_group, batch.kv[cache], state, at, tables};
  if (layer.alt_up) predict(run, *layer.alt_up, at.hidden, at.normed, at.alt_up);
  if (decoder.spec.streams) {
    run_streams(step);
  } else if (decoder.spec.parallel_residual) {
    run_parallel(step);
  } else {
    run_sequential(step);
  }
  if (index > 0 && decoder.spec.layers[index - 1].feed_forward.shortcut())
    run(ops::Add{.x = at.hidden, .y = at.branch});
  if (layer.alt_up) correct(run, *layer.alt_up, at.hidden, at.normed, at.alt_up);
  if (layer.input) add_per_layer_input(step, index);
  if (layer.scalar != 1.0F) run(ops::ScaleSoftcap{.x = at.hidden, .scale = layer.scalar});
}

TensorView finish(const OpRunner& run, const Decoder& decoder, const DecoderScratch& at) {
  if (decoder.alt_up_ends) join_streams(run, *decoder.alt_up_ends, at.hidden, at.normed, at.alt_up);
  if (decoder.final_streams) hc_pre_mapping(run, *decoder.final_streams, at.streams, false, at.hidden.rows());
  TensorView out = at.hidden;
  if (decoder.final_norm) {
    apply(run, *decoder.final_norm, at.normed, at.hidden);
    out = at.normed;
  }
  if (decoder.output_head) {
    const OutputHead& head = *decoder.output_head;
    apply(run, head.dense, at.hidden, at.normed);
    run(ops::Activate{.x = at.hidden, .activation = head.activation});
    apply(run, head.norm, at.normed, at.hidden);
  }
  if (!decoder.embedding_out) return out;
  const TensorView words =
      column_slice(decoder.final_norm ? at.hidden : at.normed, 0, decoder.spec.embedding_size);
  apply(run, *decoder.embedding_out, words, out);
  return words;
}

}  // namespace quire
