// GPT-Neo: GPT-2 with separate matrices for queries, keys and values, unscaled attention scores, and sliding
// windows in every other layer. GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 with multi-query attention.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kGptNeoPrefixes = {"transformer.", ""};
constexpr std::array<TensorName, 8> kGptNeoRest = {{
    {model::kEmbedTokens, "wte"},
    {model::kPositionEmbeddings, "wpe"},
    {layer::kInputNorm, "h.{}.ln_1"},
    {layer::kMlpNorm, "h.{}.ln_2"},
    {mlp::kUpProj, "h.{}.mlp.c_fc"},
    {mlp::kDownProj, "h.{}.mlp.c_proj"},
    {model::kFinalNorm, "ln_f"},
    {model::kLmHead, "lm_head"},
}};
constexpr std::array<TensorName, 4> kNeoAttention = {{
    {attention::kQProj, "h.{}.attn.attention.q_proj"},
    {attention::kKProj, "h.{}.attn.attention.k_proj"},
    {attention::kVProj, "h.{}.attn.attention.v_proj"},
    {attention::kOProj, "h.{}.attn.attention.out_proj"},
}};
constexpr std::array<TensorName, 2> kBigCodeAttention = {{
    {kQkvParams, "h.{}.attn.c_attn"},
    {attention::kOProj, "h.{}.attn.c_proj"},
}};
constexpr auto kNeoModules = joined(kGptNeoRest, kNeoAttention);
constexpr auto kBigCodeModules = joined(kGptNeoRest, kBigCodeAttention);

// Causal masks that old versions of transformers saved.
constexpr std::array<std::string_view, 4> kMasks = {
    "h.{}.attn.attention.bias", "h.{}.attn.attention.masked_bias", "h.{}.attn.bias", "h.{}.attn.masked_bias"};

// Whether each layer is local. attention_types is [[[types of some layers], repetitions], …].
std::vector<bool> local_layers(const ConfigReader& config, const ModelSpec& spec) {
  std::vector<std::string> kinds = config.texts("attention_layers");
  if (const nlohmann::json* types = config.find("attention_types"); kinds.empty() && types != nullptr) {
    const auto bad = [&] { config.fail("attention_types", "must be a list of [[kinds of layers], times]"); };
    if (!types->is_array()) bad();
    for (const auto& part : *types) {
      if (!part.is_array() || part.size() != 2 || !part[0].is_array() || !part[1].is_number_unsigned()) bad();
      for (uint64_t i = 0; i < std::min<uint64_t>(part[1].get<uint64_t>(), kMaxLayers); ++i) {
        for (const auto& kind : part[0]) kinds.push_back(kind.is_string() ? kind.get<std::string>() : "");
      }
    }
  }
  if (kinds.size() != spec.layers.size())
    config.fail("attention_types", cat("names ", kinds.size(), " layers of ", spec.num_layers()));
  std::vector<bool> local;
  for (const std::string& kind : kinds) {
    if (kind != "local" && kind != "global")
      config.fail("attention_types", "contains a type other than local and global");
    local.push_back(kind == "local");
  }
  return local;
}

void read_common(const ConfigReader& config, ModelSpec& spec) {
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_all(spec, &MlpSpec::gated, false);
  set_all(spec, &AttentionSpec::o_bias, true);
  set_all(spec, &MlpSpec::bias, true);
  spec.position = PositionKind::kLearned;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
}

ModelSpec parse_gpt_neo(const ConfigReader& config) {
  ModelSpec spec =
      read_sizes(config, {.layers = "num_layers", .heads = "num_heads", .default_positions = 2048});
  read_common(config, spec);
  set_activation(spec, read_activation(config, "activation_function", "gelu_new"));
  set_score_divisor(spec, 1.0);
  const auto window = static_cast<int32_t>(config.integer("window_size", 1, kMaxPositions, 256));
  const auto local = local_layers(config, spec);
  assign_windows(spec, local, window, kNoRope, kNoRope);
  return spec;
}

ModelSpec parse_gpt_bigcode(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, kGpt2Sizes);
  if (!config.boolean("multi_query", true)) config.fail("multi_query", "false is not supported");
  read_common(config, spec);
  set_all(spec, &AttentionSpec::num_kv_heads, 1);
  set_all(spec, &AttentionSpec::qkv_bias, true);
  set_activation(spec, read_activation(config, "activation_function", "gelu_pytorch_tanh"));
  if (!config.boolean("scale_attn_weights", true)) set_score_divisor(spec, 1.0);
  return spec;
}

WeightNames gpt_neo_weight_names() {
  return {kGptNeoPrefixes, kNeoModules, kMasks};
}
WeightNames gpt_bigcode_weight_names() {
  return {kGptNeoPrefixes, kBigCodeModules, kMasks};
}

}  // namespace

std::span<const Architecture> gpt_neo_architectures() {
  static constexpr std::array kRows = {
      Architecture{"GPTBigCodeForCausalLM", "gpt_bigcode", parse_gpt_bigcode, gpt_bigcode_weight_names},
      Architecture{"GPTNeoForCausalLM", "gpt_neo", parse_gpt_neo, gpt_neo_weight_names},
  };
  return kRows;
}

}  // namespace quire
