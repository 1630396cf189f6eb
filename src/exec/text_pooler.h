// Pooling requests: sums up hidden states as they are computed, step by step, and applies the model's layers
// after the pooling to complete sums. Owned by an executor and used by its thread.
//
// Rows are added in order of positions, so a vector has the same bits for any chunking of its prompt.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "contract/step_result.h"
#include "device/mirrored_buffer.h"
#include "exec/batch_builder.h"
#include "exec/sequence_store.h"
#include "exec/step_adapters.h"
#include "models/model.h"
#include "ops/op_table.h"

namespace quire {

class TextPooler {
 public:
  // Requires model.pooler(). The device outlives the pooler.
  TextPooler(const Model& model, Device& device, const OpTable& ops, int64_t max_tokens);

  // Copies the result of Model::forward() to memory of the host, where take() adds it up.
  void submit_copy(const TensorView& hidden, DeviceStream& stream);
  // parts: of the batch whose hidden states have been copied; adapters: of its rows. Appends the vectors of
  // prompts that end in this step, or failures if a vector has NaN or infinity. Waits for the layers that
  // follow the pooling.
  void take(const OpContext& ctx, ThreadPool& pool, DeviceStream& stream, const StepPlan& plan,
            std::span<const PooledPart> parts, SequenceStore& sequences, StepAdapters& adapters,
            StepResult& result);

  static int64_t workspace_bytes(const Model& model);

 private:
  void add_rows(const PooledPart& part, SequenceRecord& record) const;
  void finish(const OpContext& ctx, DeviceStream& stream, const StepPlan& plan,
              std::span<const PooledPart> ended, SequenceStore& sequences, StepAdapters& adapters,
              StepResult& result);

  const Pooler& pooler_;
  const OpTable& ops_;
  Buffer copied_;           // pinned: the hidden states; empty if the device shares the host's memory
  TensorView hidden_;       // hidden states of the step, in memory of the host
  MirroredBuffer vectors_;  // two of [kVectorsAtOnce, widest()]
  std::vector<PooledPart> ended_;
  std::vector<int32_t> last_rows_;  // rows of the step that end the vectors of one call of finish()
};

// Applies a request's parameters to the output of the pooler's layers, in place: fewer dimensions,
// normalization, probabilities.
void finish_vector(const Pooler& pooler, const PoolingParams& params, std::vector<float>& values);

}  // namespace quire
