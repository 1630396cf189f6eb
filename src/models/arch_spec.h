// Everything a decoder needs to know of its model besides the weights, as plain data. Made from config.json
// by the architecture's own file in models/arch.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/pooling.h"
#include "nn/alt_up.h"
#include "nn/compressed_attention.h"
#include "nn/delta_net.h"
#include "nn/indexer.h"
#include "nn/kimi_delta.h"
#include "nn/layers.h"
#include "nn/lightning.h"
#include "nn/mamba.h"
#include "nn/mamba1.h"
#include "nn/mla.h"
#include "nn/moe.h"
#include "nn/pooler.h"
#include "nn/rope.h"
#include "nn/short_conv.h"
#include "nn/streams.h"
#include "ops/op_table.h"

namespace quire {

enum class PositionKind : uint8_t { kRope, kLearned, kAlibi };

// What a layer carries along a sequence besides keys and values.
enum class Recurrence : uint8_t { kNone, kMamba, kMamba1, kDeltaNet, kShortConv, kLightning, kKimiDelta };

// What differs from layer to layer.
struct LayerSpec {
  int32_t window = 0;            // sliding window in tokens, the token itself included; 0: full attention
  float attention_scale = 1.0F;  // multiplies q.k
  int32_t chunk = 0;             // chunked attention in place of a window (AttentionParams::chunk)
  bool qk_norm = true;           // ArchSpec::qk_norm, where there is one
  int32_t rope = 0;              // which of ArchSpec::ropes; kNoRope: positions are not turned in
  bool experts = false;          // ArchSpec::moe in place of an MLP
  // They read what the layer's MLP reads, beside it; what they give joins at the end of the next layer.
  bool shortcut = false;
  bool attention = true;
  Recurrence recurrence = Recurrence::kNone;  // in place of attention, or beside it
  bool mlp = true;                            // or experts
  // What other layers have otherwise; 0: as ArchSpec says.
  int32_t head_dim = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int64_t intermediate_size = 0;
  double sparse_gates = 0.0;  // the share of an MLP's gates that are cut off (Mlp::gate_deviations)
  // Mlp::limit, of the MLP or the shared expert, and of the others.
  float mlp_limit = 0.0F;
  float expert_limit = 0.0F;
  bool indexer = false;  // it has one (nn/indexer.h)
  // Of ArchSpec::compressed: tokens of a key besides those of a window; 0: there are none. They overlap with
  // the tokens of the next key.
  int32_t compressed_tokens = 0;
  bool compressed_overlap = false;
  bool hashed_experts = false;  // a table says which experts a token has (Moe::by_token)
  int32_t kv_source = -1;       // the earlier layer whose keys and values this one reads; -1: its own
  int32_t weight_source = -1;   // the earlier layer whose weights this one has; -1: its own
  // The layer whose transformer block stands before this one's recurrence (ArchSpec::shared_block): itself or
  // an earlier one; -1: there is none. And which of all uses of such blocks this is.
  int32_t block_source = -1;
  int32_t block_use = 0;
  bool keys_as_values = false;  // values are the keys' projection
  // ArchSpec's norms, where there are any.
  bool input_norm = true;
  bool mlp_norm = true;
  bool post_norms = true;
  bool sinks = true;  // ArchSpec::attention_sinks, where there are any
  // Where what attention or the recurrence gives is added: what the hidden states and this are multiplied
  // with.
  float mix_residual = 1.0F;
  float mix_multiplier = 1.0F;

  bool mixes() const { return attention || recurrence != Recurrence::kNone; }
};
inline constexpr int32_t kNoRope = -1;

// The experts of the layers that have them; their activation is the model's.
struct MoeSpec {
  int32_t num_experts = 0;
  int32_t idle_experts = 0;              // behind them, which give what they are given
  int64_t intermediate_size = 0;         // of an expert
  int64_t shared_intermediate_size = 0;  // of the one that every row goes through; 0: there is none
  bool shared_gate = false;              // which is weighed with a sigmoid of its own
  RouterParams router;                   // its correction is set as the model is loaded
  bool correction = false;               // the checkpoint has a vector of them
  bool router_bias = false;
  bool expert_bias = false;
  float multiplier = 1.0F;    // of what the experts and the shared one give together
  bool weigh_input = false;   // Moe::weigh_input
  bool expert_scale = false;  // Moe::expert_scale
  bool gated = true;          // experts are gated MLPs
  bool limit_first = false;   // Mlp::limit_first
  // The layers have an MLP too: what it and the experts give is normed each by itself and added.
  bool beside = false;

  int32_t routed() const { return num_experts + idle_experts; }  // that the router knows
  MoeSizes sizes(int64_t hidden) const {
    return {routed(), router.num_chosen, shared_intermediate_size > 0, weigh_input, hidden};
  }
};

// What a model that classifies has behind the pooled hidden states: a dense layer or none, then the labels.
struct ClassifierSpec {
  std::string_view name = "score";  // of its modules in the checkpoint, with the model's prefix or without
  std::string_view dense = "";      // empty: there is none
  std::string_view norm = "";
  bool dense_bias = true;
  std::optional<Activation> activation;  // of the dense layer
  bool tanh = false;
  bool bias = false;        // of the labels
  bool difference = false;  // the one label's weights are the first row of two less the second
  int64_t num_labels = 2;
};

// What stands between the final norm and the output: a dense layer, its activation, a norm.
struct OutputHeadSpec {
  bool bias = false;  // of the dense layer
  Activation activation = Activation::kGelu;
};

// The Mamba 2 of the layers that have it.
struct MambaSpec {
  MambaSizes sizes;
  bool in_bias = false;
  bool out_bias = false;
  bool conv_bias = true;
  Activation activation = Activation::kSilu;  // behind the convolution
  float min_step = 0.0F;
  float max_step = std::numeric_limits<float>::infinity();
  bool norm = true;
  bool norm_before_gate = false;
  std::optional<float> norm_eps;   // none: the model's
  std::vector<float> multipliers;  // Mamba::multipliers
};

// The first Mamba of the layers that have it.
struct Mamba1Spec {
  Mamba1Sizes sizes;
  bool bias = false;  // of the projections in and out
  bool conv_bias = true;
  Activation activation = Activation::kSilu;  // behind the convolution
  bool norms = false;                         // of what steps are made of, of what writes and what reads
  bool norm_weights = true;
  float norm_eps = 1e-6F;
};

// Scores of an encoder that depend on how far apart two tokens are.
struct RelativeSpec {
  int32_t num_buckets = 0;
  std::vector<int32_t> buckets;  // by distance (RelativeParams::buckets)
  // A bucket has a vector as wide as the hidden states, which goes through the projections of queries and
  // keys as a token does; else a number for each head.
  bool vectors = false;
  bool norm = false;  // of the vectors
};

// Streams of hidden states (nn/alt_up.h).
struct AltUpSpec {
  AltUpSizes sizes;
  bool scaled = true;  // AltUp::scale
};

// Streams of hidden states (nn/streams.h).
struct StreamSpec {
  StreamSizes sizes;
  StreamParams params;
};

// Transformer blocks that several layers use (nn/shared_block.h). Their sizes are those of the model's
// attention and MLP.
struct SharedBlockSpec {
  int64_t rank = 0;                 // of a use's adapters
  bool attention_adapters = false;  // to queries, keys and values, besides those to the MLP
};

// The gated delta nets of the layers that have them.
struct DeltaNetSpec {
  DeltaNetSizes sizes;
  float share = 1.0F;             // DeltaNet::share
  std::optional<float> norm_eps;  // none: the model's
};

struct KimiDeltaSpec {
  KimiDeltaSizes sizes;
  float bound = 0.0F;  // KimiDelta::bound
};

struct ShortConvSpec {
  ShortConvSizes sizes;
  bool bias = false;  // of projections and convolution
};

struct ArchSpec {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  // Where layers differ: the most heads of queries, and sizes of the others that hold what the largest of the
  // layers keeps in the cache.
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;          // of a value head, less than of a key head; 0: the same, by layer too
  std::vector<LayerSpec> layers;  // [num_layers]

  // What the model gives. Without kGenerate there is no output embedding, and `pooling` and what follows say
  // what becomes of the hidden states.
  ModelTask task = ModelTask::kGenerate;
  std::vector<PoolKind> pooling = {PoolKind::kLast};
  bool normalize = true;                     // kEmbed
  std::optional<ClassifierSpec> classifier;  // kScore; in its place:
  std::array<int32_t, 2> score_tokens = {-1,
                                         -1};  // the score is the first's logit minus the second's (-1: none)
  ScoreActivation score_activation = ScoreActivation::kSoftmax;
  std::vector<std::string> labels;  // as config.json names them
  bool bidirectional = false;       // tokens see those behind them too

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-6F;
  float norm_weight_offset = 0.0F;
  bool norm_bias = false;  // kLayer

  // Sequential: h += attention(norm(h)), then h += mlp(norm(h)). Parallel: both from the same h.
  bool parallel_residual = false;
  bool input_norm = true;      // before attention
  bool mlp_norm = true;        // before the MLP; a parallel one without it shares attention's
  bool post_norms = false;     // of what attention and MLP give, before it is added
  bool sum_norms = false;      // of the hidden states once it is added
  bool norm_residual = false;  // it is added to the normed hidden states, which attention and MLP read
  std::optional<float> post_norm_eps;  // of post_norms; none: norm_eps
  bool final_norm = true;
  float final_norm_offset = 0.0F;  // beyond norm_weight_offset
  std::optional<OutputHeadSpec> output_head;
  float residual_multiplier = 1.0F;  // of what is added
  float embedding_multiplier = 1.0F;
  bool embedding_norm = false;
  int32_t token_types = 0;     // whose vectors are added to the tokens'; 0: there are none
  int32_t task_types = 0;      // whose first vector is added to all tokens'; 0: there are none
  int64_t embedding_rest = 0;  // vectors behind the tokens', which none has
  int64_t embedding_size = 0;  // of the tokens' vectors, projected to the hidden size and back; 0: the same
  // Types, positions and the norm are as wide as the tokens' vectors, the sum of these is what is projected;
  // nothing is projected back.
  bool narrow_embeddings = false;
  int64_t layer_input_size = 0;   // of what each layer gets of a token besides (nn/layer_input.h); 0: nothing
  int64_t layer_input_vocab = 0;  // tokens behind it have the first one's
  std::optional<AltUpSpec> alt_up;
  std::optional<StreamSpec> streams;
  std::optional<SharedBlockSpec> shared_block;
  bool layer_scalars = false;  // each layer's hidden states are multiplied with a number of its own

  Activation activation = Activation::kSilu;
  bool gated_mlp = true;
  bool xielu = false;  // of plain MLPs, in the activation's place: Mlp::xielu
  bool qkv_bias = false;
  bool out_bias = false;  // of attention's output projection
  bool mlp_bias = false;
  bool down_bias = false;  // of an MLP's last projection alone
  bool lm_head_bias = false;
  std::optional<MoeSpec> moe;
  // Attention through short vectors in place of keys and values. The cache then has one key head, and
  // head_dim is MlaSizes::cached.
  std::optional<MlaSizes> mla;
  // Attention to windows and to compressed keys, in the place of all other. The cache then has one key head,
  // whose keys are its values.
  std::optional<CompressedSizes> compressed;
  int32_t back_rope = 0;           // of it: which of `ropes` turns back what the first one turns; the next
                                   // one is the second's
  IndexerSizes indexer;            // of layers that attend to chosen keys
  int32_t index_rope = kNoRope;    // which of `ropes` the indexers' queries and keys go through
  int32_t query_growth = kNoRope;  // which of `ropes` whole queries go through besides (Mla::growth)
  float mla_norm_eps = 1e-6F;
  float mla_latent_multiplier = 1.0F;  // of the normed short vectors of keys and values
  bool attention_gate = false;         // Attention::gates, as many as a layer's queries are wide
  bool attention_gate_apart = false;   // in a matrix of their own, not with the queries
  Activation gate_activation = Activation::kSigmoid;
  bool attention_gate_heads = false;  // one for each head, in a matrix of their own
  std::optional<MambaSpec> mamba;
  std::optional<Mamba1Spec> mamba1;
  std::optional<DeltaNetSpec> delta_net;
  std::optional<ShortConvSpec> short_conv;
  std::optional<LightningSizes> lightning;
  std::optional<KimiDeltaSpec> kimi_delta;
  // Of layers with attention and a recurrence side by side: what each of them gives is multiplied with.
  float attention_multiplier = 1.0F;
  float recurrent_multiplier = 1.0F;
  float gate_multiplier = 1.0F;  // Mlp::gate_multiplier
  float mlp_multiplier = 1.0F;   // of what an MLP gives, besides residual_multiplier
  float mlp_residual = 1.0F;     // of the hidden states that it is added to
  QkNorm qk_norm = QkNorm::kNone;
  NormKind qk_norm_kind = NormKind::kRms;
  bool qk_norm_bias = false;
  bool qk_norm_turned = false;   // behind the rotation
  bool qk_norm_weights = true;   // else it only divides
  bool sub_norms = false;        // before the last product of attention and of the MLP
  bool value_norm = false;       // an RMS norm without weights on each value head
  bool attention_sinks = false;  // AttentionParams::sinks

  PositionKind position = PositionKind::kRope;
  std::vector<RopeSpec> ropes;  // kRope: the kinds of rotation that layers choose from, the first the main
  int32_t position_offset = 0;  // kLearned: the row of position 0
  // kLearned: positions' vectors are computed, sines and then cosines of wavelengths that grow to 10000 times
  // the first in so many steps; 0: a table.
  int32_t sinusoid_steps = 0;
  std::optional<RelativeSpec> relative;
  double alibi_max_bias = 8.0;          // kAlibi (nn/alibi.h)
  double alibi_scale = 1.0;             // multiplied into the slopes
  int64_t max_position_embeddings = 0;  // as config.json says
  int64_t max_model_len = 0;  // tokens of a sequence the model is made for, its rope scaling counted in

  bool tie_word_embeddings = false;
  float attention_softcap = 0.0F;  // 0: none
  float logit_scale = 1.0F;
  float logit_softcap = 0.0F;  // 0: none

  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // of config.json; generation_config.json may say otherwise
};

// What a layer has, where it may differ from the others.
inline int32_t head_dim_of(const ArchSpec& spec, const LayerSpec& layer) {
  return layer.head_dim > 0 ? layer.head_dim : spec.head_dim;
}
inline int32_t value_dim_of(const ArchSpec& spec, const LayerSpec& layer) {
  return spec.value_dim > 0 ? spec.value_dim : head_dim_of(spec, layer);
}
inline int32_t num_heads_of(const ArchSpec& spec, const LayerSpec& layer) {
  return layer.num_heads > 0 ? layer.num_heads : spec.num_heads;
}
// Gates of what attention gives, in all.
inline int64_t num_gates_of(const ArchSpec& spec, const LayerSpec& layer) {
  if (!spec.attention_gate) return 0;
  const int64_t heads = num_heads_of(spec, layer);
  return spec.attention_gate_heads ? heads : heads * head_dim_of(spec, layer);
}
inline int32_t num_kv_heads_of(const ArchSpec& spec, const LayerSpec& layer) {
  return layer.num_kv_heads > 0 ? layer.num_kv_heads : spec.num_kv_heads;
}
// Bytes that a layer keeps of the tokens of a block: its keys and values, where it has some of its own, or
// the vectors of latent attention; of those that have one, the keys of an indexer.
inline int64_t kv_bytes_of(const ArchSpec& spec, const LayerSpec& layer, DType dtype, int32_t block_size) {
  if (!layer.attention || layer.kv_source >= 0) return 0;
  if (spec.compressed)
    return compressed_bytes(*spec.compressed, layer.compressed_tokens, layer.indexer, dtype, block_size);
  const int64_t bytes = spec.mla ? kv_part_bytes(dtype, block_size, 1, spec.mla->cached())
                                 : kv_bytes_per_block(dtype, block_size, num_kv_heads_of(spec, layer),
                                                      head_dim_of(spec, layer), value_dim_of(spec, layer));
  return layer.indexer ? bytes + kv_part_bytes(dtype, block_size, 1, spec.indexer.dim) : bytes;
}
// What the tokens of a block must be a multiple of where layers choose among compressed keys: the tokens of
// one of these, or of as many as kernels read at once, so that blocks have no empty places.
inline int32_t block_unit(const ArchSpec& spec, int32_t block_size) {
  const int32_t keys = block_size % 16 == 0 ? 16 : 1;
  int32_t unit = 1;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.compressed_tokens > 0 && layer.indexer) unit = std::lcm(unit, keys * layer.compressed_tokens);
  }
  return unit;
}
// Places of the cache that a sequence of so many tokens may take.
inline int64_t cache_places(const ArchSpec& spec, int64_t tokens) {
  return spec.compressed ? compressed_places(tokens) : tokens;
}
inline int64_t embedding_size_of(const ArchSpec& spec) {
  return spec.embedding_size > 0 ? spec.embedding_size : spec.hidden_size;
}
inline int64_t intermediate_size_of(const ArchSpec& spec, const LayerSpec& layer) {
  return layer.intermediate_size > 0 ? layer.intermediate_size : spec.intermediate_size;
}

// Nothing for a layer that carries nothing.
inline RecurrentSizes recurrent_sizes(const ArchSpec& spec, const LayerSpec& layer) {
  if (layer.compressed_tokens > 0)
    return compressed_states(*spec.compressed, layer.compressed_overlap, layer.indexer);
  switch (layer.recurrence) {
    case Recurrence::kNone:
      return {};
    case Recurrence::kMamba:
      return spec.mamba->sizes.recurrent();
    case Recurrence::kMamba1:
      return spec.mamba1->sizes.recurrent();
    case Recurrence::kDeltaNet:
      return spec.delta_net->sizes.recurrent();
    case Recurrence::kShortConv:
      return spec.short_conv->sizes.recurrent();
    case Recurrence::kLightning:
      return spec.lightning->recurrent();
    case Recurrence::kKimiDelta:
      return spec.kimi_delta->sizes.recurrent();
  }
  return {};
}

// Throws Error "config.json: …" naming the field that is missing, wrong or absurd, or the architecture that
// is not supported and those that are.
ArchSpec parse_arch(const nlohmann::json& config);

}  // namespace quire
