#include "text/tokenizer/byte_trie.h"

#include <algorithm>

namespace quire::tokenizer {

// Finds a base for which the cells of all labels are free. Checks a bounded number of positions, so that
// building is linear.
uint32_t ByteTrie::place(const std::vector<uint8_t>& labels, uint32_t& first_free) {
  constexpr int kPlaces = 64;
  const auto is_free = [this](size_t cell) { return cell >= cells_.size() || cells_[cell].parent == kNone; };
  while (first_free < cells_.size() && !is_free(first_free)) ++first_free;
  uint32_t cell = std::max(first_free, static_cast<uint32_t>(labels.front()) + 1);
  for (int tried = 0; tried < kPlaces; ++cell) {
    if (!is_free(cell)) continue;
    ++tried;
    const uint32_t base = cell - labels.front();
    if (std::all_of(labels.begin(), labels.end(), [&](uint8_t label) { return is_free(base + label); }))
      return base;
  }
  // This region is crowded: its remaining holes are not checked again.
  first_free = std::max(first_free, cell > 4096 ? cell - 4096 : 0);
  return static_cast<uint32_t>(cells_.size());
}

void ByteTrie::build(std::vector<std::pair<std::string_view, int32_t>>& keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  cells_.assign(kMargin, Cell{});
  cells_[kRoot].parent = kRoot;
  cells_[kRoot].base = 1;
  struct Span {
    Node node;
    size_t begin, end, depth;
  };
  std::vector<Span> queue = {{kRoot, 0, keys.size(), 0}};
  std::vector<uint8_t> labels;
  std::vector<size_t> starts;
  uint32_t first_free = 1;
  for (size_t q = 0; q < queue.size(); ++q) {
    Span span = queue[q];
    while (span.begin < span.end && keys[span.begin].first.size() == span.depth) {
      if (span.depth > 0) cells_[span.node].value = keys[span.begin].second;
      ++span.begin;
    }
    if (span.begin == span.end) {
      cells_[span.node].base = 0;
      continue;
    }
    labels.clear();
    starts.clear();
    for (size_t i = span.begin; i < span.end; ++i) {
      const auto label = static_cast<uint8_t>(keys[i].first[span.depth]);
      if (labels.empty() || labels.back() != label) {
        labels.push_back(label);
        starts.push_back(i);
      }
    }
    starts.push_back(span.end);
    const uint32_t base = place(labels, first_free);
    if (cells_.size() < base + kMargin) cells_.resize(base + kMargin);
    cells_[span.node].base = base;
    for (size_t k = 0; k < labels.size(); ++k) {
      const Node child = base + labels[k];
      cells_[child].parent = span.node;
      queue.push_back({child, starts[k], starts[k + 1], span.depth + 1});
    }
  }
  cells_.shrink_to_fit();
}

}  // namespace quire::tokenizer
