// StarCoder2: LayerNorm, biases everywhere, a plain MLP, few key heads, windows.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kOwn = {{
    {Role::kUp, "layers.{}.mlp.c_fc"},
    {Role::kDown, "layers.{}.mlp.c_proj"},
}};
constexpr auto kModules = joined(kLlamaAttention, kOwn, kFinalNorm, kLlamaNorms);

}  // namespace

ArchSpec parse_starcoder2(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config,
      {.max_position_embeddings = 4096, .tie_word_embeddings = true, .activation = "gelu_pytorch_tanh"});
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("norm_epsilon", 0.0, 1.0, 1e-5));
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = config.boolean("use_bias", true);
  read_window(config, spec, 0);
  return spec;
}

WeightNames starcoder2_weight_names() {
  return {kModelPrefixes, kModules, {}};
}

}  // namespace quire
