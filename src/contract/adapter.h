// The LoRA adapter of a request.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct AdapterRef {
  int32_t id = 0;      // in the executor; 0 = the base model
  std::string digest;  // of what it changes: only requests with equal digests share cached prefixes. Empty =
                       // nothing.
};

}  // namespace quire
