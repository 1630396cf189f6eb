// Command R: attention and MLP side by side behind one LayerNorm without bias, pairs of neighbouring
// dimensions turn, scaled logits. Command R7B (Cohere2): layers with a window turn positions in, those that
// see everything do not. Command A+ (Cohere2Moe): the same with experts in all but the first layers. North
// (CohereCompass): heads turn in halves, and which kinds of layers do is written.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 1> kOneNorm = {{{Role::kInputNorm, "layers.{}.input_layernorm"}}};
constexpr std::array<ModuleName, 3> kShared = {{
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kOneNorm, kQkNorms, kExperts, kShared);

ArchSpec parse_family(const ConfigReader& config, const RopeDefaults& rope) {
  ArchSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 8192, .rope = rope, .tie_word_embeddings = true});
  // Command R+: each head has weights of its own.
  if (config.boolean("use_qk_norm", false)) spec.qk_norm = QkNorm::kEachHead;
  spec.qk_norm_kind = NormKind::kLayer;
  spec.norm = NormKind::kLayer;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.parallel_residual = true;
  spec.mlp_norm = false;
  spec.logit_scale = static_cast<float>(config.number("logit_scale", -1e9, 1e9, 0.0625));
  return spec;
}

}  // namespace

ArchSpec parse_cohere(const ConfigReader& config) {
  return parse_family(config, {.theta = 500000.0, .style = RopeStyle::kInterleaved});
}

ArchSpec parse_cohere2(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.style = RopeStyle::kInterleaved});
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const auto sliding = sliding_layers(config, spec, config.integer("sliding_window_pattern", 1, 1024, 4));
  assign_windows(spec, sliding, window, 0, kNoRope);
  return spec;
}

ArchSpec parse_cohere_compass(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.window_theta = 10000.0});
  spec.logit_scale = static_cast<float>(config.number("logit_scale", -1e9, 1e9, 1.0));
  const ConfigReader ropes = config.object("rope_parameters");
  const auto rope_of = [&](std::string_view kind, int32_t number) {
    return ropes.mentions(kind) && !ropes.has(kind) ? kNoRope : number;
  };
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const auto last = static_cast<int32_t>(spec.ropes.size()) - 1;
  assign_windows(spec, sliding_layers(config, spec, 1), window, rope_of("sliding_attention", last),
                 rope_of("full_attention", 0));
  return spec;
}

ArchSpec parse_cohere2_moe(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.style = RopeStyle::kInterleaved});
  if (config.has("rms_norm_eps")) {
    spec.norm = NormKind::kRms;
    spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0));
  }
  MoeSpec& moe = read_experts(
      config, spec, {.intermediate = "intermediate_size", .default_experts = 8, .default_chosen = 2});
  const std::string scores = config.text("expert_selection_fn", "softmax");
  if (scores != "softmax" && scores != "sigmoid")
    config.fail("expert_selection_fn", "must be softmax or sigmoid");
  const bool sigmoid = scores == "sigmoid";
  moe.router.scores = sigmoid ? RouterScores::kSigmoid : RouterScores::kChosenSoftmax;
  moe.router.normalize = sigmoid && config.boolean("norm_topk_prob", true);
  moe.shared_intermediate_size = config.integer("num_shared_experts", 0, 1024, 0) * moe.intermediate_size;
  const std::string strategy = config.text("shared_expert_combination_strategy", "average");
  if (strategy != "average" && strategy != "sum")
    config.fail("shared_expert_combination_strategy", "must be average or sum");
  if (strategy == "average" && moe.shared_intermediate_size > 0) moe.multiplier = 0.5F;
  spec.intermediate_size =
      config.integer("prefix_dense_intermediate_size", 1, kMaxSize, spec.intermediate_size);
  const int64_t first = config.integer("first_k_dense_replace", 0, spec.num_layers, 0);
  assign_experts(config, spec, first);

  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const int64_t dense_pattern = config.integer("prefix_dense_sliding_window_pattern", 1, 1024, 1);
  const int64_t pattern = config.integer("sliding_window_pattern", 1, 1024, 4);
  auto sliding = sliding_layers(config, spec, pattern);
  // The first layers have a pattern of their own, behind which the others' begins anew.
  for (int64_t i = 0; i < spec.num_layers && !config.has("layer_types"); ++i)
    sliding[static_cast<size_t>(i)] =
        i < first ? (i + 1) % dense_pattern != 0 : (i - first + 1) % pattern != 0;
  assign_windows(spec, sliding, window, 0, kNoRope);
  for (LayerSpec& layer : spec.layers) {
    if (!layer.experts && dense_pattern == 1) layer.rope = 0;
  }
  return spec;
}

WeightNames cohere_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles, true};
}

}  // namespace quire
