// Settings of long tests that are run by hand, from environment variables.
#pragma once

#include <cstdlib>

namespace quire::test {

// The variable's number, or `fallback` if it is not set.
inline double number_of(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atof(text);
}

}  // namespace quire::test
