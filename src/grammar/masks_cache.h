// Results of walks over the vocabulary, kept for later masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/ids.h"
#include "grammar/automaton.h"

namespace quire::grammar {

using Mask = std::vector<uint32_t>;  // bit t % 32 of element t / 32: token t is allowed

// The tokens that stay within a lexeme, from one state of its automaton, without regard to the limits of the
// counter. It depends on the automaton and the vocabulary only, so grammars share it.
struct LexemeMask {
  // Masks of the tokens that begin at most `index` repetitions, for 0 to kMaxLevel - 1, if the automaton
  // counts; the last one has all tokens.
  static constexpr uint32_t kMaxLevel = 16;
  std::vector<Mask> levels;
  struct Counted {
    TokenId token = 0;
    uint32_t repetitions = 0;  // that begin within the token
  };
  std::vector<Counted> long_tokens;  // with kMaxLevel or more repetitions
  std::vector<Counted> tail_tokens;  // that end after the last repetition; in no mask
  // Nodes of the trie where the lexeme can end and tokens continue.
  struct Exit {
    int32_t node = 0;
    uint32_t repetitions = 0;
  };
  std::vector<Exit> exits;

  size_t memory() const {
    size_t bytes = sizeof(*this) + exits.capacity() * sizeof(Exit) +
                   (long_tokens.capacity() + tail_tokens.capacity()) * sizeof(Counted);
    for (const Mask& mask : levels) bytes += mask.capacity() * sizeof(uint32_t);
    return bytes;
  }
};

// Values by content; the least recently used ones are dropped. Any thread.
template <typename Value>
class ContentCache {
 public:
  explicit ContentCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if the key is not present.
  std::shared_ptr<const Value> find(const ContentHash& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->value;
  }
  // Removes others if there is not enough space. A value that is larger than the cache is not kept.
  void insert(const ContentHash& key, std::shared_ptr<const Value> value, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > max_bytes_ || entries_.contains(key)) return;
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      bytes_ -= order_.back().bytes;
      entries_.erase(order_.back().key);
      order_.pop_back();
    }
    order_.push_front({key, std::move(value), bytes});
    entries_.emplace(key, order_.begin());
  }
  size_t memory() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    ContentHash key;
    std::shared_ptr<const Value> value;
    size_t bytes = 0;
  };
  size_t max_bytes_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  std::list<Entry> order_;  // last used first
  std::unordered_map<ContentHash, typename std::list<Entry>::iterator, HashOfContentHash> entries_;
};

}  // namespace quire::grammar
