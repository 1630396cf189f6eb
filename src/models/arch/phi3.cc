// Phi-3, Phi-3.5 mini and Phi-4: Llama with fused qkv_proj and gate_up_proj. Checkpoints of Phi-4 multimodal
// also have adapters for other modalities.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 7> kPhi3Matrices = {{
    {model::kEmbedTokens, "embed_tokens"},
    {kQkvParams, "layers.{}.self_attn.qkv_proj"},
    {attention::kOProj, "layers.{}.self_attn.o_proj"},
    {kGateUpParams, "layers.{}.mlp.gate_up_proj"},
    {mlp::kDownProj, "layers.{}.mlp.down_proj"},
    {model::kFinalNorm, "norm"},
    {model::kLmHead, "lm_head"},
}};
constexpr std::array<TensorName, 4> kAdapted = {{
    {kQkvParams, "layers.{}.self_attn.qkv_proj.base_layer"},
    {attention::kOProj, "layers.{}.self_attn.o_proj.base_layer"},
    {kGateUpParams, "layers.{}.mlp.gate_up_proj.base_layer"},
    {mlp::kDownProj, "layers.{}.mlp.down_proj.base_layer"},
}};
constexpr auto kPhi3Modules = joined(kPhi3Matrices, kAdapted, kLlamaNorms);
constexpr std::array<std::string_view, 6> kPhi3Unread = {
    "layers.{}.self_attn.qkv_proj.lora_*", "layers.{}.self_attn.o_proj.lora_*",
    "layers.{}.mlp.gate_up_proj.lora_*",   "layers.{}.mlp.down_proj.lora_*",
    "layers.{}.self_attn.rotary_emb.*",    "rotary_emb.inv_freq"};

ModelSpec parse_phi3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 4096, .rope = {.partial = true}, .norm_eps = 1e-5});
  read_window(config, spec, 0);
  return spec;
}

WeightNames phi3_weight_names() {
  return {kModelPrefixes, kPhi3Modules, kPhi3Unread};
}

}  // namespace

std::span<const Architecture> phi3_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Phi3ForCausalLM", "phi3", parse_phi3, phi3_weight_names},
  };
  return kRows;
}

}  // namespace quire
