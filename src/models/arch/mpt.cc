// MPT: ALiBi, no biases in any module.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kMptPrefixes = {"transformer.", ""};

constexpr std::array<TensorName, 9> kMptModules = {{
    {model::kEmbedTokens, "wte"},
    {layer::kInputNorm, "blocks.{}.norm_1"},
    {kQkvParams, "blocks.{}.attn.Wqkv"},
    {attention::kOProj, "blocks.{}.attn.out_proj"},
    {layer::kMlpNorm, "blocks.{}.norm_2"},
    {mlp::kUpProj, "blocks.{}.ffn.up_proj"},
    {mlp::kDownProj, "blocks.{}.ffn.down_proj"},
    {model::kFinalNorm, "norm_f"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_mpt(const ConfigReader& config) {
  ModelSpec spec = read_sizes(
      config, {.hidden = "d_model", .layers = "n_layers", .heads = "n_heads", .positions = "max_seq_len"});
  const ConfigReader attention = config.object("attn_config");
  if (!attention.boolean("alibi", true)) attention.fail("alibi", "false is not supported");
  if (attention.boolean("qk_ln", false)) attention.fail("qk_ln", "is not supported");
  set_all(spec, &AttentionSpec::clip_qkv, read_clip_qkv(attention));
  spec.alibi_max_bias = attention.number("alibi_bias_max", 1e-3, 1e3, 8.0);
  set_all(spec, &MlpSpec::intermediate_size,
          config.integer("expansion_ratio", 1, 1024, 4) * spec.hidden_size);
  set_norm(spec, {.kind = NormKind::kLayer});
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_activation(spec, Activation::kGelu);
  set_all(spec, &MlpSpec::gated, false);
  spec.position = PositionKind::kAlibi;
  if (attention.has("softmax_scale"))
    set_score_divisor(spec, 1.0 / attention.number("softmax_scale", 1e-9, 1e9));
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames mpt_weight_names() {
  return {kMptPrefixes, kMptModules, {}};
}

}  // namespace

std::span<const Architecture> mpt_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MptForCausalLM", "mpt", parse_mpt, mpt_weight_names},
      Architecture{"MPTForCausalLM", "mpt", parse_mpt, mpt_weight_names},
  };
  return kRows;
}

}  // namespace quire
