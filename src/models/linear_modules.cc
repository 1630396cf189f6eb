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
                                    Role::kQueryGate,
                                    Role::kKey,
                                    Role::kValue,
                                    Role::kQkv,
                                    Role::kLatent,
                                    Role::kLatentUp,
                                    Role::kIndexQuery,
                                    Role::kIndexKey,
                                    Role::kIndexGate,
                                    Role::kIndexWeights,
                                    Role::kCompressKey,
                                    Role::kCompressGate,
                                    Role::kOutDown,
                                    Role::kAttentionOut,
                                    Role::kStateIn,
                                    Role::kDeltaIn,
                                    Role::kDeltaQuery,
                                    Role::kDeltaKey,
                                    Role::kDeltaValue,
                                    Role::kDeltaGate,
                                    Role::kDeltaInGate,
                                    Role::kDeltaShare,
                                    Role::kDeltaStep,
                                    Role::kDeltaShareStep,
                                    Role::kDeltaGateDown,
                                    Role::kDeltaStepDown,
                                    Role::kStateSelect,
                                    Role::kStateStep,
                                    Role::kStateOut,
                                    Role::kLayerInputGate,
                                    Role::kLayerInputProject,
                                    Role::kBlockOut,
                                    Role::kQueryAdapterDown,
                                    Role::kQueryAdapterUp,
                                    Role::kKeyAdapterDown,
                                    Role::kKeyAdapterUp,
                                    Role::kValueAdapterDown,
                                    Role::kValueAdapterUp,
                                    Role::kGateUpAdapterDown,
                                    Role::kGateUpAdapterUp,
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

constexpr std::array kRouters = {Role::kRouter,        Role::kSharedExpertRouter, Role::kDeltaShare,
                                 Role::kDeltaStep,     Role::kDeltaShareStep,     Role::kDeltaStepDown,
                                 Role::kDeltaGateDown, Role::kStateSelect,        Role::kStateStep,
                                 Role::kIndexWeights};
bool is_router(Role role) {
  return std::ranges::find(kRouters, role) != kRouters.end();
}
bool is_of_expert(Role role) {
  return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertGateUp ||
         role == Role::kExpertDown;
}

}  // namespace

std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint) {
  const ArchSpec spec = read_spec(checkpoint, Runner::kAuto);
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

std::vector<std::string> attention_modules(const Checkpoint& checkpoint) {
  const ArchSpec spec = parse_arch(checkpoint.config());
  const TensorPlan plan(spec, find_weight_names(ConfigReader(checkpoint.config())), checkpoint);
  std::vector<std::string> modules;
  for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
    const LayerSpec& own = spec.layers[static_cast<size_t>(layer)];
    const bool stores = own.attention && own.kv_source < 0 && !spec.mla && !spec.compressed;
    modules.push_back(stores ? attention_module(plan, layer) : "");
  }
  return modules;
}

std::vector<ScalableInput> scalable_inputs(const Checkpoint& checkpoint, int32_t layer) {
  const ArchSpec spec = parse_arch(checkpoint.config());
  const TensorPlan plan(spec, find_weight_names(ConfigReader(checkpoint.config())), checkpoint);
  const LayerSpec& own = spec.layers[static_cast<size_t>(layer)];
  // Every use of a block would have to be scaled with it, and all that reads the norm of compressed keys.
  if (own.block_source >= 0 || spec.compressed) return {};
  // The weights of those roles that the layer has; empty where one is no plain matrix.
  const auto matrices = [&](std::initializer_list<Role> roles) {
    std::vector<std::string> names;
    for (const Role role : roles) {
      const ExpectedTensor* tensor = plan.weight(role, layer);
      if (tensor == nullptr) continue;
      if (tensor->transposed || tensor->stacked) return std::vector<std::string>();
      names.push_back(tensor->name);
    }
    return names;
  };
  std::vector<ScalableInput> all;
  const auto behind_norm = [&](Role role, std::vector<std::string> names) {
    const ExpectedTensor* norm = plan.weight(role, layer);
    if (norm == nullptr || names.empty()) return;
    ScalableInput input{.matrices = std::move(names), .source = norm->name, .norm = true};
    if (const ExpectedTensor* bias = plan.bias(role, layer)) input.source_bias = bias->name;
    input.offset = spec.norm_weight_offset;
    all.push_back(std::move(input));
  };
  const auto behind_matrix = [&](Role role, std::vector<std::string> names) {
    const std::vector<std::string> source = matrices({role});
    if (source.empty() || names.empty() || plan.bias(role, layer) != nullptr) return;
    all.push_back({.matrices = std::move(names), .source = source.front()});
  };
  // Behind a norm of what a matrix gives, its rows count nothing; limits are not scaled with it.
  if (!own.experts && own.mlp_limit == 0.0F && !spec.sub_norms && spec.gated_mlp &&
      spec.activation != Activation::kClampedSwish)
    behind_matrix(Role::kUp, matrices({Role::kDown}));
  if (!spec.mla && !spec.sub_norms && num_kv_heads_of(spec, own) == num_heads_of(spec, own) &&
      !own.keys_as_values && !spec.value_norm)
    behind_matrix(Role::kValue, matrices({Role::kAttentionOut}));
  // What such norms give is more than what the matrices read.
  if (spec.parallel_residual || spec.norm_residual) return all;
  if (!own.experts) behind_norm(Role::kMlpNorm, matrices({Role::kGate, Role::kUp, Role::kGateUp}));
  // What carries a state reads the same norm, where there is any, as attention beside it does.
  if (!spec.mla) {
    behind_norm(
        Role::kInputNorm,
        matrices({Role::kQuery, Role::kQueryGate, Role::kKey, Role::kValue, Role::kQkv, Role::kStateIn,
                  Role::kDeltaIn, Role::kDeltaQuery, Role::kDeltaKey, Role::kDeltaValue, Role::kDeltaGate,
                  Role::kDeltaInGate, Role::kDeltaShare, Role::kDeltaStep, Role::kDeltaShareStep}));
  }
  return all;
}

}  // namespace quire
