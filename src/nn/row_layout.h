// The order in which checkpoints store the rows of a tensor with several parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace quire {

// How a tensor's rows are interleaved: `groups` groups, each of parts with `sizes` rows. The model has the
// parts one after another, each with the rows of all groups, in the given order of parts.
struct RowLayout {
  int64_t groups = 1;
  std::vector<int64_t> sizes;
  std::vector<size_t> order;
};

// Calls take(first, count) for runs of stored rows, in the order in which the model has them.
template <typename Take>
void for_each_run(const RowLayout& layout, const Take& take) {
  const int64_t group_rows = std::accumulate(layout.sizes.begin(), layout.sizes.end(), int64_t{0});
  for (const size_t part : layout.order) {
    const int64_t first = std::accumulate(layout.sizes.begin(),
                                          layout.sizes.begin() + static_cast<ptrdiff_t>(part), int64_t{0});
    for (int64_t g = 0; g < layout.groups; ++g) take(g * group_rows + first, layout.sizes[part]);
  }
}

}  // namespace quire
