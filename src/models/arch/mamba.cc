// Mamba and FalconMamba: nothing but layers that carry a state, each channel by itself; FalconMamba norms
// what steps, writes and reads. Jamba: attention in some layers, experts in some.
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"backbone.", ""};
constexpr std::array<ModuleName, 11> kModules = {{
    {Role::kEmbedding, "embeddings"},
    {Role::kInputNorm, "layers.{}.norm"},
    {Role::kStateIn, "layers.{}.mixer.in_proj"},
    {Role::kStateConv, "layers.{}.mixer.conv1d"},
    {Role::kStateSelect, "layers.{}.mixer.x_proj"},
    {Role::kStateStep, "layers.{}.mixer.dt_proj"},
    {.role = Role::kRate, .module = "layers.{}.mixer.A_log", .bare = true},
    {.role = Role::kSkip, .module = "layers.{}.mixer.D", .bare = true},
    {Role::kStateOut, "layers.{}.mixer.out_proj"},
    {Role::kFinalNorm, "norm_f"},
    {Role::kLmHead, "lm_head"},
}};
constexpr std::array<ModuleName, 16> kJambaOwn = {{
    {Role::kStateIn, "layers.{}.mamba.in_proj"},
    {Role::kStateConv, "layers.{}.mamba.conv1d"},
    {Role::kStateSelect, "layers.{}.mamba.x_proj"},
    {Role::kStateStep, "layers.{}.mamba.dt_proj"},
    {Role::kStepNorm, "layers.{}.mamba.dt_layernorm"},
    {Role::kWriteNorm, "layers.{}.mamba.b_layernorm"},
    {Role::kReadNorm, "layers.{}.mamba.c_layernorm"},
    {.role = Role::kRate, .module = "layers.{}.mamba.A_log", .bare = true},
    {.role = Role::kSkip, .module = "layers.{}.mamba.D", .bare = true},
    {Role::kStateOut, "layers.{}.mamba.out_proj"},
    {Role::kRouter, "layers.{}.feed_forward.router"},
    {Role::kExpertGate, "layers.{}.feed_forward.experts.{}.gate_proj"},
    {Role::kExpertUp, "layers.{}.feed_forward.experts.{}.up_proj"},
    {Role::kExpertDown, "layers.{}.feed_forward.experts.{}.down_proj"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.feed_forward.experts.gate_up_proj", .bare = true},
    {.role = Role::kExpertDown, .module = "layers.{}.feed_forward.experts.down_proj", .bare = true},
}};
constexpr auto kJamba = joined(kLlamaAttention, kFeedForward, kJambaOwn);

// Sequences have no longest length; memory for bookkeeping has.
constexpr int64_t kDefaultPositions = int64_t{1} << 20;

struct Fields {
  std::string_view state, taps, rank, expand, inner, bias, conv_bias;
};

Mamba1Spec& read_mamba1(const ConfigReader& config, ArchSpec& spec, const Fields& fields) {
  Mamba1Spec& mamba = spec.mamba1.emplace();
  Mamba1Sizes& sizes = mamba.sizes;
  const int64_t expanded = config.integer(fields.expand, 1, 1024, 2) * spec.hidden_size;
  sizes.inner = fields.inner.empty() ? expanded : config.integer(fields.inner, 1, kMaxSize, expanded);
  sizes.state = static_cast<int32_t>(config.integer(fields.state, 1, 1 << 16, 16));
  sizes.taps = static_cast<int32_t>(config.integer(fields.taps, 1, kMaxConvTaps, 4));
  const nlohmann::json* rank = config.find(fields.rank);
  const bool by_size = rank == nullptr || rank->is_string();  // "auto"
  sizes.rank =
      static_cast<int32_t>(by_size ? (spec.hidden_size + 15) / 16 : config.integer(fields.rank, 1, 1 << 20));
  mamba.bias = config.boolean(fields.bias, false);
  mamba.conv_bias = config.boolean(fields.conv_bias, true);
  mamba.activation = read_activation(config, "hidden_act", "silu");
  return mamba;
}

}  // namespace

ArchSpec parse_mamba(const ConfigReader& config) {
  ArchSpec spec = read_state_model(config, Recurrence::kMamba1,
                                   {.vocab_size = 50280, .hidden_size = 768, .num_layers = 32});
  read_mamba1(config, spec,
              {.state = "state_size",
               .taps = "conv_kernel",
               .rank = "time_step_rank",
               .expand = "expand",
               .inner = "intermediate_size",
               .bias = "use_bias",
               .conv_bias = "use_conv_bias"});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

ArchSpec parse_falcon_mamba(const ConfigReader& config) {
  ArchSpec spec = parse_mamba(config);
  spec.mamba1->norms = true;
  spec.mamba1->norm_weights = false;
  spec.mamba1->norm_eps = static_cast<float>(config.number("mixer_rms_eps", 0.0, 1.0, 1e-6));
  return spec;
}

ArchSpec parse_jamba(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 262144});
  spec.ropes.clear();
  spec.max_model_len = spec.max_position_embeddings;
  Mamba1Spec& mamba = read_mamba1(config, spec,
                                  {.state = "mamba_d_state",
                                   .taps = "mamba_d_conv",
                                   .rank = "mamba_dt_rank",
                                   .expand = "mamba_expand",
                                   .inner = "",
                                   .bias = "mamba_proj_bias",
                                   .conv_bias = "mamba_conv_bias"});
  mamba.norms = true;
  mamba.norm_eps = spec.norm_eps;
  const auto period = [&](std::string_view field, int64_t fallback) {
    return config.integer(field, 1, kMaxLayers, fallback);
  };
  const int64_t attention_every = period("attn_layer_period", 8);
  const int64_t attention_first = config.integer("attn_layer_offset", 0, kMaxLayers, 4);
  const int64_t experts_every = period("expert_layer_period", 2);
  const int64_t experts_first = config.integer("expert_layer_offset", 0, kMaxLayers, 1);
  const bool experts = config.integer(experts_field(config, "num_experts"), 1, kMaxExperts, 16) > 1;
  if (experts)
    read_experts(config, spec,
                 {.intermediate = "intermediate_size", .default_experts = 16, .default_chosen = 2});
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    layer.rope = kNoRope;
    layer.attention = i % attention_every == attention_first;
    if (!layer.attention) layer.recurrence = Recurrence::kMamba1;
    layer.experts = experts && i % experts_every == experts_first;
  }
  return spec;
}

WeightNames mamba_weight_names() {
  return {kPrefixes, kModules, {}};
}
WeightNames jamba_weight_names() {
  return {kModelPrefixes, kJamba, {}};
}

}  // namespace quire
