// OLMo 2 and 3: no norms before attention and MLP, but of what they give; RMS norms over all queries and all
// keys. OLMo 3 has windows in three layers of four; there positions turn unstretched.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kPostNorms = {{
    {Role::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {Role::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kPostNorms, kQkNorms);

void take_post_norms(const ConfigReader& config, ArchSpec& spec) {
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.input_norm = spec.mlp_norm = false;
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kWhole;
}

}  // namespace

ArchSpec parse_olmo2(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  take_post_norms(config, spec);
  return spec;
}

ArchSpec parse_olmo3(const ConfigReader& config) {
  const ConfigReader rope = rope_object(config);
  const bool by_type = rope.has("full_attention") || rope.has("sliding_attention");
  nlohmann::json plain = config.json();
  if (by_type) plain.erase("rope_parameters");
  ArchSpec spec = parse_olmo2(ConfigReader(plain));
  if (by_type) {
    spec.ropes = {read_rope_spec(config, rope.object("full_attention"), spec, {.theta = 500000.0}),
                  read_rope_spec(config, rope.object("sliding_attention"), spec, {.theta = 500000.0})};
    spec.max_model_len = stretched_length(spec.ropes.front(), spec.max_position_embeddings);
  } else {
    RopeSpec unstretched;
    unstretched.theta = spec.ropes.front().theta;
    unstretched.rotary_dim = spec.head_dim;
    spec.ropes.push_back(unstretched);
  }
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const auto sliding = sliding_layers(config, spec, 4);
  for (size_t i = 0; i < sliding.size(); ++i) {
    spec.layers[i].window = sliding[i] ? window : 0;
    spec.layers[i].rope = sliding[i] ? 1 : 0;
  }
  return spec;
}

WeightNames olmo2_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
