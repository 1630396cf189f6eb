// Makes the vectors of sequences that ask for one: sums their hidden states up as they are computed, step by
// step, and puts what is complete through the model's layers behind the pooling. Owned by an executor.
//
// Rows are added in the order of their positions, so a vector has the same bits however its text was cut.
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
  // The model has a pooler().
  TextPooler(const Model& model, const OpTable& ops);

  // hidden: what Model::forward returned for the batch that `parts` are of. Appends the vectors of texts that
  // end here, and the failures of those that are not numbers.
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

// What a request's own wishes make of the output of Pooler's layers, in place: fewer numbers, length 1,
// probabilities.
void finish_vector(const Pooler& pooler, const PoolingParams& params, std::vector<float>& values);

}  // namespace quire
