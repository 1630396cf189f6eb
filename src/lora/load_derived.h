// Changes to matrices that are computed from a module's matrix when the model is loaded. Load time only, by
// one thread.
#pragma once

#include <map>
#include <memory>

#include "lora/adapter_plan.h"
#include "lora/tensor_values.h"
#include "ops/low_rank.h"

namespace quire::lora {

// Loads the sites of one adapter that have AdapterRange::part, one after another. The sites of a module share
// the memory of its A.
class DerivedLoader {
 public:
  // values: outlives it.
  explicit DerivedLoader(TensorValues& values) : values_(values) {}

  // site: one piece, as two modules cannot change the same rows.
  std::unique_ptr<LowRank> load(const SitePlan& site);

 private:
  // The tensors of the module whose sites are being loaded.
  struct Module {
    DType dtype = DType::kF32;
    std::shared_ptr<const Buffer> a;       // [rank, in]
    std::shared_ptr<const Buffer> a_as_b;  // Aᵀ in the order of LowRank::b; null = not made yet
    Buffer b;                              // [out, rank]
  };
  Module read(const PlannedModule& planned, DType dtype);

  TensorValues& values_;
  std::map<const PlannedModule*, Module> modules_;
};

}  // namespace quire::lora
