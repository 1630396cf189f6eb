// Mamba and FalconMamba: recurrent layers only, with a state per channel; FalconMamba normalizes dt, B and C.
// Jamba: attention in some layers, experts in some.
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kMambaPrefixes = {"backbone.", ""};
constexpr std::array<TensorName, 11> kMambaModules = {{
    {model::kEmbedTokens, "embeddings"},
    {layer::kInputNorm, "layers.{}.norm"},
    {recurrent::kInProj, "layers.{}.mixer.in_proj"},
    {recurrent::kConv1d, "layers.{}.mixer.conv1d"},
    {mamba1::kXProj, "layers.{}.mixer.x_proj"},
    {mamba1::kDtProj, "layers.{}.mixer.dt_proj"},
    {.params = recurrent::kALog, .module = "layers.{}.mixer.A_log", .bare = true},
    {.params = recurrent::kD, .module = "layers.{}.mixer.D", .bare = true},
    {recurrent::kOutProj, "layers.{}.mixer.out_proj"},
    {model::kFinalNorm, "norm_f"},
    {model::kLmHead, "lm_head"},
}};
constexpr std::array<TensorName, 16> kJambaOwn = {{
    {recurrent::kInProj, "layers.{}.mamba.in_proj"},
    {recurrent::kConv1d, "layers.{}.mamba.conv1d"},
    {mamba1::kXProj, "layers.{}.mamba.x_proj"},
    {mamba1::kDtProj, "layers.{}.mamba.dt_proj"},
    {mamba1::kDtNorm, "layers.{}.mamba.dt_layernorm"},
    {mamba1::kBNorm, "layers.{}.mamba.b_layernorm"},
    {mamba1::kCNorm, "layers.{}.mamba.c_layernorm"},
    {.params = recurrent::kALog, .module = "layers.{}.mamba.A_log", .bare = true},
    {.params = recurrent::kD, .module = "layers.{}.mamba.D", .bare = true},
    {recurrent::kOutProj, "layers.{}.mamba.out_proj"},
    {moe::kRouter, "layers.{}.feed_forward.router"},
    {moe::kExpertGateProj, "layers.{}.feed_forward.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.feed_forward.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.feed_forward.experts.{}.down_proj"},
    {.params = kExpertGateUpParams, .module = "layers.{}.feed_forward.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.feed_forward.experts.down_proj", .bare = true},
}};
constexpr auto kJamba = joined(kLlamaAttention, kFeedForward, kJambaOwn);

// The models have no maximum length; this one limits the memory for bookkeeping.
constexpr int64_t kMambaDefaultPositions = int64_t{1} << 20;

struct Fields {
  std::string_view state, conv_kernel, rank, expand, inner, bias, conv_bias;
};

Mamba1Spec read_mamba1(const ConfigReader& config, const ModelSpec& spec, const Fields& fields) {
  Mamba1Spec mamba;
  const int64_t expanded = config.integer(fields.expand, 1, 1024, 2) * spec.hidden_size;
  mamba.inner = fields.inner.empty() ? expanded : config.integer(fields.inner, 1, kMaxSize, expanded);
  mamba.state = static_cast<int32_t>(config.integer(fields.state, 1, 1 << 16, 16));
  mamba.conv_kernel = static_cast<int32_t>(config.integer(fields.conv_kernel, 1, kMaxConvKernel, 4));
  const nlohmann::json* rank = config.find(fields.rank);
  const bool by_size = rank == nullptr || rank->is_string();  // "auto"
  mamba.rank =
      static_cast<int32_t>(by_size ? (spec.hidden_size + 15) / 16 : config.integer(fields.rank, 1, 1 << 20));
  mamba.bias = config.boolean(fields.bias, false);
  mamba.conv_bias = config.boolean(fields.conv_bias, true);
  mamba.activation = read_activation(config, "hidden_act", "silu");
  return mamba;
}

ModelSpec parse_mamba(const ConfigReader& config) {
  ModelSpec spec = read_state_model(config, {.vocab_size = 50280, .hidden_size = 768, .num_layers = 32});
  set_mixer(spec, read_mamba1(config, spec,
                              {.state = "state_size",
                               .conv_kernel = "conv_kernel",
                               .rank = "time_step_rank",
                               .expand = "expand",
                               .inner = "intermediate_size",
                               .bias = "use_bias",
                               .conv_bias = "use_conv_bias"}));
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

ModelSpec parse_falcon_mamba(const ConfigReader& config) {
  ModelSpec spec = parse_mamba(config);
  for_parts_of<Mamba1Spec>(spec, [&](Mamba1Spec& own) {
    own.norms = true;
    own.norm_weights = false;
    own.norm_eps = static_cast<float>(config.number("mixer_rms_eps", 0.0, 1.0, 1e-6));
  });
  return spec;
}

ModelSpec parse_jamba(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 262144});
  spec.ropes.clear();
  spec.max_model_len = spec.max_position_embeddings;
  Mamba1Spec mamba = read_mamba1(config, spec,
                                 {.state = "mamba_d_state",
                                  .conv_kernel = "mamba_d_conv",
                                  .rank = "mamba_dt_rank",
                                  .expand = "mamba_expand",
                                  .inner = "",
                                  .bias = "mamba_proj_bias",
                                  .conv_bias = "mamba_conv_bias"});
  mamba.norms = true;
  mamba.norm_eps = spec.norm.eps;
  const auto period = [&](std::string_view field, int64_t fallback) {
    return config.integer(field, 1, kMaxLayers, fallback);
  };
  const int64_t attention_every = period("attn_layer_period", 8);
  const int64_t attention_first = config.integer("attn_layer_offset", 0, kMaxLayers, 4);
  const int64_t experts_every = period("expert_layer_period", 2);
  const int64_t experts_first = config.integer("expert_layer_offset", 0, kMaxLayers, 1);
  const bool experts = config.integer(experts_field(config, "num_experts"), 1, kMaxExperts, 16) > 1;
  std::vector<bool> sparse;
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    layer.rope = kNoRope;
    if (i % attention_every != attention_first) layer.mixer = mamba;
    sparse.push_back(i % experts_every == experts_first);
  }
  if (experts)
    use_experts(
        spec,
        read_experts(config,
                     {.intermediate = "intermediate_size", .default_experts = 16, .default_chosen = 2}),
        sparse);
  return spec;
}

WeightNames mamba_weight_names() {
  return {kMambaPrefixes, kMambaModules, {}};
}
WeightNames jamba_weight_names() {
  return {kModelPrefixes, kJamba, {}};
}

}  // namespace

std::span<const Architecture> mamba_architectures() {
  static constexpr std::array kRows = {
      Architecture{"FalconMambaForCausalLM", "falcon_mamba", parse_falcon_mamba, mamba_weight_names},
      Architecture{"JambaForCausalLM", "jamba", parse_jamba, jamba_weight_names},
      Architecture{"MambaForCausalLM", "mamba", parse_mamba, mamba_weight_names},
  };
  return kRows;
}

}  // namespace quire
