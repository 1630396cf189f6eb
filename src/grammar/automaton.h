// Deterministic automata of regular languages, and questions about such languages that front ends ask.
// Automata are built completely while a constraint is compiled, so masks never fail for their size, and
// threads share them without locks. They are trimmed: from every state an accepted string can be reached.
// A large counted repetition is not unrolled but counted (`"[^"]{0,4096}"` has three states), if the end of
// each repetition is certain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/automaton_expressions.h"
#include "grammar/limits.h"
#include "grammar/regular.h"

namespace quire::grammar {

// 128 bits, equal for equal contents.
struct ContentHash {
  uint64_t low = 0x243F6A8885A308D3u;
  uint64_t high = 0x13198A2E03707344u;
  bool operator==(const ContentHash&) const = default;
  bool operator<(const ContentHash& other) const {
    return low != other.low ? low < other.low : high < other.high;
  }
  void add(uint64_t value);
  void add(const ContentHash& other) {
    add(other.low);
    add(other.high);
  }
};
struct HashOfContentHash {
  size_t operator()(const ContentHash& hash) const { return static_cast<size_t>(hash.low); }
};

// Immutable. The language is A, then min to max repetitions of X, then B; without a counter the language is
// what the states accept.
class Automaton {
 public:
  static constexpr int32_t kDead = -1;

  struct Counter {
    int32_t loop = -1;  // the state between two repetitions; -1 = nothing is counted
    uint32_t min = 0;
    uint32_t max = 0;  // RegularNode::kUnlimited = without limit
  };

  // kDead: the language is empty.
  int32_t start() const { return start_; }
  // The state after a byte, without regard to the counter; kDead if nothing can follow.
  int32_t next(int32_t state, uint8_t byte) const {
    return table_[static_cast<size_t>(state) * num_classes_ + class_of_[byte]];
  }
  bool accepting(int32_t state) const { return (flags_[static_cast<size_t>(state)] & kAccepting) != 0; }
  // Whether a byte can follow.
  bool extendable(int32_t state) const { return (flags_[static_cast<size_t>(state)] & kExtendable) != 0; }
  const Counter& counter() const { return counter_; }
  bool counts() const { return counter_.loop >= 0; }
  // The only byte that can follow; kSeveral if there are several (without regard to the counter), -1 if there
  // is none.
  static constexpr int16_t kSeveral = 256;
  int only_byte(int32_t state) const { return only_bytes_[static_cast<size_t>(state)]; }
  // Whether the state belongs to an unfinished repetition (the loop itself does not).
  bool repeating(int32_t state) const { return (flags_[static_cast<size_t>(state)] & kRepeating) != 0; }
  // Whether the state comes after the last repetition.
  bool after_loop(int32_t state) const { return (flags_[static_cast<size_t>(state)] & kAfterLoop) != 0; }

  // next() with the counter: `count` is the number of finished repetitions and is updated. With an unlimited
  // max it stops at min.
  int32_t advance(int32_t state, uint8_t byte, uint32_t* count) const;
  bool accepts(int32_t state, uint32_t count) const {
    return accepting(state) && (state != counter_.loop || count >= counter_.min);
  }
  // Whether a byte can follow, with the counter.
  bool continues(int32_t state, uint32_t count) const;
  bool nullable() const { return start_ != kDead && accepts(start_, 0); }

  // Equal for automata with the same states and transitions. The limits of the counter do not matter.
  const ContentHash& hash() const { return hash_; }
  size_t num_states() const { return flags_.size(); }
  size_t memory() const;

 private:
  friend class AutomatonBuilder;
  static constexpr uint8_t kAccepting = 1, kExtendable = 2, kRepeating = 4, kAfterLoop = 8;

  int32_t start_ = kDead;
  size_t num_classes_ = 1;
  std::array<uint8_t, 256> class_of_{};
  std::vector<int32_t> table_;       // [states, classes]
  std::vector<uint8_t> flags_;       // [states]
  std::vector<int16_t> only_bytes_;  // [states]
  Counter counter_;
  ContentHash hash_;
};

// The automaton of an expression, without a counter.
// Fails if it is too large or the budget is spent.
Result<Automaton> build_automaton(Expressions& expressions, ExpressionId expression, Budget& budget);

// An expression as head, then `part` min to max times, then tail.
struct CountedExpression {
  ExpressionId head = Expressions::kEmpty;
  ExpressionId part = Expressions::kEmpty;
  uint32_t min = 0;
  uint32_t max = 0;
  ExpressionId tail = Expressions::kEmpty;
};
// The automaton with a counter. An automaton without states if the boundaries of repetitions are ambiguous;
// then the expression has to be unrolled.
Result<Automaton> build_counted_automaton(Expressions& expressions, const CountedExpression& counted,
                                          Budget& budget);

// Whether the language has no string.
Result<bool> is_empty(const Regular& regular, const Limits& limits = {});
// Whether a string belongs to both languages.
Result<bool> have_common_string(const Regular& a, const Regular& b, const Limits& limits = {});
// Whether the language has this string.
Result<bool> matches(const Regular& regular, std::string_view text, const Limits& limits = {});
// All strings of the language, sorted by length, then by bytes, if there are at most `max` of them.
Result<std::optional<std::vector<std::string>>> enumerate(const Regular& regular, size_t max,
                                                          const Limits& limits = {});

}  // namespace quire::grammar
