// DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash, Mistral 4: latent attention (nn/mla.h), experts in all but the
// first layers. Youtu has no experts. In DeepSeek-V3.2 and GLM-5 queries attend to chosen keys alone.
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 4> kIndexers = {{
    {Role::kIndexQuery, "layers.{}.self_attn.indexer.wq_b"},
    {Role::kIndexKey, "layers.{}.self_attn.indexer.wk"},
    {Role::kIndexKeyNorm, "layers.{}.self_attn.indexer.k_norm"},
    {Role::kIndexWeights, "layers.{}.self_attn.indexer.weights_proj"},
}};
// Of models without latent attention.
constexpr std::array<ModuleName, 2> kPlainAttention = {{
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
}};
constexpr auto kModules = joined(kLatentModel, kPlainAttention, kExperts, kDeepseekShared);
constexpr auto kModulesWithIndexers = joined(kModules, kIndexers);

// What the rotation's stretching does to scores.
double yarn_score_factor(const ConfigReader& config) {
  const bool old_style = config.has("rope_scaling") && !config.find("rope_scaling")->empty();
  const ConfigReader rope = config.object(old_style ? "rope_scaling" : "rope_parameters");
  const std::string type = rope.text(rope.has("rope_type") ? "rope_type" : "type", "default");
  const double all = rope.number("mscale_all_dim", -1e6, 1e6, 0.0);
  if (type == "default" || all == 0.0) return 1.0;
  const double factor = rope.number("factor", 1e-3, 1e6);
  const double scale = factor <= 1.0 ? 1.0 : 0.1 * all * std::log(factor) + 1.0;
  return scale * scale;
}

}  // namespace

ArchSpec parse_latent_family(const ConfigReader& config, const LatentDefaults& defaults) {
  MlaSizes mla;
  const auto size = [&](std::string_view field, int64_t low) {
    return static_cast<int32_t>(config.integer(field, low, 1 << 16));
  };
  mla.query_rank = static_cast<int32_t>(config.integer("q_lora_rank", 1, 1 << 16, 0));
  mla.latent = size("kv_lora_rank", 1);
  mla.turning = size("qk_rope_head_dim", 2);
  mla.still = size("qk_nope_head_dim", 1);
  const bool usual_value = defaults.value > 0 && !config.has("v_head_dim");
  mla.value = usual_value ? defaults.value : size("v_head_dim", 1);
  const int32_t head_dim = defaults.part_of_heads ? mla.query_dim() : mla.turning;
  const RopeDefaults rope = {.theta = defaults.theta,
                             .style = defaults.interleaved ? RopeStyle::kInterleaved : RopeStyle::kHalves,
                             .partial = defaults.part_of_heads,
                             .part = static_cast<double>(mla.turning) / head_dim};
  ArchSpec spec = parse_llama_family(config, {.head_dim = head_dim,
                                              .max_position_embeddings = defaults.max_position_embeddings,
                                              .rope = rope,
                                              .tie_word_embeddings = defaults.tie_word_embeddings,
                                              .intermediate_field = defaults.intermediate_field,
                                              .layers_field = defaults.layers_field});
  // The field head_dim, where there is one, is that of another library's cache.
  spec.head_dim = head_dim;
  read_rope(config, spec, rope);
  if (spec.ropes.front().rotary_dim != mla.turning)
    config.fail("qk_rope_head_dim", "is not what partial_rotary_factor gives");
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  if (spec.qkv_bias) config.fail("attention_bias", "is not supported for this architecture");
  assign_layers(spec, std::sqrt(static_cast<double>(mla.query_dim())) / yarn_score_factor(config));
  spec.mla = mla;
  spec.head_dim = mla.cached();
  spec.num_kv_heads = 1;
  return spec;
}

ArchSpec parse_deepseek_v2(const ConfigReader& config) {
  // That of DeepSeek-OCR has attention like Llama's.
  const bool latent = config.has("kv_lora_rank") && config.boolean("use_mla", true);
  ArchSpec spec = latent ? parse_latent_family(config, {.max_position_embeddings = 2048})
                         : parse_llama_family(config, {});
  MoeSpec& moe = read_deepseek_experts(config, spec);
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0));
  moe.router.scores = RouterScores::kSoftmax;
  moe.router.group_pairs = false;
  moe.router.normalize = false;
  moe.correction = false;
  if (config.text("topk_method", "greedy") == "greedy") moe.router.num_groups = moe.router.chosen_groups = 1;
  return spec;
}

ArchSpec parse_deepseek_v3(const ConfigReader& config) {
  ArchSpec spec = parse_latent_family(
      config, {.max_position_embeddings = 4096, .interleaved = config.boolean("rope_interleave", true)});
  read_deepseek_experts(config, spec);
  return spec;
}

ArchSpec parse_glm4_moe_lite(const ConfigReader& config) {
  ArchSpec spec = parse_latent_family(
      config, {.max_position_embeddings = 202752, .interleaved = config.boolean("rope_interleave", true)});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  read_deepseek_experts(config, spec);
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1));
  return spec;
}

namespace {

// DeepSeek-V3 whose layers choose the keys that queries attend to; `style` is how the indexers turn.
ArchSpec parse_indexed(const ConfigReader& config, int64_t positions, int64_t index_heads, RopeStyle style) {
  ArchSpec spec = parse_latent_family(
      config, {.max_position_embeddings = positions, .interleaved = config.boolean("rope_interleave", true)});
  const MlaSizes& mla = *spec.mla;
  if (mla.query_rank == 0)
    config.fail("q_lora_rank", "is missing: the indexers' queries are made of such short vectors");
  const auto size = [&](std::string_view field, int64_t low, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(config.integer(field, low, high, fallback));
  };
  spec.indexer.heads = size("index_n_heads", 1, 1 << 10, index_heads);
  spec.indexer.dim = size("index_head_dim", mla.turning, kMaxChoosingHead, 128);
  spec.indexer.count = size("index_topk", 1, kMaxPositions, 2048);
  for (const std::string& kind : config.texts("layer_types")) {
    if (kind != "indexed_attention")
      config.fail("layer_types", cat("holds '", kind, "', which is not indexed_attention"));
  }
  RopeSpec turned = spec.ropes.front();
  turned.style = style;
  spec.index_rope = static_cast<int32_t>(spec.ropes.size());
  spec.ropes.push_back(turned);
  for (LayerSpec& layer : spec.layers) layer.indexer = true;
  read_deepseek_experts(config, spec);
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 3));
  return spec;
}

// Which layers choose for themselves; the others attend to what the last one of these has chosen.
std::vector<bool> choosing_layers(const ConfigReader& config, const ArchSpec& spec) {
  std::vector<std::string> kinds = config.texts("indexer_types");
  std::string_view field = "indexer_types";
  if (kinds.empty() && config.has("index_topk_pattern")) {
    field = "index_topk_pattern";
    if (!config.find(field)->is_string()) kinds = config.texts(field);
    for (const char letter : kinds.empty() ? config.text(field, "") : "") {
      if (letter != 'F' && letter != 'S')
        config.fail(field, cat("holds '", letter, "', which is neither F nor S"));
      kinds.emplace_back(letter == 'F' ? "full" : "shared");
    }
  }
  const bool named = !kinds.empty();
  if (named && kinds.size() != spec.layers.size())
    config.fail(field, cat("has ", kinds.size(), " entries for ", spec.num_layers, " layers"));
  const int64_t every = config.integer("index_topk_freq", 1, kMaxLayers, 1);
  const int64_t first = config.integer("index_skip_topk_offset", 0, kMaxLayers, 2);
  std::vector<bool> choose;
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    const std::string kind = named ? kinds[static_cast<size_t>(i)] : "full";
    if (kind != "full" && kind != "shared")
      config.fail(field, cat("holds '", kind, "', which is neither full nor shared"));
    choose.push_back(named ? kind == "full" : std::max<int64_t>(i - first + 1, 0) % every == 0);
  }
  if (!choose.front()) config.fail(field, "has no layer before the first that it could share with");
  return choose;
}

}  // namespace

ArchSpec parse_deepseek_v32(const ConfigReader& config) {
  return parse_indexed(config, 163840, 64, RopeStyle::kHalves);
}

ArchSpec parse_glm_moe_dsa(const ConfigReader& config) {
  ArchSpec spec = parse_indexed(config, 202752, 32, RopeStyle::kInterleaved);
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  const std::vector<bool> choose = choosing_layers(config, spec);
  for (size_t i = 0; i < choose.size(); ++i) spec.layers[i].indexer = choose[i];
  return spec;
}

ArchSpec parse_youtu(const ConfigReader& config) {
  return parse_latent_family(config, {.max_position_embeddings = 131072,
                                      .interleaved = config.boolean("rope_interleave", true),
                                      .tie_word_embeddings = true});
}

ArchSpec parse_mistral4(const ConfigReader& config) {
  ArchSpec spec = parse_latent_family(config, {.max_position_embeddings = 1048576,
                                               .interleaved = config.boolean("rope_interleave", true),
                                               .part_of_heads = true});
  spec.max_model_len = spec.max_position_embeddings;  // counts the stretching already
  // Only a part of a head turns, but all of it grows.
  RopeSpec growth;
  growth.scaling = RopeScaling::kStill;
  growth.rotary_dim = spec.mla->query_dim();
  read_query_growth(config, growth);
  if (growth.query_beta != 0.0) {
    if (growth.rotary_dim % 2 != 0) config.fail("qk_nope_head_dim", "makes heads of an odd size");
    spec.query_growth = static_cast<int32_t>(spec.ropes.size());
    spec.ropes.push_back(growth);
  }
  MoeSpec& moe = read_deepseek_experts(config, spec);
  moe.router.scores = RouterScores::kSoftmax;
  moe.correction = false;
  return spec;
}

WeightNames deepseek_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles, true};
}

WeightNames deepseek_v32_weight_names() {
  return {kModelPrefixes, kModulesWithIndexers, kSavedAngles, true};
}

}  // namespace quire
