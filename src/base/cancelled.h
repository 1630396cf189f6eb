// Cancellation of long operations. A function that takes a std::stop_token calls throw_if_cancelled() at
// regular intervals; the caller that started the operation catches Cancelled.
#pragma once

#include <exception>
#include <stop_token>

namespace quire {

// Not derived from Error, so that a handler for errors does not catch it.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

inline void throw_if_cancelled(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Cancelled();
}

}  // namespace quire
