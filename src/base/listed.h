// Lists of names in messages.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "base/strings.h"

namespace quire {

// "a, b, c", or "a, b and 3 more" if there are more than `max_names`.
inline std::string listed(std::span<const std::string> names, size_t max_names = 10) {
  std::string out;
  for (size_t i = 0; i < std::min(max_names, names.size()); ++i) out += cat(i == 0 ? "" : ", ", names[i]);
  return names.size() <= max_names ? out : cat(out, " and ", names.size() - max_names, " more");
}

}  // namespace quire
