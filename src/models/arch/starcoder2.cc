// StarCoder2: LayerNorm, biases everywhere, a plain MLP, few key heads, windows.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 11> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {Role::kUp, "layers.{}.mlp.c_fc"},
    {Role::kDown, "layers.{}.mlp.c_proj"},
    {Role::kFinalNorm, "norm"},
    {Role::kLmHead, "lm_head"},
}};

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
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 0));
  for (LayerSpec& layer : spec.layers) layer.window = window;
  return spec;
}

WeightNames starcoder2_weight_names() {
  return {kModelPrefixes, kModules, {}};
}

}  // namespace quire
