// Qwen3: Llama with an RMS norm on each query and key head, and a head_dim of its own.
#include <array>

#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"model.", ""};

constexpr std::array<ModuleName, 14> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kQueryNorm, "layers.{}.self_attn.q_norm"},
    {Role::kKeyNorm, "layers.{}.self_attn.k_norm"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {Role::kGate, "layers.{}.mlp.gate_proj"},
    {Role::kUp, "layers.{}.mlp.up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
    {Role::kFinalNorm, "norm"},
    {Role::kLmHead, "lm_head"},
}};

}  // namespace

ArchSpec parse_qwen3(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 32768});
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.out_bias = spec.qkv_bias;
  spec.qk_norm = true;
  read_qwen_windows(config, spec);
  return spec;
}

WeightNames qwen3_weight_names() {
  return {kPrefixes, kModules, {}};
}

}  // namespace quire
