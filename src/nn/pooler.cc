#include "nn/pooler.h"

#include <algorithm>
#include <utility>

namespace quire {

int64_t Pooler::output_size() const {
  int64_t size = pooled_size();
  for (const PoolerLayer& layer : layers) {
    if (layer.linear) size = layer.linear->out_features();
  }
  return size;
}

int64_t Pooler::widest() const {
  int64_t widest = pooled_size();
  for (const PoolerLayer& layer : layers) {
    if (layer.linear) widest = std::max(widest, layer.linear->out_features());
  }
  return widest;
}

TensorView apply(const OpRunner& run, const Pooler& pooler, const TensorView& x, const TensorView& scratch) {
  TensorView from = x;
  TensorView to = scratch;
  int64_t size = pooler.pooled_size();
  for (const PoolerLayer& layer : pooler.layers) {
    if (layer.linear) {
      const int64_t out = layer.linear->out_features();
      apply(run, *layer.linear, column_slice(to, 0, out), column_slice(from, 0, size));
      std::swap(from, to);
      size = out;
    }
    const TensorView values = column_slice(from, 0, size);
    if (layer.activation) run(ops::Activate{.x = values, .activation = *layer.activation});
    if (layer.tanh) run(ops::ScaleSoftcap{.x = values, .scale = 1.0F, .cap = 1.0F});
    if (layer.norm) apply(run, *layer.norm, values, values);
  }
  return column_slice(from, 0, size);
}

}  // namespace quire
