#include "grammar/schema_meaning.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace quire::grammar {
namespace {

constexpr size_t kMaxCombinations = 64;
constexpr size_t kMaxCases = 4096;
constexpr int kMaxReferenceDepth = 300;
constexpr int kMaxProbes = 20;

constexpr std::array<std::string_view, 10> kCombining = {
    "$ref", "$dynamicRef",      "$recursiveRef",    "allOf", "anyOf", "oneOf", "not",
    "if",   "dependentSchemas", "dependentRequired"};

bool combines(std::string_view name) {
  return name == "dependencies" || std::find(kCombining.begin(), kCombining.end(), name) != kCombining.end();
}

template <typename Case>
constexpr std::string_view kTypeName = "object";
template <>
constexpr std::string_view kTypeName<ArrayCase> = "array";
template <typename Case>
constexpr std::string_view kUnevaluated = "unevaluatedProperties";
template <>
constexpr std::string_view kUnevaluated<ArrayCase> = "unevaluatedItems";

template <typename Case>
bool is_of_type(const SchemaJson& value) {
  return std::is_same_v<Case, ObjectCase> ? value.is_object() : value.is_array();
}

template <typename Case>
bool allows_type(const SchemaJson& json) {
  const auto type = json.find("type");
  if (type == json.end()) return true;
  if (type->is_string()) return *type == kTypeName<Case>;
  return std::any_of(type->begin(), type->end(),
                     [](const SchemaJson& one) { return one == kTypeName<Case>; });
}

std::vector<const SchemaJson*> elements(const SchemaJson& array) {
  std::vector<const SchemaJson*> result;
  for (const SchemaJson& element : array) result.push_back(&element);
  return result;
}

// Only the answer about values is of interest.
template <typename Case>
void forget_evaluated(std::vector<Case>& cases) {
  for (Case& value : cases) {
    value.evaluates_all = false;
    value.evaluated.clear();
    if constexpr (std::is_same_v<Case, ArrayCase>) value.evaluated_prefix = 0;
  }
}

}  // namespace

SchemaMeaning::SchemaMeaning(SchemaIndex& index, const Limits& limits)
    : index_(&index),
      queries_([&] {
        // Most of the time is for compiling.
        Limits questions = limits;
        questions.steps /= 5;
        return questions;
      }()),
      progress_(limits.on_progress) {}

template <>
SchemaMeaning::CaseMemo<ObjectCase>& SchemaMeaning::memo<ObjectCase>() {
  return object_memo_;
}
template <>
SchemaMeaning::CaseMemo<ArrayCase>& SchemaMeaning::memo<ArrayCase>() {
  return array_memo_;
}

void SchemaMeaning::refuse(SchemaId schema, std::string_view keyword, std::string reason) {
  if (failed()) return;
  std::string pointer = index_->pointer(schema);
  if (!keyword.empty()) pointer += cat("/", keyword);
  refusal_ = SchemaRefusal{std::move(pointer), std::move(reason)};
}

void SchemaMeaning::spend(SchemaId schema, size_t steps) {
  constexpr size_t kMaxSteps = 3'000'000;
  constexpr size_t kWeightOfStep = 8;  // steps of Limits that take the same time
  steps_ += steps;
  progress_.add(kWeightOfStep * steps);
  if (steps_ > kMaxSteps || queries_.failed()) refuse(schema, "", "the schema is too complex from here on.");
}

Goal SchemaMeaning::opposite(const Goal& goal) {
  if (is_any(goal)) return no_value();
  if (is_nothing(goal)) return {};
  if (goal.size() == 1) return {{goal[0].schema, !goal[0].positive}};
  std::vector<Goal> alternatives;
  for (const Literal& literal : goal) alternatives.push_back({{literal.schema, !literal.positive}});
  return {{index_->add_any_of(std::move(alternatives)), true}};
}

// A value that all values of a schema are equal to; nullptr if the schema does not name one.
static const SchemaJson* named_constant(const SchemaNode& node) {
  if (node.kind == SchemaNode::Kind::kConstant) return node.json;
  if (node.kind != SchemaNode::Kind::kSchema || !node.json->is_object()) return nullptr;
  if (node.draft <= Draft::k7 && node.json->contains("$ref")) return nullptr;
  const auto found = node.json->find("const");
  return found == node.json->end() ? nullptr : &*found;
}

bool SchemaMeaning::is_empty(const Goal& goal) {
  if (is_any(goal) || failed() || probe_given_up_) return false;
  if (is_nothing(goal)) return true;
  // Different constants, which tell the cases of large unions apart, are common.
  const SchemaJson* constant = nullptr;
  for (const Literal& literal : goal) {
    const SchemaJson* next = literal.positive ? named_constant(index_->node(literal.schema)) : nullptr;
    if (next != nullptr && constant != nullptr && *next != *constant) return true;
    if (next != nullptr) constant = next;
  }
  if (const auto found = empty_.find(goal); found != empty_.end()) return found->second;
  if (probe_level_ >= kMaxProbes) return false;
  const bool outer = probe_given_up_;
  probe_given_up_ = false;
  ++probe_level_;
  bool empty = false;
  const Scalars values = scalars(goal);
  if (!values.null && !values.yes && !values.no && !values.numbers.all &&
      queries_.is_empty(values.numbers.spellings) && queries_.is_empty(values.strings))
    empty = arrays(goal).empty() && !probe_given_up_ && objects(goal).empty() && !probe_given_up_;
  --probe_level_;
  if (failed()) return false;
  probe_given_up_ = outer;
  return empty_[goal] = empty;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::product(SchemaId id, std::string_view keyword, const Cases<Case>& a,
                                                  const Cases<Case>& b) {
  if (a.size() == 1 && is_any(a[0]) && a[0].evaluated.empty() && !a[0].evaluates_all) {
    if constexpr (std::is_same_v<Case, ObjectCase>) return b;
  }
  Cases<Case> result;
  for (const Case& x : a) {
    for (const Case& y : b) {
      spend(id, size_of(x) + size_of(y));
      if (failed()) return {};
      Case value = both(x, y);
      if (is_impossible(value)) continue;
      if (result.size() <= kMaxCombinations && std::find(result.begin(), result.end(), value) != result.end())
        continue;
      result.push_back(std::move(value));
      if (result.size() > (a.size() > 1 && b.size() > 1 ? kMaxCombinations : kMaxCases)) {
        refuse(id, keyword, cat("more than ", kMaxCombinations, " combinations of cases."));
        return {};
      }
    }
  }
  return result;
}

template <typename Case>
void SchemaMeaning::append(SchemaId id, std::string_view keyword, Cases<Case>& to, const Cases<Case>& from) {
  for (const Case& value : from) {
    spend(id, size_of(value));
    if (failed()) return;
    if (to.size() <= kMaxCombinations && std::find(to.begin(), to.end(), value) != to.end()) continue;
    to.push_back(value);
  }
  if (to.size() > kMaxCases) refuse(id, keyword, cat("more than ", kMaxCases, " cases."));
}

template <typename Case>
const SchemaMeaning::Cases<Case>& SchemaMeaning::goal_cases(const Goal& goal) {
  static const Cases<Case> kNone;
  auto& known = memo<Case>().by_goal;
  if (const auto found = known.find(goal); found != known.end()) return *found->second;
  Cases<Case> result = {Case()};
  for (const Literal& literal : goal) {
    if (failed()) return kNone;
    const Cases<Case>& next = cases<Case>(literal.schema, literal.positive, Tracking::kNone);
    result = product(literal.schema, "", result, next);
  }
  if (failed()) return kNone;
  forget_evaluated(result);
  auto stored = std::make_unique<Cases<Case>>(std::move(result));
  if (probe_given_up_) return kNone;
  return *known.emplace(goal, std::move(stored)).first->second;
}

template <typename Case>
const SchemaMeaning::Cases<Case>& SchemaMeaning::cases(SchemaId id, bool positive, Tracking tracking) {
  static const Cases<Case> kNone;
  if (failed() || probe_given_up_) return kNone;
  const uint64_t key = static_cast<uint64_t>(id) * 8 + (positive ? 4 : 0) + static_cast<uint64_t>(tracking);
  auto& known = memo<Case>().by_schema;
  if (const auto found = known.find(key); found != known.end()) {
    if (found->second->done) return found->second->cases;
    if (found->second->probe_level < probe_level_) {
      probe_given_up_ = true;
    } else {
      refuse(id, "", "the schema refers to itself for the same value.");
    }
    return kNone;
  }
  if (depth_ > kMaxReferenceDepth) {
    refuse(id, "", "too many references lead here.");
    return kNone;
  }
  used_.emplace(id, true);
  auto* entry = known.emplace(key, std::make_unique<typename CaseMemo<Case>::Entry>()).first->second.get();
  entry->probe_level = probe_level_;
  ++depth_;
  Cases<Case> result = compute_cases<Case>(id, positive, tracking);
  --depth_;
  if (failed() || probe_given_up_) {
    known.erase(key);
    return kNone;
  }
  if (tracking == Tracking::kNone) {
    forget_evaluated(result);
    const auto any = std::find_if(result.begin(), result.end(), [](const Case& c) { return is_any(c); });
    if (any != result.end()) result = {Case()};
  }
  entry->cases = std::move(result);
  entry->done = true;
  return entry->cases;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::compute_cases(SchemaId id, bool positive, Tracking tracking) {
  const SchemaNode node = index_->node(id);
  spend(id, 1);
  if (node.kind == SchemaNode::Kind::kConstant) return constant_cases<Case>(id, {node.json}, positive);
  if (node.kind == SchemaNode::Kind::kAnyOf) {
    Cases<Case> result = positive ? Cases<Case>() : Cases<Case>{Case()};
    for (const Goal& goal : node.any_of) {
      if (positive) {
        append(id, "", result, goal_cases<Case>(goal));
      } else {
        result = product(id, "", result, goal_cases<Case>(opposite(goal)));
      }
    }
    return result;
  }
  const SchemaJson& json = *node.json;
  if (json.is_boolean()) return json.get<bool>() == positive ? Cases<Case>{Case()} : Cases<Case>();
  if (node.draft <= Draft::k7 && json.contains("$ref"))
    return reference_cases<Case>(id, "$ref", json.at("$ref"), positive, tracking);
  if (!positive) return negative_cases<Case>(id, json);
  return positive_cases<Case>(id, json, tracking);
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::positive_cases(SchemaId id, const SchemaJson& json,
                                                         Tracking tracking) {
  if (!allows_type<Case>(json)) return {};
  const bool has_unevaluated = json.contains(kUnevaluated<Case>);
  const Tracking inner = has_unevaluated ? std::max(tracking, Tracking::kEvaluated) : tracking;
  Cases<Case> result = {own_case(id, json, static_cast<const Case*>(nullptr))};
  if (is_impossible(result[0])) return {};
  for (auto member = json.begin(); member != json.end() && !failed(); ++member) {
    const std::string& name = member.key();
    if (name == "const")
      result = product(id, name, result, constant_cases<Case>(id, {&member.value()}, true));
    if (name == "enum" && member.value().is_array())
      result = product(id, name, result, constant_cases<Case>(id, elements(member.value()), true));
    if (combines(name))
      result = product(id, name, result, combined_cases<Case>(id, name, member.value(), true, inner));
  }
  if (!has_unevaluated) return result;
  Cases<Case> evaluated;
  for (const Case& value : result) {
    const auto rest = unevaluated(id, json, value);
    if (rest && !is_impossible(*rest)) evaluated.push_back(*rest);
  }
  return evaluated;
}

// A value violates a schema if it violates any of its keywords.
template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::negative_cases(SchemaId id, const SchemaJson& json) {
  if (!allows_type<Case>(json)) return {Case()};
  const bool has_unevaluated = json.contains(kUnevaluated<Case>);
  Cases<Case> result;
  append(id, "", result, opposite_cases(own_case(id, json, static_cast<const Case*>(nullptr))));
  for (auto member = json.begin(); member != json.end() && !failed(); ++member) {
    const std::string& name = member.key();
    if (name == "const") append(id, name, result, constant_cases<Case>(id, {&member.value()}, false));
    if (name == "enum" && member.value().is_array())
      append(id, name, result, constant_cases<Case>(id, elements(member.value()), false));
    if (combines(name))
      append(id, name, result, combined_cases<Case>(id, name, member.value(), false, Tracking::kNone));
  }
  if (has_unevaluated && !failed()) {
    // The same schema without the keyword, in cases that tell exactly what was evaluated.
    Cases<Case> exact = {own_case(id, json, static_cast<const Case*>(nullptr))};
    for (auto member = json.begin(); member != json.end() && !failed(); ++member) {
      if (member.key() == "const" || member.key() == "enum")
        refuse(id, kUnevaluated<Case>, "has no opposite here.");
      if (combines(member.key()))
        exact = product(id, member.key(), exact,
                        combined_cases<Case>(id, member.key(), member.value(), true, Tracking::kExact));
    }
    for (const Case& value : exact) {
      if (failed()) return {};
      if (!value.evaluated.empty() && std::is_same_v<Case, ArrayCase>)
        refuse(id, kUnevaluated<Case>, "has no opposite next to `contains`.");
      // Whatever `unevaluated` adds to an empty case, violated.
      Case seen;
      seen.evaluated = value.evaluated;
      seen.evaluates_all = value.evaluates_all;
      if constexpr (std::is_same_v<Case, ArrayCase>) seen.evaluated_prefix = value.evaluated_prefix;
      if (const auto rest = unevaluated(id, json, seen))
        append(id, kUnevaluated<Case>, result, product(id, "", {value}, opposite_cases(*rest)));
    }
  }
  Cases<Case> possible;
  for (Case& value : result) {
    if (!is_impossible(value)) possible.push_back(std::move(value));
  }
  forget_evaluated(possible);
  return possible;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::reference_cases(SchemaId id, const std::string& name,
                                                          const SchemaJson& value, bool positive,
                                                          Tracking tracking) {
  const auto target = target_of(id, name, value);
  return target ? cases<Case>(*target, positive, tracking) : Cases<Case>();
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::constant_cases(SchemaId id,
                                                         const std::vector<const SchemaJson*>& values,
                                                         bool positive) {
  Cases<Case> result = positive ? Cases<Case>() : Cases<Case>{Case()};
  for (const SchemaJson* value : values) {
    if (!is_of_type<Case>(*value)) continue;
    const Case constant = constant_case(*value, static_cast<const Case*>(nullptr));
    if (positive) {
      append(id, "enum", result, {constant});
    } else {
      result = product(id, "enum", result, opposite_cases(constant));
    }
  }
  return result;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::combined_cases(SchemaId id, const std::string& name,
                                                         const SchemaJson& value, bool positive,
                                                         Tracking tracking) {
  if (name[0] == '$') return reference_cases<Case>(id, name, value, positive, tracking);
  if (name == "if") return if_cases<Case>(id, *index_->node(id).json, positive, tracking);
  if (name == "not") {
    const SchemaId child = child_id(id, name, value);
    Cases<Case> result = child < 0 ? Cases<Case>() : cases<Case>(child, !positive, Tracking::kNone);
    forget_evaluated(result);
    return result;
  }
  if (name.starts_with("depend")) {
    if constexpr (std::is_same_v<Case, ObjectCase>)
      return dependent_cases(id, name, value, positive, tracking);
    return positive ? Cases<Case>{Case()} : Cases<Case>();
  }
  if (!value.is_array() || value.empty()) {
    refuse(id, name, "must be an array with at least one schema.");
    return {};
  }
  if (name == "oneOf") return one_cases<Case>(id, value, positive, tracking);
  if (name == "anyOf" && positive) return any_cases<Case>(id, value, tracking);
  // allOf, or the opposite of anyOf or allOf.
  const bool every = (name == "allOf") == positive;
  Cases<Case> result = every ? Cases<Case>{Case()} : Cases<Case>();
  for (const SchemaJson& child : value) {
    const SchemaId child_schema = child_id(id, name, child);
    if (child_schema < 0 || failed()) return {};
    const Cases<Case>& next = cases<Case>(child_schema, positive, tracking);
    if (every) {
      result = product(id, name, result, next);
    } else {
      append(id, name, result, next);
    }
  }
  return result;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::any_cases(SchemaId id, const SchemaJson& schemas,
                                                    Tracking tracking) {
  // With what is evaluated, a case stands for a set of schemas that all apply: what any of them evaluates is
  // evaluated. A case without the others' opposites demands no less than it has to, so it may remain, unless
  // the answer has to be exact.
  Cases<Case> none = {Case()};
  Cases<Case> result;
  for (const SchemaJson& child : schemas) {
    const SchemaId child_schema = child_id(id, "anyOf", child);
    if (child_schema < 0 || failed()) return {};
    const Cases<Case> next = cases<Case>(child_schema, true, tracking);
    if (tracking == Tracking::kNone) {
      append(id, "anyOf", result, next);
      continue;
    }
    Cases<Case> with = product(id, "anyOf", none, next);
    append(id, "anyOf", with, product(id, "anyOf", result, next));
    if (tracking == Tracking::kExact) {
      const Cases<Case>& not_next = cases<Case>(child_schema, false, Tracking::kNone);
      none = product(id, "anyOf", none, not_next);
      result = product(id, "anyOf", result, not_next);
    }
    append(id, "anyOf", result, with);
    if (result.size() > kMaxCombinations) {
      refuse(id, "anyOf", cat("more than ", kMaxCombinations, " combinations of cases."));
      return {};
    }
  }
  return result;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::one_cases(SchemaId id, const SchemaJson& schemas, bool positive,
                                                    Tracking tracking) {
  std::vector<SchemaId> ids;
  for (const SchemaJson& child : schemas) {
    ids.push_back(child_id(id, "oneOf", child));
    if (ids.back() < 0) return {};
  }
  Cases<Case> result;
  if (!positive) {
    // None of them, or two of them.
    result = {Case()};
    for (const SchemaId child : ids)
      result = product(id, "oneOf", result, cases<Case>(child, false, Tracking::kNone));
  }
  for (size_t i = 0; i < ids.size() && !failed(); ++i) {
    Cases<Case> only = cases<Case>(ids[i], true, positive ? tracking : Tracking::kNone);
    for (size_t j = positive ? 0 : i + 1; j < ids.size() && !failed(); ++j) {
      if (i == j || only.empty()) continue;
      const Cases<Case> two = product(id, "oneOf", only, cases<Case>(ids[j], true, Tracking::kNone));
      if (!positive) {
        append(id, "oneOf", result, two);
      } else if (!two.empty()) {
        only = product(id, "oneOf", only, cases<Case>(ids[j], false, Tracking::kNone));
      }
    }
    if (positive) append(id, "oneOf", result, only);
  }
  return result;
}

template <typename Case>
SchemaMeaning::Cases<Case> SchemaMeaning::if_cases(SchemaId id, const SchemaJson& json, bool positive,
                                                   Tracking tracking) {
  const SchemaId condition = child_id(id, "if", json.at("if"));
  const auto branch = [&](const char* name) -> Cases<Case> {
    const auto found = json.find(name);
    if (found == json.end()) return positive ? Cases<Case>{Case()} : Cases<Case>();
    const SchemaId child = child_id(id, name, *found);
    return child < 0 ? Cases<Case>() : cases<Case>(child, positive, tracking);
  };
  if (condition < 0) return {};
  // Without annotations, a missing `then` or `else` needs no division into cases.
  const bool tracked = tracking != Tracking::kNone;
  if (!tracked && !json.contains("then") && !json.contains("else"))
    return positive ? Cases<Case>{Case()} : Cases<Case>();
  Cases<Case> result = product(id, "if", cases<Case>(condition, true, tracking), branch("then"));
  append(id, "if", result, product(id, "if", cases<Case>(condition, false, Tracking::kNone), branch("else")));
  return result;
}

template const std::vector<ObjectCase>& SchemaMeaning::goal_cases<ObjectCase>(const Goal&);
template const std::vector<ArrayCase>& SchemaMeaning::goal_cases<ArrayCase>(const Goal&);
template const std::vector<ObjectCase>& SchemaMeaning::cases<ObjectCase>(SchemaId, bool, Tracking);
template std::vector<ObjectCase> SchemaMeaning::product<ObjectCase>(SchemaId, std::string_view,
                                                                    const std::vector<ObjectCase>&,
                                                                    const std::vector<ObjectCase>&);
template void SchemaMeaning::append<ObjectCase>(SchemaId, std::string_view, std::vector<ObjectCase>&,
                                                const std::vector<ObjectCase>&);

}  // namespace quire::grammar
