// BitNet b1.58: Llama with a norm before the last product of attention and of the MLP, and squared ReLU.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kSubNorms = {{
    {Role::kAttentionSubNorm, "layers.{}.self_attn.attn_sub_norm"},
    {Role::kMlpSubNorm, "layers.{}.mlp.ffn_sub_norm"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kSubNorms);

}  // namespace

ArchSpec parse_bitnet(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.rope = {.theta = 500000.0}, .activation = "relu2"});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.sub_norms = true;
  return spec;
}

WeightNames bitnet_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
