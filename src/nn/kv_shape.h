// The KV cache of one attention layer. Each attention mechanism has these functions of its spec:
//   KvShape kv_shape(const Spec& spec);
//   int64_t kv_bytes(const Spec& spec, DType dtype, int32_t block_size);
//     bytes of one KV block of the layer, with the keys of its indexer; 0 if it has no KV cache of its own
//   std::unique_ptr<Mixer> make_mixer(const Spec& spec);
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/dtype.h"

namespace quire {

class Mixer;  // nn/mixer.h

// The heads of an attention layer. num_kv_heads 0 = it has no KV cache, neither its own nor a shared one.
struct KvShape {
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  int32_t num_heads = 0;  // query heads
};

}  // namespace quire
