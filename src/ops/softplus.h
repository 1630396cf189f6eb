// softplus(x) = ln(1 + e^x), shared by gates and weight loading.
#pragma once

#include <algorithm>
#include <cmath>

namespace quire {

// Without overflow: max(x, 0) + ln(1 + e^-|x|).
inline float softplus(float x) {
  return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace quire
