// The exception that the library throws.
#pragma once

#include <stdexcept>

namespace quire {

// what() names the place, what was wrong there, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace quire
