// What stops a rendering. Thrown inside the engine only; ChatTemplate::render turns it into a Failure.
#pragma once

#include <string>
#include <utility>

namespace quire::jinja {

enum class ErrorClass {
  kRaised,     // the template called raise_exception
  kUndefined,  // an undefined value was used
  kType,
  kValue,     // a value of the right type that does not fit (Python's ValueError, LookupError, ...)
  kSecurity,  // what the sandbox forbids
  kRuntime,
  kLimit,  // the template asks for too much time, memory or depth
};

struct RenderError {
  ErrorClass kind = ErrorClass::kRuntime;
  std::string message;
  int line = 0;  // of the template, 0: not yet known
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
