// GPT-J: attention and MLP side by side behind one LayerNorm, pairs of neighbouring dimensions turn, biases
// in the MLP and the output matrix alone. CodeGen is the same with queries, keys and values in one matrix.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};

constexpr std::array<ModuleName, 3> kApart = {{
    {Role::kQuery, "h.{}.attn.q_proj"},
    {Role::kKey, "h.{}.attn.k_proj"},
    {Role::kValue, "h.{}.attn.v_proj"},
}};
constexpr std::array<ModuleName, 1> kTogether = {
    {{.role = Role::kQkv, .module = "h.{}.attn.qkv_proj", .order = RowOrder::kFourParts}}};
constexpr std::array<ModuleName, 7> kRest = {{
    {Role::kEmbedding, "wte"},
    {Role::kInputNorm, "h.{}.ln_1"},
    {Role::kAttentionOut, "h.{}.attn.out_proj"},
    {Role::kUp, "h.{}.mlp.fc_in"},
    {Role::kDown, "h.{}.mlp.fc_out"},
    {Role::kFinalNorm, "ln_f"},
    {Role::kLmHead, "lm_head"},
}};

constexpr auto kModules = joined(kApart, kRest);
constexpr auto kCodegenModules = joined(kTogether, kRest);

// Masks and angle tables that old versions of transformers saved.
constexpr std::array<std::string_view, 3> kIgnored = {"h.{}.attn.bias", "h.{}.attn.masked_bias",
                                                      "h.{}.attn.embed_positions"};

}  // namespace

ArchSpec parse_gptj(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.hidden = "n_embd",
                                      .layers = "n_layer",
                                      .heads = "n_head",
                                      .intermediate = "n_inner",
                                      .positions = "n_positions"});
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.gated_mlp = false;
  spec.mlp_bias = spec.lm_head_bias = true;
  spec.parallel_residual = true;
  spec.mlp_norm = false;
  const auto rotary = static_cast<double>(config.integer("rotary_dim", 2, spec.head_dim, 64));
  read_rope(config, spec,
            {.style = RopeStyle::kInterleaved, .partial = true, .part = rotary / spec.head_dim});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

ArchSpec parse_codegen(const ConfigReader& config) {
  ArchSpec spec = parse_gptj(config);
  if (spec.num_heads % 4 != 0) config.fail("n_head", "must be a multiple of 4");
  return spec;
}

WeightNames codegen_weight_names() {
  return {kPrefixes, kCodegenModules, kIgnored};
}
WeightNames gptj_weight_names() {
  return {kPrefixes, kModules, kIgnored};
}

}  // namespace quire
