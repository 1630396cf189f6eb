// Clocks. Durations are measured on the monotonic clock, in seconds. The wall clock is used only for
// timestamps in responses, logs and chat templates.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace quire {

// Seconds on the monotonic clock, from an arbitrary origin.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of the calling thread in seconds.
inline double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds since 1970 (for `created` fields).
inline int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace quire
