// gpt-oss: attention sinks, sliding windows in every other layer, biases everywhere, experts with a clamped
// swish, whose gate and up rows alternate in the checkpoint.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 7> kGptOssOwn = {{
    {.params = attention::kSinks, .module = "layers.{}.self_attn.sinks", .bare = true},
    {moe::kRouter, "layers.{}.mlp.router"},
    {.params = kExpertGateUpParams,
     .module = "layers.{}.mlp.experts.gate_up_proj",
     .transposed = true,
     .row_layout = gate_up_alternating,
     .bare = true},
    {.params = moe::kExpertDownProj,
     .module = "layers.{}.mlp.experts.down_proj",
     .transposed = true,
     .bare = true},
    {moe::kExpertGateProj, "layers.{}.mlp.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.mlp.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.mlp.experts.{}.down_proj"},
}};
constexpr auto kGptOssModules = joined(kLlamaMatrices, kLlamaNorms, kGptOssOwn);

// The rotary embedding of configurations without RoPE fields.
RopeSpec gpt_oss_default_rope(const ModelSpec& spec) {
  RopeSpec rope;
  rope.theta = 150000.0;
  rope.rotary_dim = first_attention(spec).head_dim;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 32.0;
  rope.original_max_position = 4096;
  rope.truncate = false;
  rope.attention_factor = 1.0 + 0.1 * std::log(rope.factor);
  return rope;
}

ModelSpec parse_gpt_oss(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config,
      {.head_dim = 64, .max_position_embeddings = 131072, .rope = {.theta = 150000.0}, .norm_eps = 1e-5});
  if (!config.has("rope_scaling") && !config.has("rope_parameters"))
    spec.ropes = {gpt_oss_default_rope(spec)};
  spec.max_model_len = spec.max_position_embeddings;  // includes the RoPE scaling
  set_attention_bias(spec, config.boolean("attention_bias", true));
  set_all(spec, &AttentionSpec::sinks, true);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 128));
  assign_windows(spec, sliding_layers(config, spec, 2), window, 0, 0);
  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 128,
                                      .default_chosen = 4});
  moe.router.scoring_func = ScoringFunc::kChosenSoftmax;
  moe.router_bias = moe.expert_bias = true;
  use_experts(spec, moe);
  read_clamped_swish(config, spec);
  return spec;
}

WeightNames gpt_oss_weight_names() {
  return {kModelPrefixes, kGptOssModules, {}};
}

}  // namespace

std::span<const Architecture> gpt_oss_architectures() {
  static constexpr std::array kRows = {
      Architecture{"GptOssForCausalLM", "gpt_oss", parse_gpt_oss, gpt_oss_weight_names},
  };
  return kRows;
}

}  // namespace quire
