#include "lora/saved_plan.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "lora/tensor_checks.h"

namespace quire::lora {
namespace {

// Whether the name of a module ends with one that the configuration lists.
bool is_listed(const std::vector<std::string>& listed, std::string_view module) {
  return std::ranges::any_of(listed, [&](const std::string& name) { return is_end_of_name(name, module); });
}

bool is_saved_module(const TensorInfo& tensor) {
  return tensor.name.find(".modules_to_save.") != std::string::npos;
}

}  // namespace

int64_t PlannedMatrix::bytes() const {
  if (packed_bytes > 0) return packed_bytes;
  return static_cast<int64_t>(weight.bytes) +
         (bias ? bias->shape[0] * static_cast<int64_t>(sizeof(float)) : 0);
}

void SavedPlanner::fail(std::string_view module, std::string_view problem) {
  problems_.add(cat(shown(module), ": ", problem));
}

bool SavedPlanner::take(const TensorInfo& tensor, const AdapterTensorName& name) {
  if (name.role != TensorRole::kWeight && name.role != TensorRole::kBias) return false;
  Tensors& own = modules_[name.module];
  take_slot(problems_, name.module, name.role == TensorRole::kWeight ? own.weight : own.bias, tensor);
  return true;
}

bool SavedPlanner::is_complete(const std::string& name, const Tensors& tensors) {
  const AdapterTarget target = targets_ == nullptr ? AdapterTarget{} : find_target(*targets_, name);
  if (target.module != nullptr && (target.ranges.empty() || !target.ranges.front().whole)) {
    fail(tensors.weight->name, target.module->kind == AdapterModuleKind::kVector
                                   ? "this vector cannot be saved as a module"
                                   : "saved modules (modules_to_save) are supported for token embeddings, "
                                     "output layers, classifiers "
                                     "and norms only");
    return false;
  }
  return true;
}

bool SavedPlanner::resolve(PlannedMatrix& matrix) {
  const AdapterRange* range = find_range(*targets_, matrix.name, problems_);
  if (range == nullptr) return false;
  matrix.site = range->site;
  matrix.whole = range->whole;
  matrix.embedding = find_target(*targets_, matrix.name).module->kind == AdapterModuleKind::kEmbedding;
  if (!has_shape(problems_, matrix.name, "the saved weight", matrix.weight, {range->rows, range->in}))
    return false;
  const bool needs_bias = range->whole->bias && matrix.changes_output();
  if (needs_bias != matrix.bias.has_value()) {
    fail(matrix.name, needs_bias ? "is saved without a bias, the model's has one"
                                 : "is saved with a bias, the model's has none");
    return false;
  }
  return !matrix.bias ||
         has_shape(problems_, matrix.name, "the saved bias", *matrix.bias, {matrix.weight.shape[0]});
}

std::vector<PlannedMatrix> SavedPlanner::plan(const PeftConfig& config) {
  std::vector<PlannedMatrix> planned;
  for (const auto& [name, tensors] : modules_) {
    if (tensors.weight == nullptr || is_norm(name, tensors.weight, targets_) || !is_complete(name, tensors))
      continue;
    PlannedMatrix matrix{.name = name, .weight = *tensors.weight};
    if (tensors.bias != nullptr) matrix.bias = *tensors.bias;
    matrix.copy = !is_saved_module(matrix.weight) && !is_listed(config.saved_modules, name);
    if (!has_form(problems_, name, "the saved weight", matrix.weight, 2)) continue;
    if (matrix.bias && !has_form(problems_, name, "the saved bias", *matrix.bias, 1)) continue;
    if (targets_ == nullptr || resolve(matrix)) planned.push_back(std::move(matrix));
  }
  return planned;
}

std::vector<PlannedNorm> SavedPlanner::plan_norms() {
  std::vector<PlannedNorm> planned;
  for (const auto& [name, tensors] : modules_) {
    if (!is_norm(name, tensors.weight, targets_)) continue;
    if (auto norm = plan_norm(name, tensors.weight, tensors.bias, targets_, problems_))
      planned.push_back(*std::move(norm));
  }
  return planned;
}

std::vector<PlannedBias> SavedPlanner::plan_biases() {
  std::vector<PlannedBias> planned;
  for (const auto& [name, tensors] : modules_) {
    if (tensors.weight != nullptr || is_norm(name, nullptr, targets_)) continue;
    if (auto bias = plan_bias(name, *tensors.bias, targets_, problems_)) planned.push_back(*std::move(bias));
  }
  return planned;
}

}  // namespace quire::lora
