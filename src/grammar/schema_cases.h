// Conditions of schemas on objects and on arrays, as a union of cases; each case is a conjunction of simple
// conditions. Children are goals: sets of schemas that a value must satisfy. Plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "grammar/regular.h"
#include "grammar/schema_index.h"

namespace quire::grammar {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// Keys: one, or those whose content is in a language.
struct KeySet {
  std::optional<std::string> name;
  Regular language = nothing();  // without a name

  bool operator==(const KeySet&) const = default;
};

struct ObjectCase {
  struct Member {
    std::string name;
    Goal value;
    bool required = false;
    bool operator==(const Member&) const = default;
  };
  // All keys in a language, or at least one of them, have a value that satisfies a goal.
  struct Keys {
    Regular language = nothing();
    std::vector<std::string> except;  // sorted: keys that do not belong to it; all of them are members
    Goal value;
    bool operator==(const Keys&) const = default;
  };
  std::vector<Member> members;  // in the order of the schema
  std::vector<Keys> all;
  std::vector<Keys> some;
  uint64_t min = 0;
  uint64_t max = kNoLimit;
  // Keys that `unevaluatedProperties` does not see.
  bool evaluates_all = false;
  std::vector<KeySet> evaluated;

  bool operator==(const ObjectCase&) const = default;
  Member& member(const std::string& name);
};

struct ArrayCase {
  // The number of items from position `from` that satisfy a goal.
  struct Count {
    uint64_t from = 0;
    Goal value;
    uint64_t min = 1;
    uint64_t max = kNoLimit;
    bool operator==(const Count&) const = default;
  };
  std::vector<Goal> prefix;  // goals of the first items, if present
  Goal rest;
  uint64_t min = 0;
  uint64_t max = kNoLimit;
  std::vector<Count> counts;
  bool unique = false;
  // Items that `unevaluatedItems` does not see: the first ones, and those that satisfy a goal.
  uint64_t evaluated_prefix = 0;
  bool evaluates_all = false;
  std::vector<Goal> evaluated;

  bool operator==(const ArrayCase&) const = default;
  // Gives the first `size` items a goal of their own.
  void extend_prefix(size_t size);
};

// Both conditions.
ObjectCase both(const ObjectCase& a, const ObjectCase& b);
ArrayCase both(const ArrayCase& a, const ArrayCase& b);
// Whether a case has no conditions.
bool is_any(const ObjectCase& value);
bool is_any(const ArrayCase& value);
// A measure of what combining the case costs.
size_t size_of(const ObjectCase& value);
size_t size_of(const ArrayCase& value);

}  // namespace quire::grammar
