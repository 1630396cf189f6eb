// The meaning of schemas: the scalars that satisfy them, and the cases of objects and arrays. Works on demand
// and remembers every answer, so that recursion stays with the goals of children. The first keyword that
// cannot be enforced ends the translation: all answers after that are without value. Used by one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/json_number.h"
#include "grammar/language_queries.h"
#include "grammar/limits.h"
#include "grammar/schema_cases.h"
#include "grammar/schema_index.h"

namespace quire::grammar {

struct Scalars {
  bool null = false;
  bool yes = false;
  bool no = false;
  NumberSet numbers;
  Regular strings = nothing();  // their contents
};
Scalars all_scalars();
Scalars unite(const Scalars& a, const Scalars& b);
Scalars intersect(const Scalars& a, const Scalars& b);
Scalars complement(const Scalars& set);

struct SchemaRefusal {
  std::string pointer;
  std::string reason;
};

class SchemaMeaning {
 public:
  SchemaMeaning(SchemaIndex& index, const Limits& limits);

  Scalars scalars(const Goal& goal);
  // The values that satisfy a goal are those of any of its cases.
  const std::vector<ObjectCase>& objects(const Goal& goal) { return goal_cases<ObjectCase>(goal); }
  const std::vector<ArrayCase>& arrays(const Goal& goal) { return goal_cases<ArrayCase>(goal); }
  // Whether certainly no value satisfies the goal.
  bool is_empty(const Goal& goal);
  // Whether a key belongs to the keys of a condition.
  bool contains(const ObjectCase::Keys& keys, const std::string& name);
  // The goal of a member's value, with all conditions on its key.
  Goal member_goal(const ObjectCase& object, const ObjectCase::Member& member);
  // The goal of all other values.
  Goal opposite(const Goal& goal);

  bool failed() const { return refusal_.has_value(); }
  const std::optional<SchemaRefusal>& refusal() const { return refusal_; }
  void refuse(SchemaId schema, std::string_view keyword, std::string reason);
  // Counts steps of work; refuses the schema if they are too many.
  void spend(SchemaId schema, size_t steps);
  LanguageQueries& queries() { return queries_; }
  const SchemaIndex& index() const { return *index_; }
  // Whether the meaning of this schema was asked for.
  bool was_used(SchemaId schema) const { return used_.contains(schema); }

 private:
  template <typename Case>
  using Cases = std::vector<Case>;
  // Knowledge of the keys and items that an answer evaluates.
  enum class Tracking : uint8_t { kNone, kEvaluated, kExact };
  template <typename Case>
  struct CaseMemo {
    struct Entry {
      Cases<Case> cases;
      bool done = false;
      int probe_level = 0;  // level at which the answer was begun
    };
    std::map<uint64_t, std::unique_ptr<Entry>> by_schema;
    std::map<Goal, std::unique_ptr<Cases<Case>>> by_goal;
  };
  template <typename Case>
  CaseMemo<Case>& memo();

  // schema_scalars.cc
  const Scalars& scalars(SchemaId id);
  Scalars compute_scalars(SchemaId id);
  Scalars keyword_scalars(SchemaId id, const std::string& name, const SchemaJson& value);
  Scalars combined_scalars(SchemaId id, const std::string& name, const SchemaJson& value);
  Scalars constant_scalars(SchemaId id, const SchemaJson& values);
  std::optional<Decimal> decimal(SchemaId id, std::string_view keyword, const SchemaJson& value);

  // schema_meaning.cc
  template <typename Case>
  const Cases<Case>& goal_cases(const Goal& goal);
  template <typename Case>
  const Cases<Case>& cases(SchemaId id, bool positive, Tracking tracking);
  template <typename Case>
  Cases<Case> compute_cases(SchemaId id, bool positive, Tracking tracking);
  template <typename Case>
  Cases<Case> positive_cases(SchemaId id, const SchemaJson& json, Tracking tracking);
  template <typename Case>
  Cases<Case> negative_cases(SchemaId id, const SchemaJson& json);
  template <typename Case>
  Cases<Case> reference_cases(SchemaId id, const std::string& name, const SchemaJson& value, bool positive,
                              Tracking tracking);
  template <typename Case>
  Cases<Case> combined_cases(SchemaId id, const std::string& name, const SchemaJson& value, bool positive,
                             Tracking tracking);
  template <typename Case>
  Cases<Case> any_cases(SchemaId id, const SchemaJson& schemas, Tracking tracking);
  template <typename Case>
  Cases<Case> one_cases(SchemaId id, const SchemaJson& schemas, bool positive, Tracking tracking);
  template <typename Case>
  Cases<Case> if_cases(SchemaId id, const SchemaJson& json, bool positive, Tracking tracking);
  template <typename Case>
  Cases<Case> constant_cases(SchemaId id, const std::vector<const SchemaJson*>& values, bool positive);
  template <typename Case>
  Cases<Case> product(SchemaId id, std::string_view keyword, const Cases<Case>& a, const Cases<Case>& b);
  template <typename Case>
  void append(SchemaId id, std::string_view keyword, Cases<Case>& to, const Cases<Case>& from);

  // schema_children.cc: the keywords of one type, and what follows from them
  ObjectCase own_case(SchemaId id, const SchemaJson& json, const ObjectCase* type);
  ArrayCase own_case(SchemaId id, const SchemaJson& json, const ArrayCase* type);
  void add_properties(SchemaId id, const SchemaJson& json, ObjectCase& result);
  Cases<ObjectCase> dependent_cases(SchemaId id, const std::string& name, const SchemaJson& value,
                                    bool positive, Tracking tracking);
  ObjectCase constant_case(const SchemaJson& value, const ObjectCase* type);
  ArrayCase constant_case(const SchemaJson& value, const ArrayCase* type);
  std::optional<ObjectCase> unevaluated(SchemaId id, const SchemaJson& json, const ObjectCase& object);
  std::optional<ArrayCase> unevaluated(SchemaId id, const SchemaJson& json, const ArrayCase& array);
  Cases<ObjectCase> opposite_cases(const ObjectCase& object);
  Cases<ArrayCase> opposite_cases(const ArrayCase& array);
  bool is_impossible(const ObjectCase& object);
  bool is_impossible(const ArrayCase& array);

  Goal goal_of(SchemaId id, std::string_view keyword, const SchemaJson& json);
  SchemaId child_id(SchemaId id, std::string_view keyword, const SchemaJson& json);
  // The number of a keyword like minItems; `otherwise` if it is absent.
  uint64_t count_of(SchemaId id, const SchemaJson& json, const char* keyword, uint64_t otherwise);
  Regular pattern(SchemaId id, std::string_view keyword, const std::string& text);
  std::optional<SchemaId> target_of(SchemaId id, const std::string& keyword, const SchemaJson& reference);

  SchemaIndex* index_;
  LanguageQueries queries_;
  std::optional<SchemaRefusal> refusal_;
  size_t steps_ = 0;
  Progress progress_;
  int depth_ = 0;
  // Emptiness is asked while answers are in progress. A question that needs such an answer is given up.
  int probe_level_ = 0;
  bool probe_given_up_ = false;
  std::unordered_map<SchemaId, Scalars> scalars_;
  std::unordered_map<SchemaId, bool> used_;
  std::vector<SchemaId> scalars_in_progress_;
  CaseMemo<ObjectCase> object_memo_;
  CaseMemo<ArrayCase> array_memo_;
  std::map<Goal, bool> empty_;
  std::map<std::string, Regular> patterns_;
  std::map<std::pair<const RegularNode*, std::string>, bool> contained_;
};

// The content language of a known format; nothing if the format is not known or not enforced.
std::optional<Regular> format_content(std::string_view name);

}  // namespace quire::grammar
