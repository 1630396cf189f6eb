// StarCoder2: LayerNorm, biases everywhere, an ungated MLP, grouped-query attention, sliding windows.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kStarcoder2Own = {{
    {mlp::kUpProj, "layers.{}.mlp.c_fc"},
    {mlp::kDownProj, "layers.{}.mlp.c_proj"},
}};
constexpr auto kStarcoder2Modules = joined(kLlamaAttention, kStarcoder2Own, kFinalNorm, kLlamaNorms);

ModelDraft parse_starcoder2(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(
      config,
      {.max_position_embeddings = 4096, .tie_word_embeddings = true, .activation = "gelu_pytorch_tanh"});
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("norm_epsilon", 0.0, 1.0, 1e-5));
  spec.mlp.gated = false;
  spec.attention.qkv_bias = spec.attention.o_bias = spec.mlp.bias = config.boolean("use_bias", true);
  read_window(config, spec, 0);
  return spec;
}

WeightNames starcoder2_weight_names() {
  return {kModelPrefixes, kStarcoder2Modules, {}};
}

}  // namespace

std::span<const Architecture> starcoder2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Starcoder2ForCausalLM", "starcoder2", parse_starcoder2, starcoder2_weight_names},
  };
  return kRows;
}

}  // namespace quire
