// Gemma 4 (text): sliding windows in most layers, with smaller heads than in the layers with full attention;
// value norms; per-layer embeddings. The last layers share the KV cache of earlier ones.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 15> kGemma4Own = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {.params = layer::kScalar, .module = "layers.{}.layer_scalar", .bare = true},
    {moe::kRouter, "layers.{}.router.proj"},
    {.params = moe::kRouterNorm, .module = "layers.{}.router.scale", .bare = true},
    {.params = moe::kExpertScale, .module = "layers.{}.router.per_expert_scale", .bare = true},
    {.params = kExpertGateUpParams, .module = "layers.{}.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.experts.down_proj", .bare = true},
    {kExpertGateUpParams, "layers.{}.experts.{}.gate_up_proj"},
    {moe::kExpertGateProj, "layers.{}.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.experts.{}.down_proj"},
    {moe::kMlpOutputNorm, "layers.{}.post_feedforward_layernorm_1"},
    {moe::kExpertsNorm, "layers.{}.pre_feedforward_layernorm_2"},
    {moe::kExpertsOutputNorm, "layers.{}.post_feedforward_layernorm_2"},
}};
constexpr auto kGemma4Modules = joined(kLlamaMatrices, kPostNorms, kQkNorms, kLayerInputs, kGemma4Own);

}  // namespace

void read_shared_caches(const ConfigReader& config, ModelSpec& spec, int64_t fallback) {
  const int64_t shared = config.integer("num_kv_shared_layers", 0, spec.num_layers(), fallback);
  const int64_t first = spec.num_layers() - shared;
  for (int64_t i = first; i < spec.num_layers(); ++i) {
    AttentionSpec& own = *attention_of(spec.layers[static_cast<size_t>(i)]);
    for (int64_t j = first - 1; j >= 0 && own.kv_sharing_layer < 0; --j) {
      const AttentionParams& earlier = attention_of(spec.layers[static_cast<size_t>(j)])->params;
      if ((earlier.window > 0) == (own.params.window > 0)) own.kv_sharing_layer = static_cast<int32_t>(j);
    }
    if (own.kv_sharing_layer < 0)
      config.fail("num_kv_shared_layers", "leaves no layer of a kind with keys of its own");
  }
}

// Sizes of attention heads in one kind of layers.
struct Heads {
  int32_t dim;
  int32_t num_kv;
  bool operator==(const Heads&) const = default;
};

Heads read_heads(const ConfigReader& config, std::string_view dim, int32_t default_dim,
                 std::string_view num_kv, int32_t default_num_kv) {
  return {static_cast<int32_t>(config.integer(dim, 2, 1 << 13, default_dim)),
          static_cast<int32_t>(config.integer(num_kv, 1, 1 << 16, default_num_kv))};
}

// Head sizes of layers with full attention: by layer in `per_layer_config`, as transformers 5 writes them, or
// in global fields.
Heads read_full_heads(const ConfigReader& config, const Heads& windowed, const std::vector<bool>& sliding,
                      bool attention_k_eq_v) {
  if (!config.has("per_layer_config")) {
    const Heads full =
        read_heads(config, "global_head_dim", 512, "num_global_key_value_heads", windowed.num_kv);
    return {full.dim, attention_k_eq_v ? full.num_kv : windowed.num_kv};
  }
  const ConfigReader by_layer = config.object("per_layer_config");
  std::optional<Heads> full;
  for (size_t i = 0; i < sliding.size(); ++i) {
    const std::string number = std::to_string(i);
    const Heads own =
        read_heads(by_layer.object(number), "head_dim", windowed.dim, "num_key_value_heads", windowed.num_kv);
    if (own != (sliding[i] ? windowed : full.value_or(own)))
      by_layer.fail(number, "has heads of another kind than the layers like it, which is not supported");
    if (!sliding[i]) full = own;
  }
  return *full;  // the last layer has full attention
}

namespace {

ModelSpec parse_gemma4(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 256,
                                               .max_position_embeddings = 131072,
                                               .rope = {.theta = 1e6, .partial = true, .window_theta = 1e4},
                                               .tie_word_embeddings = true,
                                               .activation_field = "hidden_activation",
                                               .activation = "gelu_pytorch_tanh"});
  if (config.has("use_bidirectional_attention") && config.text("use_bidirectional_attention", "") == "all")
    config.fail("use_bidirectional_attention", "is not supported");
  const int32_t window_dim = first_attention(spec).head_dim;
  const int32_t window_heads = first_attention(spec).num_kv_heads;
  auto sliding = sliding_layers(config, spec, 6);
  sliding.back() = false;
  const bool attention_k_eq_v = config.boolean("attention_k_eq_v", false);
  const auto [full_dim, full_heads] =
      read_full_heads(config, {window_dim, window_heads}, sliding, attention_k_eq_v);
  if (first_attention(spec).num_heads % full_heads != 0)
    config.fail("num_global_key_value_heads", "does not divide num_attention_heads");
  if (spec.ropes.size() == 1) {
    // Defaults of configurations without RoPE fields.
    RopeSpec full;
    full.theta = 1e6;
    full.scaling = RopeScaling::kProportional;
    full.partial_rotary_factor = 0.25;
    RopeSpec local;
    local.rotary_dim = window_dim;
    spec.ropes = {full, local};
  }
  RopeSpec& full = spec.ropes.front();
  full.rotary_dim =
      full.scaling == RopeScaling::kProportional ? full_dim : full.rotary_dim * full_dim / window_dim;

  set_score_divisor(spec, 1.0);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  assign_windows(spec, sliding, window, 1, 0);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    AttentionSpec& own = *attention_of(spec.layers[i]);
    own.head_dim = own.value_dim = sliding[i] ? window_dim : full_dim;
    own.num_kv_heads = sliding[i] ? window_heads : full_heads;
    own.k_eq_v = attention_k_eq_v && !sliding[i];
  }
  read_shared_caches(config, spec, 0);
  const bool wide = config.boolean("use_double_wide_mlp", false);
  for (LayerSpec& layer : spec.layers) {
    if (kv_sharing_layer(layer) < 0) continue;
    attention_of(layer)->k_eq_v = false;
    if (wide) layer.feed_forward.mlp->intermediate_size *= 2;
  }
  if (config.boolean("enable_moe_block", false)) {
    MoeSpec moe = read_experts(config, {.chosen = "top_k_experts"});
    moe.router.norm_topk_prob = true;
    moe.expert_scale = true;
    for (LayerSpec& layer : spec.layers) add_experts(layer, moe, FeedForwardSpec::Experts::kParallel);
  }

  set_attention_bias(spec, config.boolean("attention_bias", false));
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  place_norms(spec, NormPlace::kBoth);
  set_qk_norm(spec, QkNorm::kHeads);
  set_all(spec, &AttentionSpec::v_norm_eps, spec.norm.eps);
  spec.layer_scalars = true;
  spec.logit_softcap = static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 0.0));
  spec.per_layer_input = {
      .size = config.integer("hidden_size_per_layer_input", 0, kMaxSize, 256),
      .vocab_size = config.integer("vocab_size_per_layer_input", 1, kMaxSize, spec.vocab_size),
      .activation = first_mlp(spec).activation};
  if (spec.per_layer_input->size == 0) spec.per_layer_input.reset();
  spec.max_model_len = spec.max_position_embeddings;
  return spec;
}

// Gemma 4 with one decoder for all modalities, without per-layer embeddings.
ModelSpec parse_gemma4_unified(const ConfigReader& config) {
  ModelSpec spec = parse_gemma4(config);
  spec.per_layer_input.reset();
  return spec;
}

WeightNames gemma4_weight_names() {
  return {kModelPrefixes, kGemma4Modules, kBorrowedKeys};
}

}  // namespace

std::span<const Architecture> gemma4_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Gemma4ForCausalLM", "gemma4_text", parse_gemma4, gemma4_weight_names},
      Architecture{"Gemma4UnifiedForCausalLM", "gemma4_unified_text", parse_gemma4_unified,
                   gemma4_weight_names},
  };
  return kRows;
}

}  // namespace quire
