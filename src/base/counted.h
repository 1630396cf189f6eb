// Numbers of things in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace quire {

// "1 request", "2 requests".
inline std::string counted(int64_t count, std::string_view noun) {
  return cat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace quire
