// MPT: linear biases instead of positions, no biases in any module.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};

constexpr std::array<ModuleName, 9> kModules = {{
    {Role::kEmbedding, "wte"},
    {Role::kInputNorm, "blocks.{}.norm_1"},
    {Role::kQkv, "blocks.{}.attn.Wqkv"},
    {Role::kAttentionOut, "blocks.{}.attn.out_proj"},
    {Role::kMlpNorm, "blocks.{}.norm_2"},
    {Role::kUp, "blocks.{}.ffn.up_proj"},
    {Role::kDown, "blocks.{}.ffn.down_proj"},
    {Role::kFinalNorm, "norm_f"},
    {Role::kLmHead, "lm_head"},
}};

}  // namespace

ArchSpec parse_mpt(const ConfigReader& config) {
  ArchSpec spec = read_sizes(
      config, {.hidden = "d_model", .layers = "n_layers", .heads = "n_heads", .positions = "max_seq_len"});
  const ConfigReader attention = config.object("attn_config");
  if (!attention.boolean("alibi", true)) attention.fail("alibi", "false is not supported");
  if (attention.boolean("qk_ln", false)) attention.fail("qk_ln", "is not supported");
  if (attention.has("clip_qkv")) attention.fail("clip_qkv", "is not supported");
  spec.alibi_max_bias = attention.number("alibi_bias_max", 1e-3, 1e3, 8.0);
  spec.intermediate_size = config.integer("expansion_ratio", 1, 1024, 4) * spec.hidden_size;
  spec.norm_bias = false;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.activation = Activation::kGelu;
  spec.gated_mlp = false;
  spec.position = PositionKind::kAlibi;
  if (attention.has("softmax_scale")) assign_layers(spec, 1.0 / attention.number("softmax_scale", 1e-9, 1e9));
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames mpt_weight_names() {
  return {kPrefixes, kModules, {}};
}

}  // namespace quire
