// Phi-3, Phi-3.5 mini and Phi-4: Llama with queries, keys and values in one matrix, gates and ups in another.
// Phi-4 multimodal's files have adapters beside them, for what is no text.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 7> kMatrices = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kQkv, "layers.{}.self_attn.qkv_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kGateUp, "layers.{}.mlp.gate_up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
    {Role::kFinalNorm, "norm"},
    {Role::kLmHead, "lm_head"},
}};
constexpr std::array<ModuleName, 4> kAdapted = {{
    {Role::kQkv, "layers.{}.self_attn.qkv_proj.base_layer"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj.base_layer"},
    {Role::kGateUp, "layers.{}.mlp.gate_up_proj.base_layer"},
    {Role::kDown, "layers.{}.mlp.down_proj.base_layer"},
}};
constexpr auto kModules = joined(kMatrices, kAdapted, kLlamaNorms);
constexpr std::array<std::string_view, 6> kUnread = {
    "layers.{}.self_attn.qkv_proj.lora_*", "layers.{}.self_attn.o_proj.lora_*",
    "layers.{}.mlp.gate_up_proj.lora_*",   "layers.{}.mlp.down_proj.lora_*",
    "layers.{}.self_attn.rotary_emb.*",    "rotary_emb.inv_freq"};

}  // namespace

ArchSpec parse_phi3(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 4096, .rope = {.partial = true}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  read_window(config, spec, 0);
  return spec;
}

WeightNames phi3_weight_names() {
  return {kModelPrefixes, kModules, kUnread};
}

}  // namespace quire
