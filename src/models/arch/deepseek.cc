// DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash, Mistral 4: latent attention (nn/mla.cc), experts in all but the
// first layers. Youtu has no experts. DeepSeek-V3.2 and GLM-5 have sparse attention with an indexer
// (nn/indexer.h).
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 4> kIndexers = {{
    {indexer::kQProj, "layers.{}.self_attn.indexer.wq_b"},
    {indexer::kKProj, "layers.{}.self_attn.indexer.wk"},
    {indexer::kKNorm, "layers.{}.self_attn.indexer.k_norm"},
    {indexer::kWeightsProj, "layers.{}.self_attn.indexer.weights_proj"},
}};
// For models without latent attention.
constexpr std::array<TensorName, 4> kPlainAttention = {{
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.self_attn.o_proj"},
}};
constexpr auto kDeepseekModules = joined(kLatentModel, kPlainAttention, kMoeExperts, kDeepseekShared);
constexpr auto kModulesWithIndexers = joined(kDeepseekModules, kIndexers);

// The factor of YaRN on attention scores.
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

ModelSpec parse_latent_family(const ConfigReader& config, const LatentDefaults& defaults) {
  MlaSpec mla;
  const auto size = [&](std::string_view field, int64_t low) {
    return static_cast<int32_t>(config.integer(field, low, 1 << 16));
  };
  mla.q_lora_rank = static_cast<int32_t>(config.integer("q_lora_rank", 1, 1 << 16, 0));
  mla.kv_lora_rank = size("kv_lora_rank", 1);
  mla.qk_rope_head_dim = size("qk_rope_head_dim", 2);
  mla.qk_nope_head_dim = size("qk_nope_head_dim", 1);
  const bool default_value = defaults.value > 0 && !config.has("v_head_dim");
  mla.v_head_dim = default_value ? defaults.value : size("v_head_dim", 1);
  const int32_t head_dim = defaults.part_of_heads ? mla.query_dim() : mla.qk_rope_head_dim;
  const RopeDefaults rope = {.theta = defaults.theta,
                             .style = defaults.interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox,
                             .partial = defaults.part_of_heads,
                             .part = static_cast<double>(mla.qk_rope_head_dim) / head_dim};
  ModelSpec spec = parse_llama_family(config, {.head_dim = head_dim,
                                               .max_position_embeddings = defaults.max_position_embeddings,
                                               .rope = rope,
                                               .tie_word_embeddings = defaults.tie_word_embeddings,
                                               .intermediate_field = defaults.intermediate_field,
                                               .layers_field = defaults.layers_field,
                                               .norm_eps = defaults.norm_eps});
  // The field head_dim is for the caches of other libraries.
  set_all(spec, &AttentionSpec::head_dim, head_dim);
  read_rope(config, spec, rope);
  if (spec.ropes.front().rotary_dim != mla.qk_rope_head_dim)
    config.fail("qk_rope_head_dim", "is not what partial_rotary_factor gives");
  set_attention_bias(spec, config.boolean("attention_bias", false));
  if (first_attention(spec).qkv_bias) config.fail("attention_bias", "is not supported for this architecture");
  mla.num_heads = first_attention(spec).num_heads;
  mla.hidden_size = spec.hidden_size;
  mla.norm = spec.norm;
  set_mixer(spec, mla);
  set_score_divisor(spec, std::sqrt(static_cast<double>(mla.query_dim())) / yarn_score_factor(config));
  return spec;
}

namespace {

ModelSpec parse_deepseek_v2(const ConfigReader& config) {
  // DeepSeek-OCR has Llama's attention.
  const bool latent = config.has("kv_lora_rank") && config.boolean("use_mla", true);
  ModelSpec spec = latent ? parse_latent_family(config, {.max_position_embeddings = 2048})
                          : parse_llama_family(config, {});
  MoeSpec moe = read_deepseek_experts(config);
  moe.router.scoring_func = ScoringFunc::kSoftmax;
  moe.router.group_score_top2 = false;
  moe.router.norm_topk_prob = false;
  moe.e_score_correction_bias = false;
  if (config.text("topk_method", "greedy") == "greedy") moe.router.num_groups = moe.router.topk_group = 1;
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0)));
  return spec;
}

ModelSpec parse_deepseek_v3(const ConfigReader& config) {
  ModelSpec spec = parse_latent_family(
      config, {.max_position_embeddings = 4096, .interleaved = config.boolean("rope_interleave", true)});
  const MoeSpec moe = read_deepseek_experts(config);
  use_experts(spec, moe, layers_from(spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0)));
  return spec;
}

ModelSpec parse_glm4_moe_lite(const ConfigReader& config) {
  ModelSpec spec = parse_latent_family(config, {.max_position_embeddings = 202752,
                                                .interleaved = config.boolean("rope_interleave", true),
                                                .norm_eps = 1e-5});
  const MoeSpec moe = read_deepseek_experts(config);
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1)));
  return spec;
}

// DeepSeek-V3 with indexers. style: RoPE style of the indexers.
ModelSpec parse_indexed(const ConfigReader& config, int64_t positions, int64_t index_heads, RopeStyle style) {
  ModelSpec spec = parse_latent_family(
      config, {.max_position_embeddings = positions, .interleaved = config.boolean("rope_interleave", true)});
  MlaSpec& mla = *part_of<MlaSpec>(spec.layers.front());
  if (mla.q_lora_rank == 0)
    config.fail("q_lora_rank", "is missing: the queries of indexers are projected from the low-rank queries");
  const auto size = [&](std::string_view field, int64_t low, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(config.integer(field, low, high, fallback));
  };
  mla.index.heads = size("index_n_heads", 1, 1 << 10, index_heads);
  mla.index.dim = size("index_head_dim", mla.qk_rope_head_dim, kMaxChoosingHead, 128);
  mla.index.count = size("index_topk", 1, kMaxPositions, 2048);
  for (const std::string& kind : config.texts("layer_types")) {
    if (kind != "indexed_attention")
      config.fail("layer_types", cat("contains '", kind, "', which is not indexed_attention"));
  }
  RopeSpec turned = spec.ropes.front();
  turned.style = style;
  mla.has_indexer = true;
  mla.index_rope = static_cast<int32_t>(spec.ropes.size());
  spec.ropes.push_back(turned);
  set_mixer(spec, MlaSpec(mla));
  const MoeSpec moe = read_deepseek_experts(config);
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 3)));
  return spec;
}

// Which layers have an indexer. The other layers use the selection of the last indexer before them.
std::vector<bool> layers_with_indexer(const ConfigReader& config, const ModelSpec& spec) {
  std::vector<std::string> kinds = config.texts("indexer_types");
  std::string_view field = "indexer_types";
  if (kinds.empty() && config.has("index_topk_pattern")) {
    field = "index_topk_pattern";
    if (!config.find(field)->is_string()) kinds = config.texts(field);
    for (const char letter : kinds.empty() ? config.text(field, "") : "") {
      if (letter != 'F' && letter != 'S')
        config.fail(field, cat("contains '", letter, "', which is neither F nor S"));
      kinds.emplace_back(letter == 'F' ? "full" : "shared");
    }
  }
  const bool named = !kinds.empty();
  if (named && kinds.size() != spec.layers.size())
    config.fail(field, cat("has ", kinds.size(), " entries for ", spec.num_layers(), " layers"));
  const int64_t every = config.integer("index_topk_freq", 1, kMaxLayers, 1);
  const int64_t first = config.integer("index_skip_topk_offset", 0, kMaxLayers, 2);
  std::vector<bool> with_indexer;
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    const std::string kind = named ? kinds[static_cast<size_t>(i)] : "full";
    if (kind != "full" && kind != "shared")
      config.fail(field, cat("contains '", kind, "', which is neither full nor shared"));
    with_indexer.push_back(named ? kind == "full" : std::max<int64_t>(i - first + 1, 0) % every == 0);
  }
  if (!with_indexer.front()) config.fail(field, "must give the first layer an indexer of its own");
  return with_indexer;
}

ModelSpec parse_deepseek_v32(const ConfigReader& config) {
  return parse_indexed(config, 163840, 64, RopeStyle::kNeox);
}

ModelSpec parse_glm_moe_dsa(const ConfigReader& config) {
  ModelSpec spec = parse_indexed(config, 202752, 32, RopeStyle::kInterleaved);
  read_norm_eps(config, spec, "rms_norm_eps", 1e-5);
  const std::vector<bool> with_indexer = layers_with_indexer(config, spec);
  for (size_t i = 0; i < with_indexer.size(); ++i)
    part_of<MlaSpec>(spec.layers[i])->has_indexer = with_indexer[i];
  return spec;
}

ModelSpec parse_youtu(const ConfigReader& config) {
  return parse_latent_family(config, {.max_position_embeddings = 131072,
                                      .interleaved = config.boolean("rope_interleave", true),
                                      .tie_word_embeddings = true});
}

ModelSpec parse_mistral4(const ConfigReader& config) {
  ModelSpec spec = parse_latent_family(config, {.max_position_embeddings = 1048576,
                                                .interleaved = config.boolean("rope_interleave", true),
                                                .part_of_heads = true});
  spec.max_model_len = spec.max_position_embeddings;  // includes the RoPE scaling
  // Attention temperature scaling applies to whole heads, but only a part of a head has RoPE.
  RopeSpec query_scale;
  query_scale.scaling = RopeScaling::kQueryScaleOnly;
  query_scale.rotary_dim = part_of<MlaSpec>(spec.layers.front())->query_dim();
  read_query_scale(config, query_scale);
  if (query_scale.query_scale_beta != 0.0) {
    if (query_scale.rotary_dim % 2 != 0) config.fail("qk_nope_head_dim", "makes heads of an odd size");
    set_all(spec, &MlaSpec::query_scale_rope, static_cast<int32_t>(spec.ropes.size()));
    spec.ropes.push_back(query_scale);
  }
  MoeSpec moe = read_deepseek_experts(config);
  moe.router.scoring_func = ScoringFunc::kSoftmax;
  moe.e_score_correction_bias = false;
  use_experts(spec, moe, layers_from(spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0)));
  return spec;
}

}  // namespace

WeightNames deepseek_weight_names() {
  return {kModelPrefixes, kDeepseekModules, kSavedAngles, true};
}

namespace {

WeightNames deepseek_v32_weight_names() {
  return {kModelPrefixes, kModulesWithIndexers, kSavedAngles, true};
}

}  // namespace

std::span<const Architecture> deepseek_architectures() {
  static constexpr std::array kRows = {
      Architecture{"DeepseekV2ForCausalLM", "deepseek_v2", parse_deepseek_v2, deepseek_weight_names},
      Architecture{"DeepseekV32ForCausalLM", "deepseek_v32", parse_deepseek_v32, deepseek_v32_weight_names},
      Architecture{"DeepseekV3ForCausalLM", "deepseek_v3", parse_deepseek_v3, deepseek_weight_names},
      Architecture{"Glm4MoeLiteForCausalLM", "glm4_moe_lite", parse_glm4_moe_lite, deepseek_weight_names},
      Architecture{"GlmMoeDsaForCausalLM", "glm_moe_dsa", parse_glm_moe_dsa, deepseek_v32_weight_names},
      Architecture{"Mistral4ForCausalLM", "mistral4", parse_mistral4, deepseek_weight_names},
      Architecture{"YoutuForCausalLM", "youtu", parse_youtu, deepseek_weight_names},
  };
  return kRows;
}

}  // namespace quire
