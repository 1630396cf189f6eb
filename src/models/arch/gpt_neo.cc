// GPT-Neo: GPT-2 with matrices of its own for queries, keys and values, scores that are not scaled, and
// windows in every other layer. GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 with one key head.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};
constexpr std::array<ModuleName, 8> kRest = {{
    {Role::kEmbedding, "wte"},
    {Role::kPositionEmbedding, "wpe"},
    {Role::kInputNorm, "h.{}.ln_1"},
    {Role::kMlpNorm, "h.{}.ln_2"},
    {Role::kUp, "h.{}.mlp.c_fc"},
    {Role::kDown, "h.{}.mlp.c_proj"},
    {Role::kFinalNorm, "ln_f"},
    {Role::kLmHead, "lm_head"},
}};
constexpr std::array<ModuleName, 4> kNeoAttention = {{
    {Role::kQuery, "h.{}.attn.attention.q_proj"},
    {Role::kKey, "h.{}.attn.attention.k_proj"},
    {Role::kValue, "h.{}.attn.attention.v_proj"},
    {Role::kAttentionOut, "h.{}.attn.attention.out_proj"},
}};
constexpr std::array<ModuleName, 2> kBigCodeAttention = {{
    {Role::kQkv, "h.{}.attn.c_attn"},
    {Role::kAttentionOut, "h.{}.attn.c_proj"},
}};
constexpr auto kNeoModules = joined(kRest, kNeoAttention);
constexpr auto kBigCodeModules = joined(kRest, kBigCodeAttention);

// Causal masks that old versions of transformers saved.
constexpr std::array<std::string_view, 4> kMasks = {
    "h.{}.attn.attention.bias", "h.{}.attn.attention.masked_bias", "h.{}.attn.bias", "h.{}.attn.masked_bias"};

// By layer, whether it is local: "attention_types" says [[[kinds of some layers], how many times] …].
std::vector<bool> local_layers(const ConfigReader& config, const ArchSpec& spec) {
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
    config.fail("attention_types", cat("names ", kinds.size(), " layers of ", spec.num_layers));
  std::vector<bool> local;
  for (const std::string& kind : kinds) {
    if (kind != "local" && kind != "global")
      config.fail("attention_types", "holds other than local and global");
    local.push_back(kind == "local");
  }
  return local;
}

void read_common(const ConfigReader& config, ArchSpec& spec) {
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.gated_mlp = false;
  spec.out_bias = spec.mlp_bias = true;
  spec.position = PositionKind::kLearned;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
}

}  // namespace

ArchSpec parse_gpt_neo(const ConfigReader& config) {
  ArchSpec spec =
      read_sizes(config, {.layers = "num_layers", .heads = "num_heads", .default_positions = 2048});
  read_common(config, spec);
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  assign_layers(spec, 1.0);
  const auto window = static_cast<int32_t>(config.integer("window_size", 1, kMaxPositions, 256));
  const auto local = local_layers(config, spec);
  for (size_t i = 0; i < local.size(); ++i) spec.layers[i].window = local[i] ? window : 0;
  return spec;
}

ArchSpec parse_gpt_bigcode(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, kGpt2Sizes);
  if (!config.boolean("multi_query", true)) config.fail("multi_query", "false is not supported");
  read_common(config, spec);
  spec.num_kv_heads = 1;
  spec.qkv_bias = true;
  spec.activation = read_activation(config, "activation_function", "gelu_pytorch_tanh");
  if (!config.boolean("scale_attn_weights", true)) assign_layers(spec, 1.0);
  return spec;
}

WeightNames gpt_neo_weight_names() {
  return {kPrefixes, kNeoModules, kMasks};
}
WeightNames gpt_bigcode_weight_names() {
  return {kPrefixes, kBigCodeModules, kMasks};
}

}  // namespace quire
