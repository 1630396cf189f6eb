// Apertus: Llama with norms of queries and keys, and a plain MLP whose activation has two learned numbers in
// each layer.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 6> kRest = {{
    {Role::kInputNorm, "layers.{}.attention_layernorm"},
    {Role::kMlpNorm, "layers.{}.feedforward_layernorm"},
    {.role = Role::kXieluPositive, .module = "layers.{}.mlp.act_fn.alpha_p", .bare = true},
    {.role = Role::kXieluNegative, .module = "layers.{}.mlp.act_fn.alpha_n", .bare = true},
    {.role = Role::kXieluSlope, .module = "layers.{}.mlp.act_fn.beta", .bare = true},
    {.role = Role::kXieluLimit, .module = "layers.{}.mlp.act_fn.eps", .bare = true},
}};
constexpr auto kModules = joined(kPlainLlama, kRest, kQkNorms);

}  // namespace

ArchSpec parse_apertus(const ConfigReader& config) {
  if (const std::string name = config.text("hidden_act", "xielu"); name != "xielu")
    config.fail("hidden_act", cat("is '", name, "'; xielu is what is supported for this architecture"));
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 65536,
                                              .rope = {.theta = 12e6},
                                              .activation_field = "",
                                              .activation = "silu"});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kHeads;
  spec.gated_mlp = false;
  spec.xielu = true;
  return spec;
}

WeightNames apertus_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
