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

  // Keys with values >= 0. If keys are equal, the last one is used. Empty keys are ignored. Sorts `keys`.
  void build(std::vector<std::pair<std::string_view, int32_t>>& keys);

  // Follows one byte. Returns false, with the node unchanged, if no key continues with it.
  bool step(Node& node, uint8_t byte) const {
    const Node child = cells_[node].base + byte;
    if (cells_[child].parent != node) return false;
    node = child;
    return true;
  }
  int32_t value(Node node) const { return cells_[node].value; }
  // Follows all bytes of a string; returns false if no key continues with them.
  bool walk(Node& node, std::string_view bytes) const {
    for (const char c : bytes) {
      if (!step(node, static_cast<uint8_t>(c))) return false;
    }
    return true;
  }
  size_t longest_key() const { return longest_key_; }  // in bytes
  bool empty() const { return cells_.size() <= kMargin; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr size_t kMargin = 257;  // free cells after the last base; step() needs no bounds check
  struct Cell {
    uint32_t base = 0;
    uint32_t parent = kNone;
    int32_t value = kNoValue;
  };
  class FreeCells;
  uint32_t place(const std::vector<uint8_t>& labels, FreeCells& free) const;

  size_t longest_key_ = 0;
  std::vector<Cell> cells_ = std::vector<Cell>(kMargin);
};

}  // namespace quire::tokenizer
