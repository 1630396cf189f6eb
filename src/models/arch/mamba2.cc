// Mamba 2: recurrent layers only. Also reads the sizes of Mamba 2 layers in hybrid models.
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kMamba2Prefixes = {"backbone.", ""};
constexpr std::array<TensorName, 4> kMamba2Rest = {{
    {model::kEmbedTokens, "embeddings"},
    {layer::kInputNorm, "layers.{}.norm"},
    {model::kFinalNorm, "norm_f"},
    {model::kLmHead, "lm_head"},
}};
constexpr auto kMamba2Modules = joined(kMamba2Rest, kMambaMixer);

// The models have no maximum length; this one limits the memory for bookkeeping.
constexpr int64_t kMamba2DefaultPositions = int64_t{1} << 20;

}  // namespace

MambaSpec read_mamba(const ConfigReader& config, const ModelSpec& spec, const MambaFields& fields) {
  MambaSpec mamba = {.norm_eps = spec.norm.eps};
  const auto size = [&](std::string_view field, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(config.integer(field, 1, high, fallback));
  };
  mamba.heads = size(fields.heads, 1 << 16, fields.default_heads);
  const bool given = config.has(fields.head_dim) && !config.find(fields.head_dim)->is_string();
  int64_t inner = 0;  // all heads together
  if (!fields.inner.empty() && config.has(fields.inner)) {
    inner = config.integer(fields.inner, 1, kMaxSize);
  } else if (!fields.expand.empty()) {
    inner = config.integer(fields.expand, 1, 1024, 2) * spec.hidden_size;
  } else {
    inner = mamba.heads * config.integer(fields.head_dim, 1, 1 << 16, 64);
  }
  mamba.head_dim = given ? size(fields.head_dim, 1 << 16, 1) : static_cast<int32_t>(inner / mamba.heads);
  mamba.groups = size(fields.groups, 1 << 16, fields.default_groups);
  mamba.state = size(fields.state, 1 << 16, fields.default_state);
  mamba.conv_kernel = size(fields.conv_kernel, kMaxConvKernel, 4);
  if (mamba.head_dim < 1 || mamba.inner() != inner) {
    config.fail(fields.heads, cat("gives ", mamba.heads, " heads of ", mamba.head_dim, ", which are not ",
                                  inner, " together"));
  }
  if (mamba.heads % mamba.groups != 0) {
    config.fail(fields.groups,
                cat("is ", mamba.groups, ", which does not divide ", fields.heads, " (", mamba.heads, ")"));
  }
  mamba.conv_bias = config.boolean(fields.conv_bias, true);
  mamba.in_bias = mamba.out_bias = config.boolean(fields.bias, false);
  mamba.activation = read_activation(config, fields.activation, "silu");
  const auto limits = config.numbers("time_step_limit", 0.0, std::numeric_limits<double>::infinity());
  if (!limits.empty()) {
    if (limits.size() != 2 || limits[0] > limits[1])
      config.fail("time_step_limit", "must be the least and the largest step");
    mamba.min_dt = static_cast<float>(limits[0]);
    mamba.max_dt = static_cast<float>(limits[1]);
  }
  return mamba;
}

void assign_mixers(const ConfigReader& config, ModelSpec& spec, std::string_view field,
                   const MixerSpec& recurrent, const std::vector<std::string>& kinds) {
  if (kinds.size() != spec.layers.size())
    config.fail(field, cat("has ", kinds.size(), " entries for ", spec.num_layers(), " layers"));
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == "attention" || kinds[i] == "full_attention") continue;
    constexpr std::array<std::string_view, 3> kRecurrent = {"linear_attention", "mamba", "conv"};
    if (std::ranges::find(kRecurrent, kinds[i]) == kRecurrent.end()) {
      config.fail(field, cat("contains '", kinds[i], "', which is not one of full_attention, attention, ",
                             "linear_attention, mamba and conv"));
    }
    spec.layers[i].mixer = recurrent;
  }
}

ModelSpec read_state_model(const ConfigReader& config, const StateModelDefaults& defaults) {
  ModelSpec spec;
  spec.vocab_size = config.integer("vocab_size", 1, kMaxSize, defaults.vocab_size);
  spec.hidden_size = config.integer("hidden_size", 1, kMaxSize, defaults.hidden_size);
  const int64_t num_layers = config.integer("num_hidden_layers", 1, kMaxLayers, defaults.num_layers);
  spec.max_position_embeddings =
      config.integer("max_position_embeddings", 1, kMaxPositions, kMamba2DefaultPositions);
  spec.max_model_len = spec.max_position_embeddings;
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  LayerSpec layer;
  layer.mixer_branch.pre_norm = spec.final_norm = spec.norm;
  spec.layers.assign(static_cast<size_t>(num_layers), layer);
  read_token_ids(config, spec);
  return spec;
}

namespace {

ModelSpec parse_mamba2(const ConfigReader& config) {
  ModelSpec spec = read_state_model(config, {.vocab_size = 32768, .hidden_size = 4096, .num_layers = 64});
  set_mixer(spec, read_mamba(config, spec,
                             {.heads = "num_heads",
                              .head_dim = "head_dim",
                              .groups = "n_groups",
                              .state = "state_size",
                              .conv_kernel = "conv_kernel",
                              .expand = "expand",
                              .conv_bias = "use_conv_bias",
                              .bias = "use_bias",
                              .default_groups = 8,
                              .default_state = 128}));
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

WeightNames mamba2_weight_names() {
  return {kMamba2Prefixes, kMamba2Modules, {}};
}

}  // namespace

std::span<const Architecture> mamba2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Mamba2ForCausalLM", "mamba2", parse_mamba2, mamba2_weight_names},
  };
  return kRows;
}

}  // namespace quire
