#include "nn/alibi.h"

#include <bit>
#include <cmath>

namespace quire {

std::vector<float> alibi_slopes(int32_t num_heads, double max_bias, double scale) {
  const auto heads = static_cast<uint32_t>(num_heads);
  const uint32_t power = std::bit_floor(heads);
  std::vector<float> slopes;
  const auto add = [&](uint32_t i, uint32_t of) {
    slopes.push_back(static_cast<float>(scale * std::exp2(-max_bias * i / of)));
  };
  for (uint32_t i = 1; i <= power; ++i) add(i, power);
  for (uint32_t i = 1; slopes.size() < heads; i += 2) add(i, 2 * power);
  return slopes;
}

}  // namespace quire
