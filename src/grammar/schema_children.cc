// The keywords of objects and arrays, as conditions on their children.
#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "grammar/json_text.h"
#include "grammar/schema_meaning.h"

namespace quire::grammar {
namespace {

bool is_text_list(const SchemaJson& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const SchemaJson& one) { return one.is_string(); });
}

// Without keys that were named before.
void add_except(ObjectCase& object, ObjectCase::Keys keys) {
  std::sort(keys.except.begin(), keys.except.end());
  keys.except.erase(std::unique(keys.except.begin(), keys.except.end()), keys.except.end());
  ObjectCase named;
  for (const std::string& name : keys.except) named.members.push_back({name, {}, false});
  named.all.push_back(std::move(keys));
  object = both(object, named);
}

Regular content_outside(const std::vector<Regular>& languages) {
  if (languages.empty()) return any_content();
  return minus(any_content(), any_of(languages));
}

// Cases that violate only the bounds of the number of children.
template <typename Case>
void add_other_counts(const Case& bounded, std::vector<Case>& result) {
  Case counted;
  if (bounded.min > 0) {
    counted.max = bounded.min - 1;
    result.push_back(counted);
  }
  if (bounded.max != kNoLimit) {
    counted.max = kNoLimit;
    counted.min = bounded.max + 1;
    result.push_back(counted);
  }
}

}  // namespace

SchemaId SchemaMeaning::child_id(SchemaId id, std::string_view keyword, const SchemaJson& json) {
  const SchemaId child = index_->find(json);
  if (child < 0) refuse(id, keyword, "must be a schema.");
  return child;
}

Goal SchemaMeaning::goal_of(SchemaId id, std::string_view keyword, const SchemaJson& json) {
  const SchemaId child = child_id(id, keyword, json);
  if (child < 0) return no_value();
  if (json.is_boolean()) return json.get<bool>() ? Goal() : no_value();
  if (json.empty()) return {};
  return {{child, true}};
}

uint64_t SchemaMeaning::count_of(SchemaId id, const SchemaJson& json, const char* keyword,
                                 uint64_t otherwise) {
  const auto found = json.find(keyword);
  if (found == json.end()) return otherwise;
  if (found->is_number_unsigned()) return found->get<uint64_t>();
  if (found->is_number()) {
    const auto value = parse_decimal(found->dump());
    if (value && !value->negative && value->fraction.empty())
      return value->integer.size() > 18 ? kNoLimit : std::stoull(value->integer);
  }
  refuse(id, keyword, "must be an integer of at least 0.");
  return otherwise;
}

std::optional<SchemaId> SchemaMeaning::target_of(SchemaId id, const std::string& keyword,
                                                 const SchemaJson& reference) {
  if (!reference.is_string()) {
    refuse(id, keyword, "must be a string.");
    return std::nullopt;
  }
  const auto text = reference.get<std::string>();
  const Result<SchemaId> target =
      keyword == "$ref" ? index_->resolve(id, text) : index_->resolve_dynamic(id, text);
  if (target) return *target;
  refuse(id, keyword, cat("\"", text, "\" ", target.failure().message));
  return std::nullopt;
}

void SchemaMeaning::add_properties(SchemaId id, const SchemaJson& json, ObjectCase& result) {
  std::vector<std::string> names;
  std::vector<Regular> patterns;
  if (const auto properties = json.find("properties"); properties != json.end()) {
    if (!properties->is_object()) return refuse(id, "properties", "must be an object.");
    spend(id, properties->size());
    for (auto member = properties->begin(); member != properties->end(); ++member) {
      const std::string keyword = cat("properties/", escape_pointer(member.key()));
      result.members.push_back({member.key(), goal_of(id, keyword, member.value()), false});
      result.evaluated.push_back({member.key(), nothing()});
      names.push_back(member.key());
    }
  }
  if (const auto map = json.find("patternProperties"); map != json.end()) {
    if (!map->is_object()) return refuse(id, "patternProperties", "must be an object.");
    for (auto member = map->begin(); member != map->end() && !failed(); ++member) {
      const std::string keyword = cat("patternProperties/", escape_pointer(member.key()));
      const Regular language = pattern(id, keyword, member.key());
      const Goal goal = goal_of(id, keyword, member.value());
      if (!is_any(goal)) result.all.push_back({language, {}, goal});
      result.evaluated.push_back({std::nullopt, language});
      patterns.push_back(language);
    }
  }
  if (const auto others = json.find("additionalProperties"); others != json.end()) {
    const Goal goal = goal_of(id, "additionalProperties", *others);
    if (!is_any(goal)) add_except(result, {content_outside(patterns), names, goal});
    result.evaluates_all = true;
  }
}

ObjectCase SchemaMeaning::own_case(SchemaId id, const SchemaJson& json, const ObjectCase* /*type*/) {
  ObjectCase result;
  add_properties(id, json, result);
  if (failed()) return result;
  if (const auto keys = json.find("propertyNames"); keys != json.end()) {
    const SchemaId child = child_id(id, "propertyNames", *keys);
    const Scalars allowed = child < 0 ? Scalars() : scalars(child);
    if (allowed.strings != any_content()) {
      const Regular forbidden = minus(any_content(), allowed.strings);
      result.all.push_back({forbidden, {}, no_value()});
    }
  }
  if (const auto required = json.find("required"); required != json.end() && !required->is_boolean()) {
    if (!is_text_list(*required)) {
      refuse(id, "required", "must be an array of strings.");
      return result;
    }
    ObjectCase demanded;
    for (const SchemaJson& name : *required) demanded.members.push_back({name.get<std::string>(), {}, true});
    result = both(result, demanded);
  }
  result.min = count_of(id, json, "minProperties", 0);
  result.max = count_of(id, json, "maxProperties", kNoLimit);
  return result;
}

SchemaMeaning::Cases<ObjectCase> SchemaMeaning::dependent_cases(SchemaId id, const std::string& name,
                                                                const SchemaJson& value, bool positive,
                                                                Tracking tracking) {
  Cases<ObjectCase> result = positive ? Cases<ObjectCase>{ObjectCase()} : Cases<ObjectCase>();
  if (!value.is_object()) refuse(id, name, "must be an object.");
  for (auto member = value.begin(); member != value.end() && !failed(); ++member) {
    const std::string keyword = cat(name, "/", escape_pointer(member.key()));
    ObjectCase absent;
    absent.members.push_back({member.key(), no_value(), false});
    ObjectCase present;
    present.members.push_back({member.key(), {}, true});
    // Consequences of the key, or their opposites.
    Cases<ObjectCase> then;
    if (member.value().is_array()) {
      if (!is_text_list(member.value())) refuse(id, keyword, "must be an array of strings.");
      if (failed()) return {};
      ObjectCase demanded;
      for (const SchemaJson& other : member.value()) {
        demanded.member(other.get<std::string>()).required = true;
      }
      then = positive ? Cases<ObjectCase>{demanded} : opposite_cases(demanded);
    } else {
      const SchemaId child = child_id(id, keyword, member.value());
      if (child >= 0) then = cases<ObjectCase>(child, positive, tracking);
    }
    Cases<ObjectCase> with = product(id, keyword, Cases<ObjectCase>{present}, then);
    if (positive) {
      with.insert(with.begin(), absent);
      result = product(id, keyword, result, with);
    } else {
      append(id, keyword, result, with);
    }
  }
  return result;
}

ArrayCase SchemaMeaning::own_case(SchemaId id, const SchemaJson& json, const ArrayCase* /*type*/) {
  ArrayCase result;
  auto first = json.find("prefixItems");
  auto rest = json.find("items");
  const char* rest_name = "items";
  if (rest != json.end() && rest->is_array() && first == json.end()) {
    // Before 2020-12: an array of schemas, and additionalItems for the rest.
    first = rest;
    rest_name = "additionalItems";
    rest = json.find(rest_name);
  }
  if (first != json.end()) {
    if (!first->is_array()) {
      refuse(id, first == json.find("items") ? "items" : "prefixItems", "must be an array of schemas.");
      return result;
    }
    spend(id, first->size());
    for (const SchemaJson& item : *first)
      result.prefix.push_back(goal_of(
          id, cat(first == json.find("items") ? "items/" : "prefixItems/", result.prefix.size()), item));
  }
  result.evaluated_prefix = result.prefix.size();
  if (rest != json.end()) {
    result.rest = goal_of(id, rest_name, *rest);
    result.evaluates_all = true;
  }
  if (const auto some = json.find("contains"); some != json.end()) {
    const Goal goal = goal_of(id, "contains", *some);
    const ArrayCase::Count count = {0, goal, count_of(id, json, "minContains", 1),
                                    count_of(id, json, "maxContains", kNoLimit)};
    if (count.min > 0 || count.max != kNoLimit) result.counts.push_back(count);
    result.evaluated.push_back(goal);
  }
  result.min = count_of(id, json, "minItems", 0);
  result.max = count_of(id, json, "maxItems", kNoLimit);
  const auto unique = json.find("uniqueItems");
  result.unique = unique != json.end() && *unique == true;
  return result;
}

ObjectCase SchemaMeaning::constant_case(const SchemaJson& value, const ObjectCase* /*type*/) {
  ObjectCase result;
  std::vector<std::string> names;
  for (auto member = value.begin(); member != value.end(); ++member) {
    result.members.push_back({member.key(), {{index_->add_constant(member.value()), true}}, true});
    names.push_back(member.key());
  }
  add_except(result, {any_content(), std::move(names), no_value()});
  return result;
}

ArrayCase SchemaMeaning::constant_case(const SchemaJson& value, const ArrayCase* /*type*/) {
  ArrayCase result;
  for (const SchemaJson& item : value) result.prefix.push_back({{index_->add_constant(item), true}});
  result.min = result.max = value.size();
  return result;
}

std::optional<ObjectCase> SchemaMeaning::unevaluated(SchemaId id, const SchemaJson& json,
                                                     const ObjectCase& object) {
  ObjectCase result = object;
  if (!object.evaluates_all) {
    const Goal goal = goal_of(id, "unevaluatedProperties", json.at("unevaluatedProperties"));
    ObjectCase::Keys keys;
    keys.value = goal;
    std::vector<Regular> patterns;
    for (const KeySet& seen : object.evaluated) {
      if (!seen.name) {
        patterns.push_back(seen.language);
      } else {
        keys.except.push_back(*seen.name);
      }
    }
    keys.language = content_outside(patterns);
    if (!is_any(goal)) add_except(result, std::move(keys));
  }
  result.evaluates_all = true;
  return result;
}

std::optional<ArrayCase> SchemaMeaning::unevaluated(SchemaId id, const SchemaJson& json,
                                                    const ArrayCase& array) {
  ArrayCase result = array;
  if (!array.evaluates_all) {
    Goal goal = goal_of(id, "unevaluatedItems", json.at("unevaluatedItems"));
    if (!is_any(goal) && !array.evaluated.empty()) {
      std::vector<Goal> alternatives = array.evaluated;
      if (!is_nothing(goal)) alternatives.push_back(goal);
      const bool any =
          std::any_of(alternatives.begin(), alternatives.end(), [](const Goal& g) { return is_any(g); });
      if (any) {
        goal.clear();
      } else {
        goal = alternatives.size() == 1 ? alternatives[0] : Goal{{index_->add_any_of(alternatives), true}};
      }
    }
    ArrayCase rest;
    rest.prefix.resize(array.evaluated_prefix);
    rest.rest = goal;
    result = both(result, rest);
  }
  result.evaluates_all = true;
  return result;
}

SchemaMeaning::Cases<ObjectCase> SchemaMeaning::opposite_cases(const ObjectCase& object) {
  Cases<ObjectCase> result;
  for (const ObjectCase::Member& member : object.members) {
    ObjectCase violated;
    if (!is_any(member.value)) {
      violated.members.push_back({member.name, opposite(member.value), true});
      result.push_back(violated);
    }
    if (member.required) {
      violated.members = {{member.name, no_value(), false}};
      result.push_back(violated);
    }
  }
  const auto add_keys = [&](const std::vector<ObjectCase::Keys>& from, bool all) {
    for (const ObjectCase::Keys& keys : from) {
      ObjectCase violated;
      for (const std::string& name : keys.except) violated.member(name);
      (all ? violated.some : violated.all).push_back({keys.language, keys.except, opposite(keys.value)});
      result.push_back(std::move(violated));
    }
  };
  add_keys(object.all, true);
  add_keys(object.some, false);
  add_other_counts(object, result);
  return result;
}

SchemaMeaning::Cases<ArrayCase> SchemaMeaning::opposite_cases(const ArrayCase& array) {
  Cases<ArrayCase> result;
  if (array.unique) refuse(kTrueSchema, "uniqueItems", "has no opposite.");
  for (size_t i = 0; i < array.prefix.size(); ++i) {
    if (is_any(array.prefix[i])) continue;
    ArrayCase violated;
    violated.prefix.resize(i + 1);
    violated.prefix[i] = opposite(array.prefix[i]);
    violated.min = i + 1;
    result.push_back(std::move(violated));
  }
  if (!is_any(array.rest)) {
    ArrayCase violated;
    violated.counts.push_back({array.prefix.size(), opposite(array.rest), 1, kNoLimit});
    result.push_back(std::move(violated));
  }
  for (const ArrayCase::Count& count : array.counts) {
    ArrayCase violated;
    if (count.min > 0) {
      violated.counts = {{count.from, count.value, 0, count.min - 1}};
      result.push_back(violated);
    }
    if (count.max != kNoLimit) {
      violated.counts = {{count.from, count.value, count.max + 1, kNoLimit}};
      result.push_back(violated);
    }
  }
  add_other_counts(array, result);
  return result;
}

bool SchemaMeaning::contains(const ObjectCase::Keys& keys, const std::string& name) {
  if (std::binary_search(keys.except.begin(), keys.except.end(), name)) return false;
  if (keys.language == any_content()) return true;
  const auto [found, added] = contained_.try_emplace({keys.language.get(), name}, false);
  if (added) found->second = queries_.contains(keys.language, name);
  return found->second;
}

Goal SchemaMeaning::member_goal(const ObjectCase& object, const ObjectCase::Member& member) {
  Goal goal = member.value;
  for (const ObjectCase::Keys& keys : object.all) {
    if (contains(keys, member.name)) goal = both(goal, keys.value);
  }
  return goal;
}

bool SchemaMeaning::is_impossible(const ObjectCase& object) {
  if (object.min > object.max) return true;
  size_t required = 0;
  for (const ObjectCase::Member& member : object.members) {
    if (!member.required) continue;
    ++required;
    if (is_nothing(member.value)) return true;
    if (is_empty(member_goal(object, member))) return true;
  }
  if (required > object.max) return true;
  for (const ObjectCase::Keys& keys : object.some) {
    if (is_nothing(keys.value) || object.max == 0) return true;
  }
  return false;
}

bool SchemaMeaning::is_impossible(const ArrayCase& array) {
  if (array.min > array.max) return true;
  for (size_t i = 0; i < array.prefix.size() && i < array.min; ++i) {
    if (is_empty(array.prefix[i])) return true;
  }
  if (array.min > array.prefix.size() && is_empty(array.rest)) return true;
  for (const ArrayCase::Count& count : array.counts) {
    if (count.min > count.max || (count.min > 0 && (is_nothing(count.value) || array.max == 0))) return true;
  }
  return false;
}

}  // namespace quire::grammar
