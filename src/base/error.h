// Error handling. While loading (files, models, templates, configuration), functions throw quire::Error.
// On the request path they return Result<T>: no invalid request causes an exception on the engine thread.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "quire/error.h"

namespace quire {

// Reason why a request failed. The server maps each kind to one HTTP status.
enum class ErrorKind {
  kInvalidArgument,  // 400: a field is wrong
  kContextLength,    // 400: prompt and output do not fit into the model's context
  kNotFound,         // 404: no such model or route
  kUnauthorized,     // 401
  kTooLarge,         // 413: the body exceeds the server's limit
  kUnsupported,      // 400: valid, but not supported by this build or model
  kOverloaded,       // 503: the queue is full, or the server is shutting down
  kInternal,         // 500: the engine failed, ran out of memory, or computed NaN
};

// A request-time failure: plain data, cheap to move between threads.
struct Failure {
  ErrorKind kind = ErrorKind::kInvalidArgument;
  std::string message;  // a complete sentence
  std::string param;    // the invalid request field; empty if no single field is
};

// Either a value or a Failure. value() may be called only when ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  // NOLINTNEXTLINE: implicit on purpose
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

// Success or a Failure, for functions with nothing to return.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Failure failure) : failure_(std::move(failure)), ok_(false) {}  // NOLINT: implicit on purpose

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
  bool ok_ = true;
};

inline Failure invalid_argument(std::string message, std::string param = {}) {
  return {ErrorKind::kInvalidArgument, std::move(message), std::move(param)};
}

}  // namespace quire
