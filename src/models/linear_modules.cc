#include "models/linear_modules.h"

#include <algorithm>
#include <array>
#include <set>

#include "models/config_reader.h"
#include "models/loader.h"
#include "models/registry.h"

namespace quire {
namespace {

constexpr std::array kLayerRoles = {Role::kQueryDown,
                                    Role::kQuery,
                                    Role::kKey,
                                    Role::kValue,
                                    Role::kQkv,
                                    Role::kLatent,
                                    Role::kLatentUp,
                                    Role::kAttentionOut,
                                    Role::kLayerInputGate,
                                    Role::kLayerInputProject,
                                    Role::kGate,
                                    Role::kUp,
                                    Role::kGateUp,
                                    Role::kDown,
                                    Role::kRouter,
                                    Role::kExpertGate,
                                    Role::kExpertUp,
                                    Role::kExpertGateUp,
                                    Role::kExpertDown,
                                    Role::kSharedExpertGate,
                                    Role::kSharedExpertUp,
                                    Role::kSharedExpertGateUp,
                                    Role::kSharedExpertDown,
                                    Role::kSharedExpertRouter};

bool is_router(Role role) {
  return role == Role::kRouter || role == Role::kSharedExpertRouter;
}
bool is_of_expert(Role role) {
  return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertGateUp ||
         role == Role::kExpertDown;
}

}  // namespace

std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint) {
  const ArchSpec spec = parse_arch(checkpoint.config());
  const TensorPlan plan(spec, find_weight_names(ConfigReader(checkpoint.config())), checkpoint);
  plan.check(checkpoint);
  std::vector<LinearModule> modules;
  std::set<std::string> seen;
  const auto add = [&](Role role, int32_t layer, int32_t expert) {
    const ExpectedTensor* tensor = plan.weight(role, layer, expert);
    if (tensor == nullptr || !seen.insert(tensor->name).second) return;
    LinearModule module{.weight = tensor->name, .role = role, .layer = layer, .router = is_router(role)};
    constexpr std::string_view kSuffix = ".weight";
    const bool named = tensor->name.ends_with(kSuffix);
    module.name = named ? tensor->name.substr(0, tensor->name.size() - kSuffix.size()) : tensor->name;
    module.expert = tensor->stacked ? -1 : expert;
    module.plain = named && !tensor->transposed && !tensor->stacked && role != Role::kLatentUp;
    modules.push_back(std::move(module));
  };
  if (!spec.tie_word_embeddings) add(Role::kLmHead, -1, -1);
  add(Role::kLayerInputsProject, -1, -1);
  for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const Role role : kLayerRoles) {
      if (!is_of_expert(role)) {
        add(role, layer, -1);
        continue;
      }
      const int32_t experts = spec.moe ? spec.moe->num_experts : 0;
      for (int32_t expert = 0; expert < experts; ++expert) add(role, layer, expert);
    }
  }
  return modules;
}

}  // namespace quire
