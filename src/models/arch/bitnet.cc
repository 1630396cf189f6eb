// BitNet b1.58: Llama with a norm before the output projections of attention and MLP, and squared ReLU.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kSubNorms = {{
    {attention::kSubNorm, "layers.{}.self_attn.attn_sub_norm"},
    {mlp::kSubNorm, "layers.{}.mlp.ffn_sub_norm"},
}};
constexpr auto kBitnetModules = joined(kLlamaMatrices, kLlamaNorms, kSubNorms);

ModelSpec parse_bitnet(const ConfigReader& config) {
  ModelSpec spec =
      parse_llama_family(config, {.rope = {.theta = 500000.0}, .activation = "relu2", .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &AttentionSpec::sub_norm, spec.norm);
  set_all(spec, &MlpSpec::sub_norm, spec.norm);
  return spec;
}

WeightNames bitnet_weight_names() {
  return {kModelPrefixes, kBitnetModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> bitnet_architectures() {
  static constexpr std::array kRows = {
      Architecture{"BitNetForCausalLM", "bitnet", parse_bitnet, bitnet_weight_names},
  };
  return kRows;
}

}  // namespace quire
