// The LoRA adapters of the rows of a step. Owned by an executor and used by its thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/step_plan.h"
#include "exec/sequence_store.h"
#include "nn/adapter.h"

namespace quire {

// Some rows and their adapters. Keeps its memory from step to step.
class RowAdapters {
 public:
  // adapters: of each row; those with id 0 have none. They stay valid until the next call.
  void assign(std::span<const AdapterRef* const> adapters);
  // Null if no row has an adapter. Valid until the next assign().
  const AdapterRows* rows() const { return uses_.empty() ? nullptr : &view_; }

 private:
  std::vector<int32_t> order_;    // rows with an adapter, by adapter and then ascending
  std::vector<AdapterUse> uses_;  // parts of order_
  // Scratch, as many as uses_.
  std::vector<LowRankGroup> groups_;
  std::vector<LowRankExpertsGroup> expert_groups_;
  std::vector<EmbeddingGroup> embedding_groups_;
  std::vector<TrainedTokensGroup> token_groups_;
  AdapterRows view_;
};

class StepAdapters {
 public:
  // The rows of the plan's sequences, in the plan's order. The sequences stay in the store until the step has
  // ended.
  void build(const StepPlan& plan, SequenceStore& sequences);
  const AdapterRows* rows() const { return all_.rows(); }
  // Those of a selection of the step's rows, for layers that compute these rows only. Valid until the next
  // call.
  const AdapterRows* select(std::span<const int32_t> rows);

 private:
  std::vector<const AdapterRef*> of_row_;  // each row of the step
  std::vector<const AdapterRef*> of_selected_;
  RowAdapters all_;
  RowAdapters selected_;
};

}  // namespace quire
