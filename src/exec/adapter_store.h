// The LoRA adapters in memory, and those of the rows of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "contract/step_plan.h"
#include "exec/sequence_store.h"
#include "nn/adapter.h"

namespace quire {

// Weights of adapters by AdapterRef::id. Filled before the first step and constant from then on. Owned by the
// runtime.
class AdapterStore {
 public:
  // Returns the adapter's id.
  int32_t add(std::shared_ptr<const AdapterWeights> weights);
  bool empty() const { return adapters_.empty(); }
  size_t size() const { return adapters_.size(); }
  // Null for the base model, id 0. Throws Error for an unknown id: the plan is inconsistent.
  const AdapterWeights* find(int32_t id) const;

 private:
  std::vector<std::shared_ptr<const AdapterWeights>> adapters_;  // id - 1
};

// Some rows and their adapters. Keeps its memory from step to step.
class RowAdapters {
 public:
  // The adapter of row i is ids[i] (0 = none). Throws Error for unknown ids.
  void assign(const AdapterStore& store, std::span<const int32_t> ids);
  // Null if no row has an adapter. Valid until the next assign().
  const AdapterRows* rows() const { return uses_.empty() ? nullptr : &view_; }

 private:
  std::vector<int32_t> order_;         // rows with an adapter, by adapter and then ascending
  std::vector<AdapterUse> uses_;       // parts of order_
  std::vector<LowRankGroup> scratch_;  // as many as uses_
  AdapterRows view_;
};

// The adapters of a step. Owned by an executor and used by its thread.
class StepAdapters {
 public:
  // store: null if the engine has no adapters.
  explicit StepAdapters(const AdapterStore* store) : store_(store) {}

  // The rows of the plan's sequences, in the plan's order.
  void build(const StepPlan& plan, SequenceStore& sequences);
  const AdapterRows* rows() const { return all_.rows(); }
  // Those of a selection of the step's rows, for layers that compute these rows only. Valid until the next
  // call.
  const AdapterRows* select(std::span<const int32_t> rows);

 private:
  const AdapterStore* store_;
  std::vector<int32_t> ids_;  // of each row of the step
  std::vector<int32_t> selected_ids_;
  RowAdapters all_;
  RowAdapters selected_;
};

}  // namespace quire
