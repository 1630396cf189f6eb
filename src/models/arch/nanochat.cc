// nanochat: norms without weights, also of the embeddings; inverse RoPE with QK norm after it; an ungated MLP
// with squared ReLU.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kMlp = {{
    {mlp::kUpProj, "layers.{}.mlp.fc1"},
    {mlp::kDownProj, "layers.{}.mlp.fc2"},
}};
constexpr auto kNanochatModules = joined(kLlamaAttention, kMlp);

ModelSpec parse_nanochat(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.activation = "relu2"});
  set_all(spec, &MlpSpec::gated, false);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  spec.embedding_norm = true;
  set_qk_norm(spec, QkNorm::kHeads);
  set_all(spec, &AttentionSpec::qk_norm_after_rope, true);
  spec.ropes.front().inverse = true;
  spec.logit_softcap = config.mentions("final_logit_softcapping") && !config.has("final_logit_softcapping")
                           ? 0.0F
                           : static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 15.0));
  return spec;
}

WeightNames nanochat_weight_names() {
  return {kModelPrefixes, kNanochatModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> nanochat_architectures() {
  static constexpr std::array kRows = {
      Architecture{"NanoChatForCausalLM", "nanochat", parse_nanochat, nanochat_weight_names},
  };
  return kRows;
}

}  // namespace quire
