// Llama 4 (text): one expert per token, with the router weight applied to its input, and a shared expert.
// Layers with RoPE have chunked attention; NoPE layers have full attention and attention temperature scaling.
#include <algorithm>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 20> kLlama4Modules = {{
    {model::kEmbedTokens, "embed_tokens"},
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.self_attn.o_proj"},
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {mlp::kGateProj, "layers.{}.feed_forward.gate_proj"},
    {mlp::kUpProj, "layers.{}.feed_forward.up_proj"},
    {mlp::kDownProj, "layers.{}.feed_forward.down_proj"},
    {moe::kRouter, "layers.{}.feed_forward.router"},
    {.params = kExpertGateUpParams,
     .module = "layers.{}.feed_forward.experts.gate_up_proj",
     .transposed = true,
     .bare = true},
    {.params = moe::kExpertDownProj,
     .module = "layers.{}.feed_forward.experts.down_proj",
     .transposed = true,
     .bare = true},
    {moe::kExpertGateProj, "layers.{}.feed_forward.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.feed_forward.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.feed_forward.experts.{}.down_proj"},
    {moe::kSharedGateProj, "layers.{}.feed_forward.shared_expert.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.feed_forward.shared_expert.up_proj"},
    {moe::kSharedDownProj, "layers.{}.feed_forward.shared_expert.down_proj"},
    {model::kFinalNorm, "norm"},
}};
constexpr std::array<TensorName, 1> kHead = {{{model::kLmHead, "lm_head"}}};
constexpr auto kAll = joined(kLlama4Modules, kHead);

// Attention temperature scaling of NoPE layers, the second entry of ModelSpec::ropes.
RopeSpec query_scale(const ConfigReader& config, const ModelSpec& spec) {
  RopeSpec rope;
  rope.rotary_dim = first_attention(spec).head_dim / 2 * 2;
  rope.scaling = RopeScaling::kQueryScaleOnly;
  rope.query_scale_beta = config.number("attn_scale", 0.0, 1e6, 0.1);
  rope.query_scale_floor = config.number("floor_scale", 1.0, 1e9, 8192.0);
  rope.query_scale_offset = 1;
  return rope;
}

ModelSpec parse_llama4(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 131072,
                                               .rope = {.theta = 10000.0, .style = RopeStyle::kInterleaved},
                                               .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  if (config.boolean("use_qk_norm", true)) {
    set_qk_norm(spec, QkNorm::kHeads);
    set_all(spec, &AttentionSpec::qk_norm_after_rope, true);
    set_all(spec, &AttentionSpec::qk_norm_weights, false);
  }
  if (first_attention(spec).head_dim % 2 != 0) config.fail("head_dim", "must be even");
  spec.ropes.push_back(query_scale(config, spec));
  const bool tuned = config.boolean("attn_temperature_tuning", true);
  const auto chunk = static_cast<int32_t>(config.integer("attention_chunk_size", 1, kMaxPositions,
                                                         config.mentions("attention_chunk_size") ? 0 : 8192));
  const auto turns = config.integers("no_rope_layers", 0, 1);
  if (!turns.empty() && turns.size() < spec.layers.size())
    config.fail("no_rope_layers", "has fewer entries than there are layers");
  const auto interval = static_cast<size_t>(config.integer("no_rope_layer_interval", 1, kMaxLayers, 4));
  const auto types = config.texts("layer_types");
  if (!types.empty() && types.size() != spec.layers.size())
    config.fail("layer_types", "has not as many entries as there are layers");

  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 16,
                                      .default_chosen = 1});
  moe.router.scoring_func = ScoringFunc::kSigmoid;
  moe.apply_router_weight_on_input = true;
  moe.shared_intermediate_size = moe.intermediate_size;
  set_all(spec, &MlpSpec::intermediate_size, config.integer("intermediate_size_mlp", 1, kMaxSize, 16384));
  const auto with_experts = config.integers("moe_layers", 0, kMaxLayers);
  const int64_t step = config.integer("interleave_moe_layer_step", 1, kMaxLayers, 1);
  std::vector<bool> sparse;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    AttentionSpec& attention = *attention_of(layer);
    const bool turned = turns.empty() ? (i + 1) % interval != 0 : turns[i] != 0;
    layer.rope = turned ? 0 : tuned ? 1 : kNoRope;
    if (!turned) attention.qk_norm = QkNorm::kNone;
    if (types.empty() ? turned : types[i] == "chunked_attention") attention.params.chunk = chunk;
    sparse.push_back(config.has("moe_layers")
                         ? std::ranges::find(with_experts, static_cast<int64_t>(i)) != with_experts.end()
                         : (static_cast<int64_t>(i) + 1) % step == 0);
  }
  use_experts(spec, moe, sparse);
  return spec;
}

WeightNames llama4_weight_names() {
  return {kModelPrefixes, kAll, {}};
}

}  // namespace

std::span<const Architecture> llama4_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Llama4ForCausalLM", "llama4_text", parse_llama4, llama4_weight_names},
  };
  return kRows;
}

}  // namespace quire
