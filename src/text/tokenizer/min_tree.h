// The smallest of many values that change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace quire::tokenizer {

// A tree whose leaves are the values; each other node is the minimum of its kFanOut children. Needs 4.3 bytes
// per value. Used by one thread.
class MinTree {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Makes a tree of n values, all kNone. Fill them with `leaf`, then call build().
  void reset(size_t n) {
    begins_.clear();
    size_t nodes = 0;
    for (size_t count = std::max<size_t>(n, 1);; count = count / kFanOut) {
      count = (count + kFanOut - 1) / kFanOut * kFanOut;
      begins_.push_back(nodes);
      nodes += count;
      if (count == kFanOut) break;
    }
    nodes_.assign(nodes, kNone);
  }
  uint32_t& leaf(size_t i) { return nodes_[i]; }
  void build() {
    for (size_t level = 0; level + 1 < begins_.size(); ++level) {
      const size_t blocks = (begins_[level + 1] - begins_[level]) / kFanOut;
      for (size_t b = 0; b < blocks; ++b) nodes_[begins_[level + 1] + b] = block_min(begins_[level], b);
    }
  }

  void set(size_t i, uint32_t value) {
    nodes_[i] = value;
    for (size_t level = 0; level + 1 < begins_.size(); ++level) {
      i /= kFanOut;
      uint32_t& parent = nodes_[begins_[level + 1] + i];
      const uint32_t smallest = block_min(begins_[level], i);
      if (parent == smallest) return;
      parent = smallest;
    }
  }

  // The smallest value and the first position that has it.
  struct First {
    uint32_t value;
    size_t position;
  };
  First first() const {
    const uint32_t smallest = block_min(begins_.back(), 0);
    size_t i = 0;
    for (size_t level = begins_.size(); level-- > 0;) {
      i *= kFanOut;
      while (nodes_[begins_[level] + i] != smallest) ++i;
    }
    return {smallest, i};
  }

  // Releases the memory of a large tree.
  void trim(size_t max_nodes) {
    if (nodes_.capacity() > max_nodes) std::vector<uint32_t>().swap(nodes_);
  }

 private:
  static constexpr size_t kFanOut = 16;

  uint32_t block_min(size_t begin, size_t block) const {
    const uint32_t* values = nodes_.data() + begin + block * kFanOut;
    uint32_t smallest = values[0];
    for (size_t i = 1; i < kFanOut; ++i) smallest = std::min(smallest, values[i]);
    return smallest;
  }

  std::vector<uint32_t> nodes_;  // the leaves, then each level above them, padded to whole blocks
  std::vector<size_t> begins_;   // where each level begins
};

}  // namespace quire::tokenizer
