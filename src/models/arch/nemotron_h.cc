// Nemotron-H: each layer has a single part: Mamba 2, attention without RoPE, an ungated MLP with squared
// ReLU, or experts of that kind.
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kNemotronHPrefixes = {"backbone.", "model.", ""};
constexpr std::array<TensorName, 19> kNemotronHRest = {{
    {model::kEmbedTokens, "embeddings"},
    {layer::kInputNorm, "layers.{}.norm"},
    {layer::kMlpNorm, "layers.{}.norm"},
    {attention::kQProj, "layers.{}.mixer.q_proj"},
    {attention::kKProj, "layers.{}.mixer.k_proj"},
    {attention::kVProj, "layers.{}.mixer.v_proj"},
    {attention::kOProj, "layers.{}.mixer.o_proj"},
    {mlp::kUpProj, "layers.{}.mixer.up_proj"},
    {mlp::kDownProj, "layers.{}.mixer.down_proj"},
    {moe::kRouter, "layers.{}.mixer.gate"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mixer.gate.e_score_correction_bias", .bare = true},
    {moe::kExpertUpProj, "layers.{}.mixer.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.mixer.experts.{}.down_proj"},
    {.params = moe::kExpertUpProj, .module = "layers.{}.mixer.experts.up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.mixer.experts.down_proj", .bare = true},
    {moe::kSharedUpProj, "layers.{}.mixer.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mixer.shared_experts.down_proj"},
    {model::kFinalNorm, "norm_f"},
    {model::kLmHead, "lm_head"},
}};
constexpr auto kNemotronHModules = joined(kNemotronHRest, kMambaMixer);
// The type of each layer, from the letters of hybrid_override_pattern.
std::vector<std::string> nemotron_h_layer_kinds(const ConfigReader& config) {
  for (const auto* field : {"layers_block_type", "layer_types"}) {
    if (config.has(field)) return config.texts(field);
  }
  std::vector<std::string> kinds;
  for (const char letter : config.text("hybrid_override_pattern", "")) {
    switch (letter) {
      case 'M':
        kinds.emplace_back("mamba");
        break;
      case '*':
        kinds.emplace_back("attention");
        break;
      case '-':
        kinds.emplace_back("mlp");
        break;
      case 'E':
        kinds.emplace_back("moe");
        break;
      default:
        config.fail("hybrid_override_pattern",
                    cat("contains '", letter, "', which is none of M, *, - and E"));
    }
  }
  if (kinds.empty()) config.fail("hybrid_override_pattern", "is missing");
  return kinds;
}

ModelSpec parse_nemotron_h(const ConfigReader& config) {
  const auto kinds = nemotron_h_layer_kinds(config);
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 4096,
                                               .activation_field = "mlp_hidden_act",
                                               .activation = "relu2",
                                               .intermediate_size = 21504,
                                               .num_layers = static_cast<int64_t>(kinds.size())});
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_all(spec, &MlpSpec::gated, false);
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  spec.ropes.clear();
  spec.max_model_len = spec.max_position_embeddings;
  const MambaSpec mamba = read_mamba(config, spec,
                                     {.heads = "mamba_num_heads",
                                      .head_dim = "mamba_head_dim",
                                      .groups = "n_groups",
                                      .state = "ssm_state_size",
                                      .conv_kernel = "conv_kernel",
                                      .expand = "",
                                      .conv_bias = "use_conv_bias",
                                      .bias = "use_bias",
                                      .activation = "mamba_hidden_act",
                                      .default_groups = 8,
                                      .default_state = 128});
  MoeSpec moe;
  if (std::ranges::find(kinds, "moe") != kinds.end()) {
    if (config.has("moe_latent_size")) config.fail("moe_latent_size", "is not supported");
    moe = read_deepseek_experts(config);
    moe.gated = false;
    if (moe.shared_intermediate_size > 0)
      moe.shared_intermediate_size =
          config.integer("moe_shared_expert_intermediate_size", 1, kMaxSize, moe.intermediate_size);
  }
  if (kinds.size() != spec.layers.size())
    config.fail("num_hidden_layers",
                cat("is ", spec.num_layers(), ", but ", kinds.size(), " layers are named"));
  std::vector<bool> sparse;
  for (size_t i = 0; i < kinds.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    const std::string& kind = kinds[i];
    layer.rope = kNoRope;
    sparse.push_back(kind == "moe");
    if (kind == "mamba" || kind == "linear_attention") {
      layer.mixer = mamba;
      remove_feed_forward(layer);
    } else if (kind == "attention" || kind == "full_attention") {
      remove_feed_forward(layer);
    } else if (kind == "moe" || kind == "mlp") {
      remove_mixer(layer);
    } else {
      config.fail("layers_block_type",
                  cat("contains '", kind, "', which is not one of mamba, attention, mlp and moe"));
    }
  }
  use_experts(spec, moe, sparse);
  return spec;
}

WeightNames nemotron_h_weight_names() {
  return {kNemotronHPrefixes, kNemotronHModules, kDrafts};
}

}  // namespace

std::span<const Architecture> nemotron_h_architectures() {
  static constexpr std::array kRows = {
      Architecture{"NemotronHForCausalLM", "nemotron_h", parse_nemotron_h, nemotron_h_weight_names},
  };
  return kRows;
}

}  // namespace quire
