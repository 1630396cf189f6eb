#include "lora/embedding_plan.h"

#include <utility>

#include "base/strings.h"

namespace quire::lora {
namespace {

constexpr const char* kPartA = "lora_embedding_A";
constexpr const char* kPartB = "lora_embedding_B";

}  // namespace

int64_t PlannedEmbedding::bytes() const {
  return rank * (a.shape[1] + b.shape[0]) * static_cast<int64_t>(dtype_size(dtype()));
}

bool EmbeddingPlanner::take(const TensorInfo& tensor, const AdapterTensorName& name) {
  if (name.role != TensorRole::kEmbeddingA && name.role != TensorRole::kEmbeddingB) return false;
  Tensors& own = modules_[name.module];
  take_slot(problems_, name.module, name.role == TensorRole::kEmbeddingA ? own.a : own.b, tensor);
  return true;
}

bool EmbeddingPlanner::is_complete(const std::string& name, const Tensors& tensors) {
  if (tensors.a == nullptr || tensors.b == nullptr) {
    problems_.add(cat(shown(name), ": has no ", tensors.a == nullptr ? kPartA : kPartB));
    return false;
  }
  const bool a = has_form(problems_, name, kPartA, *tensors.a, 2);
  const bool b = has_form(problems_, name, kPartB, *tensors.b, 2);
  return a && b && has_same_rank(problems_, name, kPartA, *tensors.a, kPartB, *tensors.b);
}

bool EmbeddingPlanner::resolve(PlannedEmbedding& embedding) {
  const AdapterTarget target = find_target(*targets_, embedding.name);
  if (target.module != nullptr &&
      (target.module->kind != AdapterModuleKind::kEmbedding || target.module->ranges.empty())) {
    problems_.add(cat(shown(embedding.name), target.module->kind == AdapterModuleKind::kEmbedding
                                                 ? ": adapters on this embedding are not supported yet"
                                                 : ": is not an embedding in this model"));
    return false;
  }
  const AdapterRange* range = find_range(*targets_, embedding.name, problems_);
  if (range == nullptr) return false;
  embedding.site = range->site;
  const bool a = has_shape(problems_, embedding.name, kPartA, embedding.a, {embedding.rank, range->rows});
  return has_shape(problems_, embedding.name, kPartB, embedding.b, {range->in, embedding.rank}) && a;
}

std::vector<PlannedEmbedding> EmbeddingPlanner::plan(const ScaleOf& scale_of) {
  std::vector<PlannedEmbedding> planned;
  for (const auto& [name, tensors] : modules_) {
    if (!is_complete(name, tensors)) continue;
    PlannedEmbedding embedding{.name = name, .a = *tensors.a, .b = *tensors.b};
    embedding.rank = embedding.a.shape[0];
    embedding.scale = scale_of(name, kPartA, embedding.a);
    if (targets_ == nullptr || resolve(embedding)) planned.push_back(std::move(embedding));
  }
  return planned;
}

}  // namespace quire::lora
