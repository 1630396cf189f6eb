// Bamba: Llama with Mamba 2 instead of attention in most layers.
#include <algorithm>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kBambaModules = joined(kLlamaAttention, kFeedForward, kMambaInLayer);

ModelSpec parse_bamba(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 262144, .rope = {.partial = true, .part = 0.5}, .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  std::vector<std::string> kinds = config.texts("layers_block_type");
  if (kinds.empty()) kinds = config.texts("layer_types");
  if (kinds.empty()) {
    kinds.assign(spec.layers.size(), "mamba");
    for (const int64_t i : config.integers("attn_layer_indices", 0, spec.num_layers() - 1))
      kinds[static_cast<size_t>(i)] = "attention";
  }
  assign_mixers(config, spec, "layers_block_type", read_mamba(config, spec, {}), kinds);
  return spec;
}

// Falcon-H1: attention and Mamba 2 in parallel in each layer, with factors on all inputs and outputs.
ModelSpec parse_falcon_h1(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 8192, .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  const auto factor = [&](std::string_view field) {
    return static_cast<float>(config.number(field, -1e9, 1e9, 1.0));
  };
  const auto factors = [&](std::string_view field, size_t count) {
    const auto given = config.numbers(field, -1e9, 1e9);
    if (!given.empty() && given.size() != count) config.fail(field, cat("must have ", count, " numbers"));
    std::vector<float> out(count, 1.0F);
    std::copy(given.begin(), given.end(), out.begin());
    return out;
  };
  MambaSpec mamba = read_mamba(config, spec, {.inner = "mamba_d_ssm"});
  mamba.out_bias = config.boolean("projectors_bias", false);
  mamba.norm = config.boolean("mamba_rms_norm", false);
  mamba.norm_before_gate = config.boolean("mamba_norm_before_gate", true);
  // A factor on the input of a projection without biases is the same factor on its output.
  const float state_in = factor("ssm_in_multiplier");
  if (mamba.in_bias && state_in != 1.0F)
    config.fail("mamba_proj_bias", "with ssm_in_multiplier is not supported");
  mamba.multipliers = factors("ssm_multipliers", 5);
  for (float& m : mamba.multipliers) m *= state_in;
  const float attention_in = factor("attention_in_multiplier");
  if (first_attention(spec).qkv_bias && attention_in != 1.0F)
    config.fail("attention_bias", "with attention_in_multiplier is not supported");
  const float attention_out = factor("attention_out_multiplier") * attention_in;
  const float mamba_out = factor("ssm_out_multiplier");
  const float keys = factor("key_multiplier");
  for (LayerSpec& layer : spec.layers) {
    AttentionSpec attention = *attention_of(layer);
    attention.params.scale *= attention_in * attention_in * keys;
    layer.mixer = ParallelMixerSpec{.attention = attention,
                                    .mamba = mamba,
                                    .attention_multiplier = attention_out,
                                    .mamba_multiplier = mamba_out};
  }
  const auto of_mlp = factors("mlp_multipliers", 2);
  set_all(spec, &MlpSpec::gate_multiplier, of_mlp[0]);
  for (LayerSpec& layer : spec.layers) layer.feed_forward_branch.multiplier *= of_mlp[1];
  spec.embedding_multiplier = factor("embedding_multiplier");
  spec.logit_scale = factor("lm_head_multiplier");
  return spec;
}

WeightNames bamba_weight_names() {
  return {kModelPrefixes, kBambaModules, {}};
}

}  // namespace

std::span<const Architecture> bamba_architectures() {
  static constexpr std::array kRows = {
      Architecture{"BambaForCausalLM", "bamba", parse_bamba, bamba_weight_names},
      Architecture{"FalconH1ForCausalLM", "falcon_h1", parse_falcon_h1, bamba_weight_names},
  };
  return kRows;
}

}  // namespace quire
