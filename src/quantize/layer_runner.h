// Runs calibration text through a model layer by layer, with the weights of one layer in memory, and observes
// the inputs of its matrices. Owned by one thread, which works with the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "io/checkpoint.h"
#include "models/model.h"
#include "models/state_layout.h"
#include "ops/op_table.h"
#include "ops/profile.h"
#include "quantize/overlay_checkpoint.h"
#include "tensor/tensor.h"

namespace quire {

// Statistics of the inputs x [k] of one or more matrices that are multiplied together.
struct InputStats {
  std::vector<std::string> tensors;  // names of the matrices' weights
  int64_t k = 0;
  int64_t rows = 0;            // number of inputs
  std::vector<float> h;        // [k, k] the sum of x x^T
  std::vector<float> largest;  // [k] max |x|
};

// The largest magnitudes of the keys and values of a layer.
struct KvLimits {
  float keys = 0.0F;
  float values = 0.0F;
};

class LayerRunner {
 public:
  // windows: token ids; each window is a separate sequence. Throws Error if layers read from other layers,
  // because these cannot be run one by one.
  LayerRunner(Checkpoint& checkpoint, ThreadPool& pool, std::vector<std::vector<int32_t>> windows);

  const ModelSpec& spec() const { return spec_; }
  // Runs the next layer over all windows, with the current weights of the checkpoint, and returns the input
  // statistics of those of its matrices that are in `tensors`.
  std::vector<InputStats> observe(int32_t layer, const std::set<std::string>& tensors);
  // Same, without observing inputs; the outputs become the inputs of the next layer. Returns the range of its
  // keys and values.
  KvLimits advance(int32_t layer);

 private:
  struct Window {
    std::vector<int32_t> ids;
    Buffer hidden;  // [ids, hidden_size] float32: inputs of the next layer
  };
  // watch: a profile that wraps the op table, or null.
  std::unique_ptr<Model> load(const ModelPart& part, OpProfile* watch = nullptr,
                              const PackedListener& listener = nullptr);
  // Calls run(batch) for each window with its hidden states in buffers_. keep: stores the resulting hidden
  // states.
  template <typename Run>
  void for_windows(const Model& model, bool keep, Run run);

  Checkpoint& checkpoint_;
  ThreadPool& pool_;
  const OpTable* ops_;
  ModelSpec spec_;
  int64_t longest_ = 0;  // length of the longest window
  std::vector<Window> windows_;
  ActivationBuffers buffers_;
  Buffer cache_;  // keys and values of one layer and window
  StateLayout states_;
  int64_t state_block_ = 0;  // bytes; 0 = no recurrent layers
  Buffer state_memory_;      // recurrent states of one window
  Buffer workspace_;
};

// Runs the windows through the model, each layer with its changed weights. `change` stores these in the
// overlay, which drops them after the layer. layers: for each layer, the matrices that are changed.
using LayerChange = std::function<void(int32_t layer, std::vector<InputStats>& inputs)>;
void change_layers(OverlayCheckpoint& checkpoint, ThreadPool& pool,
                   const std::vector<std::vector<int32_t>>& windows,
                   const std::vector<std::set<std::string>>& layers, const LayerChange& change);

}  // namespace quire
