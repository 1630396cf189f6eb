// Turns goals into rules and lexemes. Used by one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_number.h"
#include "grammar/json_text.h"
#include "grammar/limits.h"
#include "grammar/schema_meaning.h"

namespace quire::grammar {

class SchemaEmitter {
 public:
  SchemaEmitter(SchemaMeaning& meaning, Grammar& grammar, JsonSpacing spacing, NumberSpelling numbers,
                const Limits& limits);

  // The symbol of all values that satisfy the goal. A failure is in the meaning. Alternatives that derive
  // nothing remain; remove_empty() takes them out.
  Symbol emit(const Goal& goal);
  // Whether the rule derives a sentence, after all alternatives that derive none were removed from the rules
  // that this emitter added.
  bool remove_empty(Symbol symbol);

 private:
  // A part of an object with keys that the schema does not name.
  struct FurtherKeys {
    Symbol key;
    Goal value;
    std::vector<bool> in_some;  // [object.some]
  };
  struct ObjectPlan;
  struct ArrayPlan;

  Symbol value(const Goal& goal);
  Symbol lexeme(const Regular& regular);
  Symbol rule(const char* name);
  // Invalid as soon as a rule is added.
  std::vector<std::vector<Symbol>>& alternatives(Symbol symbol);
  void define(const Goal& goal, Symbol symbol);
  std::optional<Symbol> object(const ObjectCase& object);
  std::optional<Symbol> array(const ArrayCase& array);
  std::optional<Symbol> unique_array(const ArrayCase& array);
  void define_keys(ObjectPlan& plan, size_t member, uint64_t count, uint32_t found, Symbol symbol);
  void define_items(ArrayPlan& plan, size_t position, const std::vector<uint64_t>& counts, Symbol symbol);
  std::vector<FurtherKeys> further_keys(const ObjectCase& object);
  // Adds an alternative unless the rule has it.
  void add(Symbol rule, std::vector<Symbol> symbols);
  // The values of a goal as lexemes, if they are few scalars.
  std::optional<std::vector<Regular>> few_values(const Goal& goal);
  void refuse(std::string_view keyword, std::string reason);

  SchemaMeaning* meaning_;
  Grammar* grammar_;
  NumberSpelling numbers_;
  Limits limits_;
  size_t first_rule_;
  Regular open_object_, close_object_, empty_object_, open_array_, close_array_, empty_array_, comma_, colon_;
  std::map<Goal, Symbol> values_;
  std::vector<std::pair<Goal, Symbol>> pending_;
  std::unordered_map<const RegularNode*, Symbol> lexemes_;
  SchemaId at_ = kTrueSchema;  // for refusals
};

}  // namespace quire::grammar
