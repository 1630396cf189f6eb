#include "lora/norm_plan.h"

#include "base/strings.h"
#include "lora/tensor_checks.h"

namespace quire::lora {

bool is_norm(const std::string& name, const TensorInfo* weight, const AdapterTargets* targets) {
  if (targets == nullptr) return weight != nullptr && weight->shape.size() == 1;
  const AdapterModule* module = find_target(*targets, name).module;
  return module != nullptr && module->kind == AdapterModuleKind::kNorm;
}

std::optional<PlannedNorm> plan_norm(const std::string& name, const TensorInfo* weight,
                                     const TensorInfo* bias, const AdapterTargets* targets,
                                     Problems& problems) {
  bool ok = weight == nullptr || has_form(problems, name, "the saved weight", *weight, 1);
  ok = (bias == nullptr || has_form(problems, name, "the trained bias", *bias, 1)) && ok;
  if (!ok) return std::nullopt;
  PlannedNorm planned{.name = name};
  if (weight != nullptr) planned.weight = *weight;
  if (bias != nullptr) planned.bias = *bias;
  if (targets == nullptr) return planned;
  const AdapterRange* range = find_range(*targets, name, problems);
  if (range == nullptr) return std::nullopt;
  planned.site = range->site;
  planned.whole = *range->whole;
  if (planned.bias && !planned.whole.bias) {
    problems.add(cat(shown(name), ": is saved with a bias, the model's has none"));
    return std::nullopt;
  }
  if (planned.weight && !planned.bias && planned.whole.bias) {
    problems.add(cat(shown(name), ": is saved without a bias, the model's has one"));
    return std::nullopt;
  }
  ok = !planned.weight || has_shape(problems, name, "the saved weight", *planned.weight, {range->rows});
  ok = (!planned.bias || has_shape(problems, name, "the trained bias", *planned.bias, {range->rows})) && ok;
  return ok ? std::optional(std::move(planned)) : std::nullopt;
}

}  // namespace quire::lora
