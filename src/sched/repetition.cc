#include "sched/repetition.h"

#include <algorithm>
#include <cstdint>

namespace quire {

bool ends_in_repetition(std::span<const TokenId> output, const RepetitionDetection& detection) {
  if (detection.max_pattern_size <= 0 || detection.min_count < 2) return false;
  const auto size = static_cast<int64_t>(output.size());
  const int64_t count = detection.min_count;
  for (int64_t pattern = std::max(1, detection.min_pattern_size); pattern <= detection.max_pattern_size;
       ++pattern) {
    if (pattern * count > size) return false;
    // Copies of a pattern: each token is equal to the one a pattern before it.
    const std::span<const TokenId> copies = output.last(static_cast<size_t>(pattern * count));
    const std::span<const TokenId> later = copies.subspan(static_cast<size_t>(pattern));
    // From the end, where outputs that do not repeat themselves differ soon.
    if (std::equal(later.rbegin(), later.rend(), copies.rbegin() + pattern)) return true;
  }
  return false;
}

}  // namespace quire
