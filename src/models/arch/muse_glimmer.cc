// The language model of Muse Glimmer: Gemma's norms before and after attention and MLP, norms without weights
// of the embeddings and of query and key heads, attention output gates, no RoPE in layers with full
// attention.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 3> kMuseGlimmerOwn = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {attention::kOutputGate, "layers.{}.self_attn.gate_proj"},
}};
constexpr auto kMuseGlimmerModules = joined(kLlamaMatrices, kPostNorms, kMuseGlimmerOwn);

ModelSpec parse_muse_glimmer(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 131072,
                                               .activation_field = "hidden_activation",
                                               .norm_eps = 1e-5});
  set_norm_offset(spec, 1.0F);
  spec.final_norm->weight_offset = 0.0F;
  spec.embedding_norm = true;
  place_norms(spec, NormPlace::kBoth);
  const auto post_norm_eps = static_cast<float>(config.number("post_norm_eps", 0.0, 1.0, 1e-8));
  for (LayerSpec& layer : spec.layers)
    layer.mixer_branch.post_norm->eps = layer.feed_forward_branch.post_norm->eps = post_norm_eps;
  set_qk_norm(spec, QkNorm::kHeads);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_gates(spec, false);
  spec.logit_scale = static_cast<float>(config.number("output_multiplier", -1e6, 1e6, 0.19611613513818404));
  spec.logit_softcap = static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 20.0));

  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 2048));
  const int64_t last = spec.num_layers() - 1;
  assign_windows(spec, sliding_layers(config, spec, 4, last % 4), window, 0, 0);
  const std::vector<double> thetas = config.numbers("layer_rope_theta", 0.0, 1e15);
  if (!thetas.empty() && thetas.size() != spec.layers.size()) {
    config.fail("layer_rope_theta",
                cat("has ", thetas.size(), " entries for ", spec.num_layers(), " layers"));
  }
  const auto scale = static_cast<float>(config.number("qk_scale_factor", -1e6, 1e6, 3.87));
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    // A theta of 0 means NoPE. All other layers have the model's RoPE, regardless of the value.
    const bool turns = thetas.empty() ? (last - static_cast<int64_t>(i)) % 4 != 0 : thetas[i] != 0.0;
    if (!turns) spec.layers[i].rope = kNoRope;
    attention_of(spec.layers[i])->params.scale *= scale;
  }
  return spec;
}

WeightNames muse_glimmer_weight_names() {
  return {kModelPrefixes, kMuseGlimmerModules, {}};
}

}  // namespace

std::span<const Architecture> muse_glimmer_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MuseGlimmerForCausalLM", "muse_glimmer_text", parse_muse_glimmer,
                   muse_glimmer_weight_names},
  };
  return kRows;
}

}  // namespace quire
