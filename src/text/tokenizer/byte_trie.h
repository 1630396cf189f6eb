// A trie over byte strings, as a double array.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::tokenizer {

// Immutable after build().
class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr int32_t kNoValue = -1;

  // Keys with values >= 0; of equal keys the last one counts. Empty keys are left out. Sorts `keys`.
  void build(std::vector<std::pair<std::string_view, int32_t>>& keys);

  // Follows one byte; false (and the node unchanged) where no key goes on.
  bool step(Node& node, uint8_t byte) const {
    const Node child = cells_[node].base + byte;
    if (cells_[child].parent != node) return false;
    node = child;
    return true;
  }
  int32_t value(Node node) const { return cells_[node].value; }
  // The node that a whole string leads to; false if there is none.
  bool walk(Node& node, std::string_view bytes) const {
    for (const char c : bytes) {
      if (!step(node, static_cast<uint8_t>(c))) return false;
    }
    return true;
  }
  bool empty() const { return cells_.size() <= kMargin; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr size_t kMargin =
      257;  // free cells behind the last base, so that step() needs no bounds check
  struct Cell {
    uint32_t base = 0;
    uint32_t parent = kNone;
    int32_t value = kNoValue;
  };
  uint32_t place(const std::vector<uint8_t>& labels, uint32_t& first_free);

  std::vector<Cell> cells_ = std::vector<Cell>(kMargin);
};

}  // namespace quire::tokenizer
