// JetMoE: a mixture of attention heads (nn/moa.cc), and experts selected by their logits, with one bias for
// the sum of all experts.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr ParamIds kKvParams{moa::kKProj, moa::kVProj};
constexpr std::array<TensorName, 14> kJetmoeModules = {{
    {model::kEmbedTokens, "embed_tokens"},
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {moa::kRouter, "layers.{}.self_attention.experts.router.layer"},
    {moa::kExpertQProj, "layers.{}.self_attention.experts.input_linear"},
    {moa::kExpertOProj, "layers.{}.self_attention.experts.output_linear"},
    {.params = moa::kBias, .module = "layers.{}.self_attention.experts.bias", .bare = true},
    {kKvParams, "layers.{}.self_attention.kv_proj"},
    {layer::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {moe::kRouter, "layers.{}.mlp.router.layer"},
    {kExpertGateUpParams, "layers.{}.mlp.input_linear"},
    {moe::kExpertDownProj, "layers.{}.mlp.output_linear"},
    {.params = moe::kOutputBias, .module = "layers.{}.mlp.bias", .bare = true},
    {model::kFinalNorm, "norm"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_jetmoe(const ConfigReader& config) {
  const auto head_dim = static_cast<int32_t>(config.integer("kv_channels", 2, 1 << 13, 128));
  ModelSpec spec = parse_llama_family(config, {.head_dim = head_dim,
                                               .max_position_embeddings = 4096,
                                               .tie_word_embeddings = true,
                                               .activation_field = "activation_function"});
  // transformers' JetMoeDecoderLayer does not pass rms_norm_eps to its norms.
  const std::optional<NormSpec> final_norm = spec.final_norm;
  set_norm(spec, {.eps = 1e-6F});
  spec.final_norm = final_norm;
  MoeSpec moe = read_mixtral_experts(config);
  moe.router = {.scoring_func = ScoringFunc::kChosenSoftmax,
                .num_experts_per_tok = moe.router.num_experts_per_tok};
  moe.output_bias = true;
  const AttentionSpec& attention = first_attention(spec);
  if (attention.num_heads != attention.num_kv_heads * moe.router.num_experts_per_tok)
    config.fail("num_attention_heads", "must be num_key_value_heads * num_experts_per_tok");
  set_mixer(spec, MoaSpec{.num_experts = moe.num_experts,
                          .num_kv_heads = attention.num_kv_heads,
                          .head_dim = attention.head_dim,
                          .router = moe.router,
                          .scale = attention.params.scale});
  use_experts(spec, moe);
  return spec;
}

WeightNames jetmoe_weight_names() {
  return {kModelPrefixes, kJetmoeModules, {}};
}

}  // namespace

std::span<const Architecture> jetmoe_architectures() {
  static constexpr std::array kRows = {
      Architecture{"JetMoeForCausalLM", "jetmoe", parse_jetmoe, jetmoe_weight_names},
  };
  return kRows;
}

}  // namespace quire
