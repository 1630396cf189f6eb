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

ModelSpec parse_starcoder2(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config,
      {.max_position_embeddings = 4096, .tie_word_embeddings = true, .activation = "gelu_pytorch_tanh"});
  read_layer_norm(config, spec, "norm_epsilon");
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, config.boolean("use_bias", true));
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
