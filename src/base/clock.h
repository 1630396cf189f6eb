// Clocks. Durations are measured on the monotonic clock, in seconds. The wall clock is used only for
// timestamps in responses, logs and chat templates.
#pragma once

#include <chrono>
#include <cstdint>

namespace quire {

// Seconds on the monotonic clock, from an arbitrary origin.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970 (for `created` fields).
inline int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace quire
