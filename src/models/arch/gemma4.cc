// Gemma 4 (its text): windows in most layers, whose heads are smaller than those of the
// others; values normed; the last layers read the keys and values of earlier ones; each layer gets a vector
// of the token of its own.
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

constexpr std::array<ModuleName, 15> kOwn = {{
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {.role = Role::kLayerScalar, .module = "layers.{}.layer_scalar", .bare = true},
    {Role::kRouter, "layers.{}.router.proj"},
    {.role = Role::kBesideRouter, .module = "layers.{}.router.scale", .bare = true},
    {.role = Role::kExpertScale, .module = "layers.{}.router.per_expert_scale", .bare = true},
    {.role = Role::kExpertGateUp, .module = "layers.{}.experts.gate_up_proj", .bare = true},
    {.role = Role::kExpertDown, .module = "layers.{}.experts.down_proj", .bare = true},
    {Role::kExpertGateUp, "layers.{}.experts.{}.gate_up_proj"},
    {Role::kExpertGate, "layers.{}.experts.{}.gate_proj"},
    {Role::kExpertUp, "layers.{}.experts.{}.up_proj"},
    {Role::kExpertDown, "layers.{}.experts.{}.down_proj"},
    {Role::kBesideMlp, "layers.{}.post_feedforward_layernorm_1"},
    {Role::kBesideExperts, "layers.{}.pre_feedforward_layernorm_2"},
    {Role::kBesideOut, "layers.{}.post_feedforward_layernorm_2"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kPostNorms, kQkNorms, kLayerInputs, kOwn);

// Heads of `head_dim` that hold at least what both kinds of layers keep of a token, with the scale of each
// head that an int8 cache has.
int32_t heads_for_both(int32_t head_dim, int32_t kv_heads, int32_t window_dim, int32_t window_heads) {
  constexpr int32_t kScale = 4;
  const auto bytes = [](int32_t heads, int32_t dim) { return int64_t{heads} * (dim + kScale); };
  int32_t heads = kv_heads;
  while (bytes(heads, head_dim) < bytes(window_heads, window_dim)) ++heads;
  return heads;
}

}  // namespace

void read_shared_caches(const ConfigReader& config, ArchSpec& spec, int64_t fallback) {
  const int64_t shared = config.integer("num_kv_shared_layers", 0, spec.num_layers, fallback);
  const int64_t first = spec.num_layers - shared;
  for (int64_t i = first; i < spec.num_layers; ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    for (int64_t j = first - 1; j >= 0 && layer.kv_source < 0; --j) {
      if ((spec.layers[static_cast<size_t>(j)].window > 0) == (layer.window > 0))
        layer.kv_source = static_cast<int32_t>(j);
    }
    if (layer.kv_source < 0)
      config.fail("num_kv_shared_layers", "leaves no layer of a kind with keys of its own");
  }
}

// Heads of one kind of layers.
struct Heads {
  int32_t dim;
  int32_t num_kv;
  bool operator==(const Heads&) const = default;
};

Heads read_heads(const ConfigReader& config, std::string_view dim, int32_t usual_dim, std::string_view num_kv,
                 int32_t usual_num_kv) {
  return {static_cast<int32_t>(config.integer(dim, 2, 1 << 13, usual_dim)),
          static_cast<int32_t>(config.integer(num_kv, 1, 1 << 16, usual_num_kv))};
}

// Those of layers without a window: by the layers' numbers in `per_layer_config`, as transformers 5 writes
// them, or once for all.
Heads read_full_heads(const ConfigReader& config, const Heads& windowed, const std::vector<bool>& sliding,
                      bool keys_as_values) {
  if (!config.has("per_layer_config")) {
    const Heads full =
        read_heads(config, "global_head_dim", 512, "num_global_key_value_heads", windowed.num_kv);
    return {full.dim, keys_as_values ? full.num_kv : windowed.num_kv};
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
  return *full;  // the last layer has no window
}

ArchSpec parse_gemma4(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 256,
                                              .max_position_embeddings = 131072,
                                              .rope = {.theta = 1e6, .partial = true, .window_theta = 1e4},
                                              .tie_word_embeddings = true,
                                              .activation_field = "hidden_activation",
                                              .activation = "gelu_pytorch_tanh"});
  if (config.has("use_bidirectional_attention") && config.text("use_bidirectional_attention", "") == "all")
    config.fail("use_bidirectional_attention", "is not supported");
  const int32_t window_dim = spec.head_dim;
  const int32_t window_heads = spec.num_kv_heads;
  auto sliding = sliding_layers(config, spec, 6);
  sliding.back() = false;
  const bool keys_as_values = config.boolean("attention_k_eq_v", false);
  const auto [full_dim, full_heads] =
      read_full_heads(config, {window_dim, window_heads}, sliding, keys_as_values);
  if (spec.num_heads % full_heads != 0)
    config.fail("num_global_key_value_heads", "does not divide num_attention_heads");
  if (spec.ropes.size() == 1) {
    // What a configuration without any rotary fields means.
    RopeSpec full;
    full.theta = 1e6;
    full.scaling = RopeScaling::kProportional;
    full.turning = 0.25;
    RopeSpec local;
    local.rotary_dim = window_dim;
    spec.ropes = {full, local};
  }
  RopeSpec& full = spec.ropes.front();
  full.rotary_dim =
      full.scaling == RopeScaling::kProportional ? full_dim : full.rotary_dim * full_dim / window_dim;

  assign_layers(spec, 1.0);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  assign_windows(spec, sliding, window, 1, 0);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.head_dim = sliding[i] ? window_dim : full_dim;
    layer.num_kv_heads = sliding[i] ? window_heads : full_heads;
    layer.keys_as_values = keys_as_values && !sliding[i];
  }
  if (config.boolean("enable_moe_block", false)) {
    MoeSpec& moe = read_experts(config, spec, {.chosen = "top_k_experts"});
    moe.router.normalize = true;
    moe.expert_scale = moe.beside = true;
  }
  read_shared_caches(config, spec, 0);
  const bool wide = config.boolean("use_double_wide_mlp", false);
  for (LayerSpec& layer : spec.layers) {
    if (layer.kv_source < 0) continue;
    layer.keys_as_values = false;
    if (wide) layer.intermediate_size = 2 * spec.intermediate_size;
  }
  spec.head_dim = std::max(full_dim, window_dim);
  spec.num_kv_heads = full_dim >= window_dim ? heads_for_both(full_dim, full_heads, window_dim, window_heads)
                                             : heads_for_both(window_dim, window_heads, full_dim, full_heads);

  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kHeads;
  spec.value_norm = true;
  spec.layer_scalars = true;
  spec.logit_softcap = static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 0.0));
  spec.layer_input_size = config.integer("hidden_size_per_layer_input", 0, kMaxSize, 256);
  spec.layer_input_vocab = config.integer("vocab_size_per_layer_input", 1, kMaxSize, spec.vocab_size);
  spec.max_model_len = spec.max_position_embeddings;
  return spec;
}

// Gemma 4 with one body for all that comes in; layers get nothing of the token besides.
ArchSpec parse_gemma4_unified(const ConfigReader& config) {
  ArchSpec spec = parse_gemma4(config);
  spec.layer_input_size = 0;
  return spec;
}

WeightNames gemma4_weight_names() {
  return {kModelPrefixes, kModules, kBorrowedKeys};
}

}  // namespace quire
