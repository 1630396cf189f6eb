// nanochat: norms without weights, one of the embeddings too; queries and keys turn backwards and are normed
// behind it; a plain MLP of squared ReLUs.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kMlp = {{
    {Role::kUp, "layers.{}.mlp.fc1"},
    {Role::kDown, "layers.{}.mlp.fc2"},
}};
constexpr auto kModules = joined(kLlamaAttention, kMlp);

}  // namespace

ArchSpec parse_nanochat(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.activation = "relu2"});
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.embedding_norm = true;
  spec.qk_norm = QkNorm::kHeads;
  spec.qk_norm_turned = true;
  spec.ropes.front().backwards = true;
  spec.logit_softcap = config.mentions("final_logit_softcapping") && !config.has("final_logit_softcapping")
                           ? 0.0F
                           : static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, 15.0));
  return spec;
}

WeightNames nanochat_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
