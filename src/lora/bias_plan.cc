#include "lora/bias_plan.h"

#include "base/strings.h"
#include "lora/tensor_checks.h"

namespace quire::lora {

std::optional<PlannedBias> plan_bias(const std::string& name, const TensorInfo& bias,
                                     const AdapterTargets* targets, Problems& problems) {
  if (!has_form(problems, name, "the trained bias", bias, 1)) return std::nullopt;
  PlannedBias planned{.name = name, .bias = bias, .ranges = {}};
  if (targets == nullptr) return planned;
  const AdapterTarget target = find_target(*targets, name);
  if (target.module != nullptr && target.module->kind != AdapterModuleKind::kMatrix) {
    problems.add(cat(shown(bias.name), ": trained biases of ",
                     target.module->kind == AdapterModuleKind::kVector ? "this vector" : "this module",
                     " are not supported yet"));
    return std::nullopt;
  }
  const AdapterRange* range = find_range(*targets, name, problems);
  if (range == nullptr || !has_shape(problems, name, "the trained bias", bias, {range->rows}))
    return std::nullopt;
  planned.ranges.assign(target.ranges.begin(), target.ranges.end());
  return planned;
}

}  // namespace quire::lora
