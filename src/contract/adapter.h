// The LoRA adapter of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace quire {

struct AdapterWeights;  // nn/adapter.h; only executors look into them

// Requests, plans and sequences share the weights, which live until the last of them has ended.
struct AdapterRef {
  int32_t id = 0;  // one for each adapter that was loaded; 0 = the base model
  // Hash of everything that it changes: only requests with equal digests share cached prefixes. Empty = the
  // base model.
  std::string digest;
  std::shared_ptr<const AdapterWeights> weights;
};

}  // namespace quire
