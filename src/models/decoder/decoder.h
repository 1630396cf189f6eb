// The weights of a model, and its forward pass as free functions: the residual structure of the layers. The
// equations of the mechanisms are in nn/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/decoder/feed_forward.h"
#include "models/model_spec.h"
#include "nn/alt_up.h"
#include "nn/forward_batch.h"
#include "nn/layers.h"
#include "nn/mixer.h"
#include "nn/per_layer_input.h"
#include "nn/shared_block.h"
#include "nn/streams.h"

namespace quire {

struct Pooler;

// One use of a shared block, which runs before the layer's mixer.
struct SharedBlockLayer {
  std::shared_ptr<const SharedBlock> block;
  BlockUse use;
};

// The weights of one layer, made from its LayerSpec.
struct DecoderLayer {
  std::unique_ptr<Mixer> mixer;               // null = none
  bool mixer_overwrites_input = false;        // MixerTraits
  std::unique_ptr<FeedForward> feed_forward;  // null = none
  std::optional<Norm> mixer_norm;
  std::optional<Norm> feed_forward_norm;
  ResidualAdd mixer_join;
  ResidualAdd feed_forward_join;
  std::optional<SharedBlockLayer> shared_block;
  std::optional<PerLayerInput> input;
  std::optional<AltUp> alt_up;
  std::optional<Laurel> laurel;
  std::optional<HyperConnections>
      mixer_streams;  // hyper-connections around mixer and feed-forward: both or neither
  std::optional<HyperConnections> feed_forward_streams;
  float scalar = 1.0F;  // factor on the layer's output
};

// The weights of an OutputHeadSpec.
struct OutputHead {
  Linear dense;
  Activation activation = Activation::kGelu;
  Norm norm;
};

// Immutable after load. Parts that were not loaded (ModelPart) are empty.
struct Decoder {
  ModelSpec spec;
  int64_t max_model_len = 0;
  Embedding embedding;
  std::optional<Embedding> position_embedding;
  std::optional<Embedding> token_types;
  std::optional<Norm> embedding_norm;
  std::optional<Linear> embedding_in;   // [hidden_size, embedding_size]
  std::optional<Linear> embedding_out;  // [embedding_size, hidden_size]
  std::optional<PerLayerInputs> per_layer_inputs;
  std::optional<AltUpEnds> alt_up_ends;
  std::optional<HyperConnections> final_streams;
  SharedTables tables;
  std::vector<DecoderLayer> layers;
  // [num_layers + 1] the first step table of each layer; those of the embeddings come before.
  std::vector<size_t> first_table;
  std::optional<Norm> final_norm;
  std::optional<OutputHead> output_head;
  Linear lm_head;                  // also the embedding if they are tied
  std::unique_ptr<Pooler> pooler;  // null if the model generates

  Decoder();
  ~Decoder();
  Decoder(const Decoder&) = delete;  // the embedding points into it
  Decoder& operator=(const Decoder&) = delete;
};

// Activations of one step, float32. Used by one thread at a time.
struct DecoderScratch {
  TensorView hidden;                // [rows, hidden_size]
  TensorView words;                 // [rows, hidden_size]: token embeddings, for shared blocks
  TensorView normed;                // [rows, hidden_size]
  TensorView branch;                // [rows, hidden_size]; if two branches exist at once
  TensorView per_layer_inputs;      // [rows, num_layers * 2 * size]; per-layer inputs
  TensorView per_layer_projection;  // [rows, num_layers * size]
  AltUpScratch alt_up;
  StreamScratch streams;  // hidden is part of it
  // Keys that sparse attention selected, and compressed keys that an indexer picked; kept from layer to
  // layer.
  SparseMask chosen;
  SparseMask picked;
  ScratchMemory work;  // of mixers and feed-forward layers, which use it in turn

  // Views of the first `rows` rows. Parts that get the number of rows as an argument do not change.
  DecoderScratch first(int64_t rows) const;
};
// The step tables of the embeddings, then those of each layer, with a KV cache of blocks of block_size
// tokens. Refers to the decoder.
std::vector<ModelStepTable> step_tables(const Decoder& decoder, int32_t block_size);
// Sets Decoder::first_table, when all layers have been loaded.
void number_step_tables(Decoder& decoder);
// Lays out everything for steps of layout.rows() tokens.
DecoderScratch make_scratch(const Decoder& decoder, ScratchLayout& layout);

// scratch.hidden = embeddings of the batch's tokens.
void embed(const OpRunner& run, const Decoder& decoder, const ForwardBatch& batch, const DecoderScratch& at);
// scratch.hidden = layer `index` of scratch.hidden.
void run_layer(const OpRunner& run, const Decoder& decoder, size_t index, const ForwardBatch& batch,
               const KvGroupBatches& groups, const DecoderScratch& at);
// The input of the language modeling head or the pooler, after the last layer: a view into the scratch,
// [rows, embedding_size] if embeddings are projected back, otherwise [rows, hidden_size].
TensorView finish(const OpRunner& run, const Decoder& decoder, const DecoderScratch& at);

}  // namespace quire
