// Pooling requests: sums up hidden states as they are computed, step by step, and applies the model's layers
// after the pooling to complete sums. Owned by an executor and used by its thread.
//
// Rows are added in order of positions, so a vector has the same bits for any chunking of its prompt.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "contract/step_result.h"
#include "exec/batch_builder.h"
#include "exec/sequence_store.h"
#include "models/model.h"
#include "ops/op_table.h"

namespace quire {

class TextPooler {
 public:
  // Requires model.pooler().
  TextPooler(const Model& model, const OpTable& ops);

  // hidden: result of Model::forward() for the batch of `parts`. Appends the vectors of prompts that end in
  // this step, or failures if a vector has NaN or infinity.
  void take(const OpContext& ctx, ThreadPool& pool, const StepPlan& plan, std::span<const PooledPart> parts,
            SequenceStore& sequences, const TensorView& hidden, StepResult& result);

  static int64_t workspace_bytes(const Model& model);

 private:
  void add_rows(const PooledPart& part, SequenceRecord& record, const TensorView& hidden) const;
  void finish(const OpContext& ctx, const StepPlan& plan, std::span<const PooledPart> ended,
              SequenceStore& sequences, StepResult& result);

  const Pooler& pooler_;
  const OpTable& ops_;
  Buffer scratch_;  // two of [kVectorsAtOnce, widest()]
  std::vector<PooledPart> ended_;
};

// Applies a request's parameters to the output of the pooler's layers, in place: fewer dimensions,
// normalization, probabilities.
void finish_vector(const Pooler& pooler, const PoolingParams& params, std::vector<float>& values);

}  // namespace quire
