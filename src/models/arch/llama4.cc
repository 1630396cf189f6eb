// Llama 4 (its text): experts of which each row reads one, weighed as it is read, beside one for all rows.
// Layers that turn positions in see their own chunk of the sequence, the others all of it, with queries that
// grow with the position.
#include <algorithm>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 20> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {Role::kGate, "layers.{}.feed_forward.gate_proj"},
    {Role::kUp, "layers.{}.feed_forward.up_proj"},
    {Role::kDown, "layers.{}.feed_forward.down_proj"},
    {Role::kRouter, "layers.{}.feed_forward.router"},
    {.role = Role::kExpertGateUp,
     .module = "layers.{}.feed_forward.experts.gate_up_proj",
     .transposed = true,
     .bare = true},
    {.role = Role::kExpertDown,
     .module = "layers.{}.feed_forward.experts.down_proj",
     .transposed = true,
     .bare = true},
    {Role::kExpertGate, "layers.{}.feed_forward.experts.{}.gate_proj"},
    {Role::kExpertUp, "layers.{}.feed_forward.experts.{}.up_proj"},
    {Role::kExpertDown, "layers.{}.feed_forward.experts.{}.down_proj"},
    {Role::kSharedExpertGate, "layers.{}.feed_forward.shared_expert.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.feed_forward.shared_expert.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.feed_forward.shared_expert.down_proj"},
    {Role::kFinalNorm, "norm"},
}};
constexpr std::array<ModuleName, 1> kHead = {{{Role::kLmHead, "lm_head"}}};
constexpr auto kAll = joined(kModules, kHead);

// Queries of layers that do not turn: rotation 1.
RopeSpec still_queries(const ConfigReader& config, const ArchSpec& spec) {
  RopeSpec rope;
  rope.rotary_dim = spec.head_dim / 2 * 2;
  rope.scaling = RopeScaling::kStill;
  rope.query_beta = config.number("attn_scale", 0.0, 1e6, 0.1);
  rope.query_length = config.number("floor_scale", 1.0, 1e9, 8192.0);
  rope.query_offset = 1;
  return rope;
}

}  // namespace

ArchSpec parse_llama4(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128,
                                              .max_position_embeddings = 131072,
                                              .rope = {.theta = 10000.0, .style = RopeStyle::kInterleaved}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  if (config.boolean("use_qk_norm", true)) {
    spec.qk_norm = QkNorm::kHeads;
    spec.qk_norm_turned = true;
    spec.qk_norm_weights = false;
  }
  if (spec.head_dim % 2 != 0) config.fail("head_dim", "must be even");
  spec.ropes.push_back(still_queries(config, spec));
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

  read_experts(config, spec,
               {.experts = "num_local_experts",
                .intermediate = "intermediate_size",
                .default_experts = 16,
                .default_chosen = 1});
  spec.moe->router.scores = RouterScores::kSigmoid;
  spec.moe->weigh_input = true;
  spec.moe->shared_intermediate_size = spec.moe->intermediate_size;
  spec.intermediate_size = config.integer("intermediate_size_mlp", 1, kMaxSize, 16384);
  const auto with_experts = config.integers("moe_layers", 0, kMaxLayers);
  const int64_t step = config.integer("interleave_moe_layer_step", 1, kMaxLayers, 1);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    const bool turned = turns.empty() ? (i + 1) % interval != 0 : turns[i] != 0;
    layer.rope = turned ? 0 : tuned ? 1 : kNoRope;
    layer.qk_norm = turned;
    if (types.empty() ? turned : types[i] == "chunked_attention") layer.chunk = chunk;
    layer.experts = config.has("moe_layers")
                        ? std::ranges::find(with_experts, static_cast<int64_t>(i)) != with_experts.end()
                        : (static_cast<int64_t>(i) + 1) % step == 0;
  }
  return spec;
}

WeightNames llama4_weight_names() {
  return {kModelPrefixes, kAll, {}};
}

}  // namespace quire
