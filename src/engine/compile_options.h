// How much work a caller lets a constraint take to compile, so that a server can move what takes long to
// other threads.
#pragma once

#include <cstdint>
#include <exception>

#include "base/yield_point.h"

namespace quire {

enum class CompileEffort : uint8_t {
  kCached,  // no work: only a constraint that was compiled before
  kQuick,   // a small part of what grammar/limits.h allows; no waiting for other callers
  kFull,
};

struct CompileOptions {
  CompileEffort effort = CompileEffort::kFull;
  YieldPoint yield_point = {};  // compiling throws Cancelled soon after it is cancelled
};

// Thrown if the effort does not suffice; a call with more effort starts again. Not derived from Error, so
// that a handler for errors does not catch it.
class NeedsMoreEffort : public std::exception {
 public:
  const char* what() const noexcept override { return "the constraint takes more effort to compile"; }
};

}  // namespace quire
