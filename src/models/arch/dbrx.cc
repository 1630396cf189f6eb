// DBRX: fused and clamped queries, keys and values; LayerNorm without bias; the experts are stored as one
// matrix.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kDbrxPrefixes = {"transformer.", ""};

constexpr std::array<TensorName, 11> kDbrxModules = {{
    {model::kEmbedTokens, "wte"},
    {layer::kInputNorm, "blocks.{}.norm_attn_norm.norm_1"},
    {kQkvParams, "blocks.{}.norm_attn_norm.attn.Wqkv"},
    {attention::kOProj, "blocks.{}.norm_attn_norm.attn.out_proj"},
    {layer::kMlpNorm, "blocks.{}.norm_attn_norm.norm_2"},
    {moe::kRouter, "blocks.{}.ffn.router.layer"},
    {.params = moe::kExpertGateProj, .module = "blocks.{}.ffn.experts.mlp.w1", .bare = true},
    {.params = moe::kExpertUpProj, .module = "blocks.{}.ffn.experts.mlp.v1", .bare = true},
    {.params = moe::kExpertDownProj,
     .module = "blocks.{}.ffn.experts.mlp.w2",
     .transposed = true,
     .bare = true},
    {model::kFinalNorm, "norm_f"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_dbrx(const ConfigReader& config) {
  ModelSpec spec = read_sizes(
      config, {.hidden = "d_model", .layers = "n_layers", .heads = "n_heads", .positions = "max_seq_len"});
  set_norm(spec, {.kind = NormKind::kLayer, .eps = 1e-5F});
  const ConfigReader attention = config.object("attn_config");
  set_all(spec, &AttentionSpec::num_kv_heads,
          static_cast<int32_t>(attention.integer("kv_n_heads", 1, first_attention(spec).num_heads, 1)));
  if (first_attention(spec).num_heads % first_attention(spec).num_kv_heads != 0)
    attention.fail("kv_n_heads", "does not divide n_heads");
  set_all(spec, &AttentionSpec::clip_qkv, read_clip_qkv(attention));
  read_rope(config, spec, {.theta = attention.number("rope_theta", 1.0001, 1e15, 10000.0)});

  const ConfigReader ffn = config.object("ffn_config");
  set_activation(spec, read_activation(ffn.object("ffn_act_fn"), "name", "silu"));
  MoeSpec moe = read_experts(ffn, {.experts = "moe_num_experts",
                                   .chosen = "moe_top_k",
                                   .intermediate = "ffn_hidden_size",
                                   .default_experts = 4,
                                   .default_chosen = 1});
  const double exponent = ffn.mentions("moe_normalize_expert_weights")
                              ? ffn.number("moe_normalize_expert_weights", 0.0, 1e3, 0.0)
                              : 1.0;
  if (exponent != 0.0 && exponent != 1.0)
    ffn.fail("moe_normalize_expert_weights", "must be 1 or null: other norms are not supported");
  moe.router.norm_topk_prob = exponent == 1.0;
  use_experts(spec, moe);
  return spec;
}

WeightNames dbrx_weight_names() {
  return {kDbrxPrefixes, kDbrxModules, {}};
}

}  // namespace

std::span<const Architecture> dbrx_architectures() {
  static constexpr std::array kRows = {
      Architecture{"DbrxForCausalLM", "dbrx", parse_dbrx, dbrx_weight_names},
  };
  return kRows;
}

}  // namespace quire
