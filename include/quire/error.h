// The exception that the library throws.
#pragma once

#include <stdexcept>

namespace quire {

// The message names the location, the problem, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace quire
