// Token masks: one walk over the trie of the vocabulary per state. Masks that took long are kept, because
// outputs return to the same states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/masks_cache.h"
#include "grammar/parser.h"
#include "grammar/token_table.h"

namespace quire::grammar {

inline void set_bit(std::span<uint32_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (static_cast<size_t>(token) % 32);
}
inline void clear_bit(std::span<uint32_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 32] &= ~(uint32_t{1} << (static_cast<size_t>(token) % 32));
}

// Computes one mask. Used by one thread, for one configuration.
class MaskWalk {
 public:
  // mask [ceil(vocab_size / 32)], all bits clear.
  MaskWalk(Parser& parser, const TokenTable& tokens, std::span<uint32_t> mask)
      : parser_(parser), tokens_(tokens), mask_(mask) {}

  // Sets the bits of the tokens that are text.
  void run(const Configuration& configuration);
  // Steps, about as many as nodes of the trie that were visited, which stand for time.
  size_t visited() const { return visited_; }

 private:
  void walk(const Configuration& configuration, size_t begin, size_t end);
  void walk_threads(const Configuration& configuration, size_t begin, size_t end);
  void walk_thread(Thread thread, size_t begin, size_t end);
  void add_lexeme(const Thread& thread);
  void add_exits(const LexemeMask& lexeme, const Configuration& after, uint32_t min, uint32_t max);
  void add_many_exits(const LexemeMask& lexeme, const Configuration& after, uint32_t min, uint32_t max);
  void allow(const TokenTable::Node& node);
  Configuration& level(size_t depth);

  Parser& parser_;
  const TokenTable& tokens_;
  std::span<uint32_t> mask_;
  size_t visited_ = 0;
  std::vector<std::unique_ptr<Configuration>> levels_;  // [depth]
  Configuration single_;
  std::vector<std::pair<int32_t, uint32_t>> states_;  // [depth] state and count of a single thread
};

// Computes the shared masks that the lexemes of a grammar are likely to need, so that no step waits for them.
// A few walks over the vocabulary at most.
void prepare_lexeme_masks(const CompiledGrammar& grammar, const TokenTable& tokens);

}  // namespace quire::grammar
