// Regular expressions for building automata: equal expressions have equal ids, and derivatives give the
// states. The derivative of a language by a byte is what may follow that byte. Used by one thread while a
// constraint is compiled, then dropped.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/limits.h"
#include "grammar/regular.h"

namespace quire::grammar {

// The remaining cost that compiling may have. Shared by all lexemes of a grammar.
class Budget {
 public:
  explicit Budget(const Limits& limits)
      : limits_(limits), steps_(limits.steps), states_(limits.states), progress_(limits.on_progress) {}

  // False as soon as too much is spent; stays false.
  bool spend_steps(size_t count) {
    progress_.add(count);
    steps_ -= count < steps_ ? count : steps_;
    return steps_ > 0;
  }
  bool spend_state() {
    if (states_ > 0) --states_;
    return states_ > 0;
  }
  // Bytes of expressions and tables.
  bool spend_memory(size_t bytes) {
    memory_ += bytes;
    return memory_ <= limits_.memory_bytes;
  }
  bool has_steps() const { return steps_ > 0; }
  bool has_memory() const { return memory_ <= limits_.memory_bytes; }
  void free_memory(size_t bytes) { memory_ -= bytes; }
  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
  size_t steps_;
  size_t states_;
  size_t memory_ = 0;
  Progress progress_;
};

using ExpressionId = int32_t;

// A partition of the bytes: those of one class occur in the same sets of an expression.
struct ByteClasses {
  std::array<uint8_t, 256> of{};
  std::vector<uint8_t> example;  // [classes] a byte of each class
  size_t size() const { return example.size(); }
};

// A map from 64-bit keys to ids with open addressing.
class IdMap {
 public:
  // The place of a key; `*found` tells whether it was there before. Invalid after the next call.
  int32_t& at(uint64_t key, bool* found);
  void clear();
  size_t memory() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t value = 0;
    bool used = false;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

class Expressions {
 public:
  static constexpr ExpressionId kNothing = 0;
  static constexpr ExpressionId kEmpty = 1;
  static constexpr ExpressionId kAll = 2;  // every byte string

  using Kind = RegularNode::Kind;
  struct Node {
    Kind kind = Kind::kNothing;
    bool nullable = false;
    bool has_string = false;  // certainly not the empty language; false: unknown
    int32_t first = 0;        // kConcat: head; kComplement, kRepeat: part; kBytes: index of the set
    int32_t second = 0;       // kConcat: tail
    uint32_t min = 0, max = 0;
    uint32_t parts_begin = 0, num_parts = 0;  // kUnion, kIntersection
    uint64_t hash = 0;
  };

  explicit Expressions(Budget& budget);

  // Results are meaningless after the budget is spent: callers ask failed() at the end.
  bool failed() const { return failed_; }

  ExpressionId add(const Regular& regular);
  const Node& node(ExpressionId id) const { return nodes_[static_cast<size_t>(id)]; }
  bool nullable(ExpressionId id) const { return node(id).nullable; }
  std::span<const ExpressionId> parts(const Node& node) const {
    return std::span(parts_).subspan(node.parts_begin, node.num_parts);
  }

  ExpressionId concat(ExpressionId head, ExpressionId tail);
  ExpressionId any_of(std::vector<ExpressionId> parts) { return any_of(std::move(parts), 0); }
  ExpressionId all_of(std::vector<ExpressionId> parts);
  ExpressionId complement(ExpressionId part);
  ExpressionId repeat(ExpressionId part, uint32_t min, uint32_t max);
  ExpressionId byte_set(const ByteSet& set);

  // The bytes of a kBytes node.
  const ByteSet& bytes_of(const Node& node) const { return sets_[static_cast<size_t>(node.first)]; }
  // Whether it is one byte set after another, each of one byte: a fixed text, which is then in `text`.
  bool is_fixed_text(ExpressionId id, std::string* text) const;
  ByteClasses classes(ExpressionId id);
  // Only these bytes exist: no string has another one. All bytes, unless it is called before classes().
  void restrict_to(const ByteSet& bytes) { available_ = bytes; }
  // Derivatives by the classes that were set last.
  void use_classes(const ByteClasses& classes);
  ExpressionId derivative(ExpressionId id, uint8_t byte_class);

 private:
  ExpressionId convert(const RegularNode* regular, int depth);
  ExpressionId convert_new(const RegularNode* regular, int depth);
  ExpressionId intern(Node node, std::span<const ExpressionId> parts = {});
  bool equal(const Node& a, std::span<const ExpressionId> parts, const Node& b) const;
  ExpressionId derive(ExpressionId id, uint8_t byte_class);
  ExpressionId derive_concat(ExpressionId id, uint8_t byte_class);
  ExpressionId any_of(std::vector<ExpressionId> parts, int depth);
  void factor_first_bytes(std::vector<ExpressionId>& parts, int depth);
  void flatten(std::vector<ExpressionId>& parts, Kind kind);
  bool spend(size_t steps) {
    if (!budget_->spend_steps(steps)) failed_ = true;
    return !failed_;
  }

  Budget* budget_;
  bool failed_ = false;
  std::vector<Node> nodes_;
  std::vector<ExpressionId> parts_;
  std::vector<ByteSet> sets_;
  std::unordered_map<ByteSet, int32_t> set_ids_;
  std::vector<int32_t> slots_;  // ids of nodes by hash; -1 = free
  std::vector<Regular> added_;  // kept alive, because the next member is keyed by address
  std::unordered_map<const RegularNode*, ExpressionId> converted_;
  std::vector<uint32_t> visits_;  // [nodes] the last call of classes() that visited a node
  uint32_t visit_ = 0;
  ByteSet available_ = ByteSet().set();
  std::vector<uint8_t> example_;
  IdMap derivatives_;
};

}  // namespace quire::grammar
