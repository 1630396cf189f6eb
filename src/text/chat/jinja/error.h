// The exception that ends a rendering. It does not leave the template engine: ChatTemplate::render converts
// it to a Failure.
#pragma once

#include <string>
#include <utility>

namespace quire::jinja {

enum class ErrorClass {
  kRaised,     // the template called raise_exception
  kUndefined,  // an undefined value was used
  kType,
  kValue,     // the type is right but the value is not (Python's ValueError, LookupError, ...)
  kSecurity,  // an operation that the sandbox forbids
  kRuntime,
  kLimit,      // the template exceeds a limit on time, memory or depth
  kCancelled,  // the caller cancelled the rendering
};

// Errors that always end the rendering, even if the template could ignore an error.
inline bool ends_rendering(ErrorClass kind) {
  return kind == ErrorClass::kLimit || kind == ErrorClass::kCancelled;
}

struct RenderError {
  ErrorClass kind = ErrorClass::kRuntime;
  std::string message;
  int line = 0;  // line of the template; 0 = not known yet
};

[[noreturn]] inline void fail(ErrorClass kind, std::string message) {
  throw RenderError{kind, std::move(message), 0};
}
[[noreturn]] inline void fail_type(std::string message) {
  fail(ErrorClass::kType, std::move(message));
}
[[noreturn]] inline void fail_value(std::string message) {
  fail(ErrorClass::kValue, std::move(message));
}

}  // namespace quire::jinja
