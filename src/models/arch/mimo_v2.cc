// MiMo-V2-Flash: sliding windows, attention sinks and more KV heads in most layers, full attention in the
// others; value heads are smaller than key heads; experts as in DeepSeek-V3 without a shared expert, after a
// dense layer.
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kMimoV2Sinks = {{
    {.params = attention::kSinks, .module = "layers.{}.self_attn.attention_sink_bias", .bare = true},
    {.params = attention::kSinks, .module = "layers.{}.self_attn.sinks", .bare = true},
}};
constexpr auto kMimoV2Modules =
    joined(kLlamaMatrices, kLlamaNorms, kMoeExperts, kDeepseekShared, kMimoV2Sinks);

// Whether each layer has a sliding window. The published configuration has a list with 1 for those.
std::vector<bool> mimo_v2_read_kinds(const ConfigReader& config, const ModelSpec& spec) {
  if (config.has("layer_types")) return sliding_layers(config, spec, 1);
  std::vector<bool> sliding;
  const std::vector<int64_t> pattern = config.integers("hybrid_layer_pattern", 0, 1);
  for (int32_t i = 0; i < spec.num_layers() && pattern.empty(); ++i)
    sliding.push_back(i != 0 && (i + 1) % 6 != 0);
  for (const int64_t kind : pattern) sliding.push_back(kind == 1);
  if (sliding.size() != spec.layers.size()) {
    config.fail("hybrid_layer_pattern",
                cat("has ", sliding.size(), " entries for ", spec.num_layers(), " layers"));
  }
  return sliding;
}

// If the configuration has separate head sizes for layers with a window, they must be those of the other
// layers.
void check_window_sizes(const ConfigReader& config) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kFields = {{
      {"swa_num_attention_heads", "num_attention_heads"},
      {"swa_head_dim", "head_dim"},
      {"swa_v_head_dim", "v_head_dim"},
  }};
  for (const auto& [own, common] : kFields) {
    if (config.has(own) && config.has(common) &&
        config.integer(own, 1, kMaxSize) != config.integer(common, 1, kMaxSize))
      config.fail(own, cat("other than ", common, " is not supported"));
  }
}

void read_moe(const ConfigReader& config, ModelSpec& spec) {
  MoeSpec moe = read_deepseek_experts(
      config, {.experts = "n_routed_experts", .default_experts = 256, .default_chosen = 8});
  moe.shared_intermediate_size = 0;
  std::vector<bool> sparse = sparse_layers(config, spec, 1);
  const std::vector<int64_t> listed = config.integers("moe_layer_freq", 0, 1);
  if (!listed.empty() && listed.size() != spec.layers.size())
    config.fail("moe_layer_freq", cat("has ", listed.size(), " entries for ", spec.num_layers(), " layers"));
  for (size_t i = 0; i < listed.size(); ++i) sparse[i] = listed[i] == 1;
  use_experts(spec, moe, sparse);
}

ModelSpec parse_mimo_v2_flash(const ConfigReader& config) {
  const double window_theta = config.number("swa_rope_theta", 1.0001, 1e15, 1e4);
  ModelSpec spec = parse_llama_family(
      config, {.head_dim = 192,
               .max_position_embeddings = 131072,
               .rope = {.theta = 5e6, .partial = true, .part = 0.334, .window_theta = window_theta}});
  if (spec.ropes.size() == 1) {
    spec.ropes.push_back(spec.ropes.front());
    spec.ropes.back().theta = window_theta;
  }
  const double eps = config.number("layernorm_epsilon", 0.0, 1.0, 1e-5);
  read_norm_eps(config, spec, "rms_norm_eps", eps);
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("attention_bias", false));
  set_all(spec, &AttentionSpec::value_dim,
          static_cast<int32_t>(config.integer("v_head_dim", 1, first_attention(spec).head_dim, 128)));
  check_window_sizes(config);

  const auto before = config.integer("sliding_window_size", 0, kMaxPositions, -1);
  const auto window = static_cast<int32_t>(
      before >= 0 ? before + 1 : config.integer("sliding_window", 1, kMaxPositions, 129));
  const std::vector<bool> sliding = mimo_v2_read_kinds(config, spec);
  assign_windows(spec, sliding, window, 1, 0);
  const int32_t full_heads = first_attention(spec).num_kv_heads;
  const auto window_heads =
      static_cast<int32_t>(config.integer("swa_num_key_value_heads", 1, 1 << 16, 2 * full_heads));
  if (first_attention(spec).num_heads % window_heads != 0) {
    config.fail("num_key_value_heads", cat("gives layers with a window ", window_heads,
                                           " key heads, which do not divide num_attention_heads (",
                                           first_attention(spec).num_heads, ")"));
  }
  const bool window_sinks = config.boolean("add_swa_attention_sink_bias", true);
  const bool full_sinks = config.boolean("add_full_attention_sink_bias", false);
  const bool unscaled =
      config.mentions("attention_value_scale") && !config.has("attention_value_scale");  // the field is null
  const double scale = unscaled ? 1.0 : config.number("attention_value_scale", -1e6, 1e6, 0.707);
  for (size_t i = 0; i < sliding.size(); ++i) {
    AttentionSpec& own = *attention_of(spec.layers[i]);
    own.num_kv_heads = sliding[i] ? window_heads : full_heads;
    own.sinks = sliding[i] ? window_sinks : full_sinks;
    // A factor on values is a factor on the output.
    spec.layers[i].mixer_branch.multiplier = static_cast<float>(scale);
  }
  read_moe(config, spec);
  return spec;
}

WeightNames mimo_v2_weight_names() {
  return {kModelPrefixes, kMimoV2Modules, kDrafts};
}

}  // namespace

std::span<const Architecture> mimo_v2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MiMoV2FlashForCausalLM", "mimo_v2_flash", parse_mimo_v2_flash, mimo_v2_weight_names},
  };
  return kRows;
}

}  // namespace quire
