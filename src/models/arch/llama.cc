// Llama 1 to 3.x, and what is built like it: TinyLlama, SmolLM2, Yi.
#include <array>

#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"model.", ""};

constexpr std::array<ModuleName, 12> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {Role::kGate, "layers.{}.mlp.gate_proj"},
    {Role::kUp, "layers.{}.mlp.up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
    {Role::kFinalNorm, "norm"},
    {Role::kLmHead, "lm_head"},
}};

// Angle tables that old versions of transformers saved.
constexpr std::array<std::string_view, 4> kIgnored = {
    "layers.{}.self_attn.rotary_emb.inv_freq",
    "layers.{}.self_attn.rotary_emb.cos_cached",
    "layers.{}.self_attn.rotary_emb.sin_cached",
    "rotary_emb.inv_freq",
};

}  // namespace

ArchSpec parse_llama(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.out_bias = spec.qkv_bias;
  spec.mlp_bias = config.boolean("mlp_bias", false);
  return spec;
}

WeightNames llama_weight_names() {
  return {kPrefixes, kModules, kIgnored};
}

}  // namespace quire
