#include "text/tokenizer/byte_trie.h"

#include <algorithm>
#include <utility>

namespace quire::tokenizer {

// The free cells while a trie is built. All cells after the last taken one are free.
class ByteTrie::FreeCells {
 public:
  uint32_t first_from(uint32_t cell) {
    uint32_t free = cell;
    while (free < next_.size() && next_[free] != free) free = next_[free];
    // Later searches skip the taken cells that this one passed.
    while (cell < next_.size() && next_[cell] != cell) cell = std::exchange(next_[cell], free);
    return free;
  }
  bool is_free(uint32_t cell) const { return cell >= next_.size() || next_[cell] == cell; }
  void take(uint32_t cell) {
    for (auto i = static_cast<uint32_t>(next_.size()); i <= cell; ++i) next_.push_back(i);
    next_[cell] = cell + 1;
  }

  uint32_t begin = 1;  // cells before this one are not used any more

 private:
  std::vector<uint32_t>
      next_;  // a free cell points to itself, a taken one to a later cell at or before the next free one
};

// Finds a base for which the cells of all labels are free. Checks a bounded number of positions, so that
// building is linear.
uint32_t ByteTrie::place(const std::vector<uint8_t>& labels, FreeCells& free) const {
  constexpr int kPlaces = 64;
  uint32_t cell = free.first_from(std::max(free.begin, static_cast<uint32_t>(labels.front()) + 1));
  for (int tried = 0; tried < kPlaces; ++tried) {
    const uint32_t base = cell - labels.front();
    if (std::ranges::all_of(labels, [&](uint8_t label) { return free.is_free(base + label); })) return base;
    cell = free.first_from(cell + 1);
  }
  // This region is crowded: its remaining holes are not checked again.
  free.begin = std::max(free.begin, cell > 4096 ? cell - 4096 : 0);
  return static_cast<uint32_t>(cells_.size());
}

void ByteTrie::build(std::vector<std::pair<std::string_view, int32_t>>& keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  longest_key_ = 0;
  for (const auto& [key, value] : keys) longest_key_ = std::max(longest_key_, key.size());
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
  FreeCells free;
  free.take(kRoot);
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
    const uint32_t base = place(labels, free);
    if (cells_.size() < base + kMargin) cells_.resize(base + kMargin);
    cells_[span.node].base = base;
    for (size_t k = 0; k < labels.size(); ++k) {
      const Node child = base + labels[k];
      cells_[child].parent = span.node;
      free.take(child);
      queue.push_back({child, starts[k], starts[k + 1], span.depth + 1});
    }
  }
  cells_.shrink_to_fit();
}

}  // namespace quire::tokenizer
