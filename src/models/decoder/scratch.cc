#include <algorithm>

#include "models/decoder/decoder.h"

namespace quire {
namespace {

// Whether some tokens use the per-layer embeddings of token 0.
bool has_common_inputs(const ModelSpec& spec) {
  return spec.per_layer_input && spec.per_layer_input->vocab_size < spec.vocab_size;
}

// Whether the outputs of two branches exist at the same time.
bool has_branches(const ModelSpec& spec) {
  return spec.parallel_residual || spec.alt_up ||
         std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
           return layer.shared_block || layer.feed_forward.shortcut() ||
                  std::holds_alternative<ParallelMixerSpec>(layer.mixer);
         });
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
    if (std::holds_alternative<CompressedAttentionSpec>(layer.mixer)) compressed = true;
    if (const auto* mla = std::get_if<MlaSpec>(&layer.mixer); mla != nullptr && mla->index.heads > 0)
      masks = std::max(masks, mla->index.masks());
    const AttentionSpec* attention = attention_of(layer);
    if (attention != nullptr && attention->indexer) masks = std::max(masks, attention->indexer->masks());
  }
  if (!compressed && masks == 0) return;
  const int64_t slots = attention_limits(decoder.spec, decoder.max_model_len).slots;
  out.chosen = make_mask(slots, std::max<int64_t>(masks, 1), layout);
  if (compressed) out.picked = make_mask(decoder.max_model_len, 1, layout);
}

int64_t work_size(const Decoder& decoder, int64_t rows) {
  const int64_t mlp_rows = std::min(rows, kMlpRows);
  int64_t size = 0;
  for (const DecoderLayer& layer : decoder.layers) {
    ScratchLayout mixer(rows, nullptr);
    if (layer.mixer) layer.mixer->count_scratch(mixer);
    size = std::max({size, mixer.size(),
                     feed_forward_scratch_size(layer.feed_forward, decoder.spec.hidden_size, mlp_rows)});
    if (!layer.shared_block) continue;
    ScratchLayout block(rows, nullptr);
    count_scratch(*layer.shared_block->block, layer.shared_block->use, mlp_rows, block);
    size = std::max(size, block.size());
  }
  return size;
}

}  // namespace

DecoderScratch make_scratch(const Decoder& decoder, ScratchLayout& layout) {
  const ModelSpec& spec = decoder.spec;
  DecoderScratch out;
  if (spec.streams) {
    out.streams = make_scratch(*spec.streams, layout);
    out.hidden = out.streams.hidden;
  } else if (decoder.blocks.empty()) {
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
    out.layer_inputs = layout.matrix(2 * inputs);
    out.layer_input = layout.matrix(inputs);
  }
  if (has_common_inputs(spec)) out.per_layer_input_ids = layout.integers<int32_t>(layout.rows());
  if (!spec.placeholder_ids.empty()) out.embedded_ids = layout.integers<int32_t>(layout.rows());
  if (spec.alt_up) out.alt_up = make_scratch(*spec.alt_up, layout);
  add_masks(decoder, layout, out);
  const ScratchLayout rest = layout.rest(layout.rows());
  out.work = rest.memory();
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
        &DecoderScratch::layer_inputs, &DecoderScratch::layer_input})
    out.*view = part(this->*view);
  if (alt_up.streams.data != nullptr) out.alt_up = part_of(alt_up, rows);
  return out;
}

}  // namespace quire
