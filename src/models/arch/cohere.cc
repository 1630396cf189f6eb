// Command R: attention and MLP in parallel after one LayerNorm without bias, interleaved RoPE, scaled logits.
// Command R7B (Cohere2): only layers with a sliding window have RoPE. Command A+ (Cohere2Moe): the same with
// experts in all but the first layers. North (CohereCompass): NeoX-style RoPE, in the layer types that
// rope_parameters lists.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 1> kOneNorm = {{{layer::kInputNorm, "layers.{}.input_layernorm"}}};
constexpr std::array<TensorName, 3> kCohereShared = {{
    {moe::kSharedGateProj, "layers.{}.mlp.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kCohereModules = joined(kLlamaMatrices, kOneNorm, kQkNorms, kMoeExperts, kCohereShared);

ModelSpec parse_cohere_family(const ConfigReader& config, const RopeDefaults& rope) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 8192, .rope = rope, .tie_word_embeddings = true});
  // Command R+: QK norm has separate weights per head.
  if (config.boolean("use_qk_norm", false)) set_qk_norm(spec, QkNorm::kPerHeadWeights, NormKind::kLayer);
  set_norm(spec, {.kind = NormKind::kLayer});
  read_norm_eps(config, spec, "layer_norm_eps", 1e-5);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  spec.parallel_residual = true;
  remove_mlp_norm(spec);
  spec.logit_scale = static_cast<float>(config.number("logit_scale", -1e9, 1e9, 0.0625));
  return spec;
}

ModelSpec parse_cohere(const ConfigReader& config) {
  return parse_cohere_family(config, {.theta = 500000.0, .style = RopeStyle::kInterleaved});
}

ModelSpec parse_cohere2(const ConfigReader& config) {
  ModelSpec spec = parse_cohere_family(config, {.style = RopeStyle::kInterleaved});
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const auto sliding = sliding_layers(config, spec, config.integer("sliding_window_pattern", 1, 1024, 4));
  assign_windows(spec, sliding, window, 0, kNoRope);
  return spec;
}

ModelSpec parse_cohere_compass(const ConfigReader& config) {
  ModelSpec spec = parse_cohere_family(config, {.window_theta = 10000.0});
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

ModelSpec parse_cohere2_moe(const ConfigReader& config) {
  ModelSpec spec = parse_cohere_family(config, {.style = RopeStyle::kInterleaved});
  if (config.has("rms_norm_eps"))
    set_norm(spec, {.eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0))});
  MoeSpec moe =
      read_experts(config, {.intermediate = "intermediate_size", .default_experts = 8, .default_chosen = 2});
  const std::string scores = config.text("expert_selection_fn", "softmax");
  if (scores != "softmax" && scores != "sigmoid")
    config.fail("expert_selection_fn", "must be softmax or sigmoid");
  const bool sigmoid = scores == "sigmoid";
  moe.router.scoring_func = sigmoid ? ScoringFunc::kSigmoid : ScoringFunc::kChosenSoftmax;
  moe.router.norm_topk_prob = sigmoid && config.boolean("norm_topk_prob", true);
  moe.shared_intermediate_size = config.integer("num_shared_experts", 0, 1024, 0) * moe.intermediate_size;
  const std::string strategy = config.text("shared_expert_combination_strategy", "average");
  if (strategy != "average" && strategy != "sum")
    config.fail("shared_expert_combination_strategy", "must be average or sum");
  const bool average = strategy == "average" && moe.shared_intermediate_size > 0;
  set_all(spec, &MlpSpec::intermediate_size,
          config.integer("prefix_dense_intermediate_size", 1, kMaxSize, first_mlp(spec).intermediate_size));
  const int64_t first = config.integer("first_k_dense_replace", 0, spec.num_layers(), 0);
  use_experts(spec, moe, sparse_layers(config, spec, first));

  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const int64_t dense_pattern = config.integer("prefix_dense_sliding_window_pattern", 1, 1024, 1);
  const int64_t pattern = config.integer("sliding_window_pattern", 1, 1024, 4);
  auto sliding = sliding_layers(config, spec, pattern);
  // The dense layers at the start have a pattern of their own, after which that of the other layers restarts.
  for (int64_t i = 0; i < spec.num_layers() && !config.has("layer_types"); ++i)
    sliding[static_cast<size_t>(i)] =
        i < first ? (i + 1) % dense_pattern != 0 : (i - first + 1) % pattern != 0;
  assign_windows(spec, sliding, window, 0, kNoRope);
  for (LayerSpec& layer : spec.layers) {
    const bool sparse = layer.feed_forward.moe.has_value();
    if (!sparse && dense_pattern == 1) layer.rope = 0;
    if (sparse && average) layer.feed_forward_branch.multiplier = 0.5F;
  }
  return spec;
}

WeightNames cohere_weight_names() {
  return {kModelPrefixes, kCohereModules, kSavedAngles, true};
}

}  // namespace

std::span<const Architecture> cohere_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Cohere2ForCausalLM", "cohere2", parse_cohere2, cohere_weight_names},
      Architecture{"Cohere2MoeForCausalLM", "cohere2_moe", parse_cohere2_moe, cohere_weight_names},
      Architecture{"CohereCompassForCausalLM", "cohere_compass_text", parse_cohere_compass,
                   cohere_weight_names},
      Architecture{"CohereForCausalLM", "cohere", parse_cohere, cohere_weight_names},
  };
  return kRows;
}

}  // namespace quire
