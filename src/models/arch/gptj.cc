// GPT-J: attention and MLP in parallel after one LayerNorm, interleaved RoPE, biases in the MLP and the
// output matrix only. CodeGen is the same with queries, keys and values in one matrix.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kGptjPrefixes = {"transformer.", ""};

constexpr std::array<TensorName, 3> kApart = {{
    {attention::kQProj, "h.{}.attn.q_proj"},
    {attention::kKProj, "h.{}.attn.k_proj"},
    {attention::kVProj, "h.{}.attn.v_proj"},
}};
constexpr std::array<TensorName, 1> kTogether = {
    {{.params = kQkvParams, .module = "h.{}.attn.qkv_proj", .row_layout = qvk_by_fourth}}};
constexpr std::array<TensorName, 7> kGptjRest = {{
    {model::kEmbedTokens, "wte"},
    {layer::kInputNorm, "h.{}.ln_1"},
    {attention::kOProj, "h.{}.attn.out_proj"},
    {mlp::kUpProj, "h.{}.mlp.fc_in"},
    {mlp::kDownProj, "h.{}.mlp.fc_out"},
    {model::kFinalNorm, "ln_f"},
    {model::kLmHead, "lm_head"},
}};

constexpr auto kGptjModules = joined(kApart, kGptjRest);
constexpr auto kCodegenModules = joined(kTogether, kGptjRest);

// Masks and RoPE tables that old versions of transformers saved.
constexpr std::array<std::string_view, 3> kGptjIgnored = {"h.{}.attn.bias", "h.{}.attn.masked_bias",
                                                          "h.{}.attn.embed_positions"};

ModelSpec parse_gptj(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.hidden = "n_embd",
                                       .layers = "n_layer",
                                       .heads = "n_head",
                                       .intermediate = "n_inner",
                                       .positions = "n_positions"});
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_activation(spec, read_activation(config, "activation_function", "gelu_new"));
  set_all(spec, &MlpSpec::gated, false);
  set_all(spec, &MlpSpec::bias, true);
  spec.lm_head_bias = true;
  spec.parallel_residual = true;
  remove_mlp_norm(spec);
  const auto rotary =
      static_cast<double>(config.integer("rotary_dim", 2, first_attention(spec).head_dim, 64));
  read_rope(
      config, spec,
      {.style = RopeStyle::kInterleaved, .partial = true, .part = rotary / first_attention(spec).head_dim});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

ModelSpec parse_codegen(const ConfigReader& config) {
  ModelSpec spec = parse_gptj(config);
  if (first_attention(spec).num_heads % 4 != 0) config.fail("n_head", "must be a multiple of 4");
  return spec;
}

WeightNames codegen_weight_names() {
  return {kGptjPrefixes, kCodegenModules, kGptjIgnored};
}
WeightNames gptj_weight_names() {
  return {kGptjPrefixes, kGptjModules, kGptjIgnored};
}

}  // namespace

std::span<const Architecture> gptj_architectures() {
  static constexpr std::array kRows = {
      Architecture{"CodeGenForCausalLM", "codegen", parse_codegen, codegen_weight_names},
      Architecture{"GPTJForCausalLM", "gptj", parse_gptj, gptj_weight_names},
  };
  return kRows;
}

}  // namespace quire
