// Ends and slows down long operations. A function that takes a YieldPoint calls check() about every
// millisecond; the caller that started the operation catches Cancelled.
#pragma once

#include <exception>
#include <stop_token>
#include <utility>

#include "base/pacer.h"

namespace quire {

// Not derived from Error, so that a handler for errors does not catch it.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

class YieldPoint {
 public:
  // Is never cancelled.
  YieldPoint() = default;
  // Is cancelled when the token is stopped. `pacer` may be null; otherwise it outlives the yield point, and
  // check() is only called on its thread.
  explicit YieldPoint(std::stop_token stop, Pacer* pacer = nullptr) : stop_(std::move(stop)), pacer_(pacer) {}

  bool cancelled() const { return stop_.stop_requested(); }
  // Throws Cancelled if the operation is cancelled. Otherwise lets the pacer sleep.
  void check() const {
    if (cancelled()) throw Cancelled();
    if (pacer_ != nullptr) pacer_->pace();
  }

 private:
  std::stop_token stop_;
  Pacer* pacer_ = nullptr;
};

}  // namespace quire
