// Runs calibration text through a model layer by layer, so that one layer's weights are in memory at a time,
// and watches what its matrices are given. Owned by one thread, which works with the pool.
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

// The inputs x [k] that some matrices, which were multiplied as one, have seen.
struct InputStats {
  std::vector<std::string> tensors;  // the matrices' weights
  int64_t k = 0;
  int64_t rows = 0;            // inputs
  std::vector<float> h;        // [k, k] the sum of x x^T
  std::vector<float> largest;  // [k] max |x|
};

// The largest magnitudes that a layer has put into the cache.
struct KvLimits {
  float keys = 0.0F;
  float values = 0.0F;
};

class LayerRunner {
 public:
  // windows: token ids; each is a sequence of its own. Throws Error where the model has layers that look at
  // other layers, which cannot be run one by one.
  LayerRunner(Checkpoint& checkpoint, ThreadPool& pool, std::vector<std::vector<int32_t>> windows);

  const ArchSpec& spec() const { return spec_; }
  // Runs the next layer over all windows, with the weights that the checkpoint has now, and says what those
  // matrices that are among `tensors` were given.
  std::vector<InputStats> observe(int32_t layer, const std::set<std::string>& tensors);
  // The same without watching; what comes out goes into the next layer. Returns how large its keys and
  // values were.
  KvLimits advance(int32_t layer);

 private:
  struct Window {
    std::vector<int32_t> ids;
    Buffer hidden;  // [ids, hidden_size] float32: what goes into the next layer
  };
  // watch: null, or what computes in place of the plain table.
  std::unique_ptr<Model> load(const ModelPart& part, OpProfile* watch = nullptr,
                              const PackedListener& listener = nullptr);
  // Calls run(batch) for each window with its hidden states in buffers_, and keeps what is there then.
  template <typename Run>
  void for_windows(bool keep, Run run);

  Checkpoint& checkpoint_;
  ThreadPool& pool_;
  const OpTable* ops_;
  ArchSpec spec_;
  int64_t longest_ = 0;  // window
  std::vector<Window> windows_;
  ActivationBuffers buffers_;
  Buffer cache_;  // keys and values of one layer and window
  StateLayout states_;
  int64_t state_block_ = 0;  // bytes; 0: no layer carries a state
  Buffer state_memory_;      // of one window
  Buffer workspace_;
};

// Runs the windows through the model, each layer as what it has become: `change` makes that of it in the
// overlay, which forgets it behind the layer. layers: the matrices of each that are changed.
using LayerChange = std::function<void(int32_t layer, std::vector<InputStats>& inputs)>;
void change_layers(OverlayCheckpoint& checkpoint, ThreadPool& pool,
                   const std::vector<std::vector<int32_t>>& windows,
                   const std::vector<std::set<std::string>>& layers, const LayerChange& change);

}  // namespace quire
