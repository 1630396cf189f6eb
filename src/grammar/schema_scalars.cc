// Scalars: null, booleans, numbers and strings that satisfy a schema. As sets of scalars have unions,
// intersections and complements, every combination of schemas is exact.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "grammar/json_text.h"
#include "grammar/regex.h"
#include "grammar/schema_meaning.h"

namespace quire::grammar {
namespace {

Regular unite_contents(const Regular& a, const Regular& b) {
  if (a == any_content() || b == any_content()) return any_content();
  return any_of({a, b});
}
bool is_length(const Regular& a) {
  return a->kind == RegularNode::Kind::kRepeat && a->parts[0] == any_character();
}
Regular intersect_contents(const Regular& a, const Regular& b) {
  if (a == any_content()) return b;
  if (b == any_content()) return a;
  if (is_length(a) && is_length(b))
    return content_of_length(std::max(a->min, b->min), std::min(a->max, b->max));
  return all_of({a, b});
}
Regular complement_content(const Regular& a) {
  if (a == any_content()) return nothing();
  if (a->kind == RegularNode::Kind::kNothing) return any_content();
  return minus(any_content(), a);
}

std::optional<Scalars> scalars_of_type(std::string_view type) {
  Scalars result;
  if (type == "null") {
    result.null = true;
  } else if (type == "boolean") {
    result.yes = result.no = true;
  } else if (type == "integer") {
    result.numbers = integers();
  } else if (type == "number") {
    result.numbers = all_numbers();
  } else if (type == "string") {
    result.strings = any_content();
  } else if (type != "object" && type != "array") {
    return std::nullopt;
  }
  return result;
}

Scalars with_numbers(NumberSet numbers) {
  Scalars result = all_scalars();
  result.numbers = std::move(numbers);
  return result;
}
Scalars with_strings(Regular strings) {
  Scalars result = all_scalars();
  result.strings = std::move(strings);
  return result;
}

// Scalars of any and of more than one of several sets. Halves are combined, so that long lists stay cheap.
struct ScalarSets {
  Scalars any;
  Scalars several;
};
ScalarSets alternatives_of(const std::vector<Scalars>& sets, size_t begin, size_t end, bool with_several) {
  if (end - begin == 1) return {sets[begin], {}};
  const size_t middle = begin + (end - begin) / 2;
  const ScalarSets a = alternatives_of(sets, begin, middle, with_several);
  const ScalarSets b = alternatives_of(sets, middle, end, with_several);
  ScalarSets result = {unite(a.any, b.any), {}};
  if (with_several) result.several = unite(unite(a.several, b.several), intersect(a.any, b.any));
  return result;
}

}  // namespace

Scalars all_scalars() {
  return {true, true, true, all_numbers(), any_content()};
}

Scalars unite(const Scalars& a, const Scalars& b) {
  return {a.null || b.null, a.yes || b.yes, a.no || b.no, unite(a.numbers, b.numbers),
          unite_contents(a.strings, b.strings)};
}

Scalars intersect(const Scalars& a, const Scalars& b) {
  return {a.null && b.null, a.yes && b.yes, a.no && b.no, intersect(a.numbers, b.numbers),
          intersect_contents(a.strings, b.strings)};
}

Scalars complement(const Scalars& set) {
  return {!set.null, !set.yes, !set.no, complement(set.numbers), complement_content(set.strings)};
}

Scalars SchemaMeaning::scalars(const Goal& goal) {
  Scalars result = all_scalars();
  for (const Literal& literal : goal) {
    if (failed()) return {};
    const Scalars& part = scalars(literal.schema);
    result = intersect(result, literal.positive ? part : complement(part));
  }
  return result;
}

const Scalars& SchemaMeaning::scalars(SchemaId id) {
  if (const auto found = scalars_.find(id); found != scalars_.end()) return found->second;
  static const Scalars kNone;
  if (failed()) return kNone;
  if (std::find(scalars_in_progress_.begin(), scalars_in_progress_.end(), id) != scalars_in_progress_.end()) {
    refuse(id, "", "the schema refers to itself for the same value.");
    return kNone;
  }
  if (scalars_in_progress_.size() > 400) {
    refuse(id, "", "too many references lead here.");
    return kNone;
  }
  used_.emplace(id, true);
  scalars_in_progress_.push_back(id);
  Scalars result = compute_scalars(id);
  scalars_in_progress_.pop_back();
  return scalars_.emplace(id, std::move(result)).first->second;
}

Scalars SchemaMeaning::compute_scalars(SchemaId id) {
  const SchemaNode node = index_->node(id);
  spend(id, 1);
  if (node.kind == SchemaNode::Kind::kConstant) return constant_scalars(id, SchemaJson::array({*node.json}));
  if (node.kind == SchemaNode::Kind::kAnyOf) {
    Scalars result;
    for (const Goal& goal : node.any_of) result = unite(result, scalars(goal));
    return result;
  }
  const SchemaJson& json = *node.json;
  if (json.is_boolean()) return json.get<bool>() ? all_scalars() : Scalars();
  Scalars result = all_scalars();
  const bool only_reference = node.draft <= Draft::k7 && json.contains("$ref");
  for (auto member = json.begin(); member != json.end() && !failed(); ++member) {
    if (only_reference && member.key() != "$ref") continue;
    result = intersect(result, keyword_scalars(id, member.key(), member.value()));
  }
  return result;
}

std::optional<Decimal> SchemaMeaning::decimal(SchemaId id, std::string_view keyword,
                                              const SchemaJson& value) {
  std::optional<Decimal> result;
  if (value.is_number()) result = parse_decimal(value.dump());
  if (!result)
    refuse(id, keyword, value.is_number() ? "the number has too many digits." : "must be a number.");
  return result;
}

Scalars SchemaMeaning::constant_scalars(SchemaId id, const SchemaJson& values) {
  Scalars result;
  std::vector<std::string> texts;
  std::vector<Decimal> numbers;
  for (const SchemaJson& value : values) {
    if (value.is_null()) result.null = true;
    if (value.is_boolean()) (value.get<bool>() ? result.yes : result.no) = true;
    if (value.is_string()) texts.push_back(value.get<std::string>());
    if (!value.is_number()) continue;
    const auto number = decimal(id, "", value);
    if (!number) return {};
    constexpr size_t kMaxConstantDigits = 64;
    if (number->integer.size() + number->fraction.size() > kMaxConstantDigits) {
      refuse(id, "", "a constant has more than 64 digits.");
      return {};
    }
    numbers.push_back(*number);
  }
  spend(id, texts.size() + numbers.size());
  if (failed()) return {};
  result.strings = any_text(std::move(texts));
  if (!numbers.empty()) result.numbers = any_number_of(numbers);
  return result;
}

Scalars SchemaMeaning::keyword_scalars(SchemaId id, const std::string& name, const SchemaJson& value) {
  if (name == "type") {
    Scalars result;
    const SchemaJson list = value.is_array() ? value : SchemaJson::array({value});
    for (const SchemaJson& type : list) {
      const auto part = type.is_string() ? scalars_of_type(type.get<std::string>()) : std::nullopt;
      if (!part) {
        refuse(id, name, "is not the name of a type.");
        return {};
      }
      result = unite(result, *part);
    }
    return result;
  }
  if (name == "const") return constant_scalars(id, SchemaJson::array({value}));
  if (name == "enum") {
    if (!value.is_array()) refuse(id, name, "must be an array.");
    return value.is_array() ? constant_scalars(id, value) : Scalars();
  }
  if (name == "minimum" || name == "maximum" || name == "exclusiveMinimum" || name == "exclusiveMaximum") {
    const SchemaJson& json = *index_->node(id).json;
    const bool lower = name.ends_with("inimum");
    bool exclusive = name.starts_with('e');
    // Draft 4: a flag next to the bound.
    if (value.is_boolean() && exclusive) return all_scalars();
    if (!exclusive) {
      const auto flag = json.find(lower ? "exclusiveMinimum" : "exclusiveMaximum");
      exclusive = flag != json.end() && flag->is_boolean() && flag->get<bool>();
    }
    const auto bound = decimal(id, name, value);
    if (!bound) return {};
    return with_numbers(lower ? at_least(*bound, exclusive) : at_most(*bound, exclusive));
  }
  if (name == "multipleOf") {
    const auto divisor = decimal(id, name, value);
    if (!divisor) return {};
    spend(id, 50'000);
    const auto multiples = divisor->is_zero() || divisor->negative ? std::nullopt : multiples_of(*divisor);
    if (!multiples) refuse(id, name, "only divisors with few digits are supported.");
    return multiples ? with_numbers(*multiples) : Scalars();
  }
  if (name == "minLength" || name == "maxLength") {
    const SchemaJson& json = *index_->node(id).json;
    constexpr uint64_t kLongest = 1'000'000;
    const uint64_t count = count_of(id, json, name.c_str(), 0);
    if (name == "maxLength")
      return with_strings(count >= RegularNode::kUnlimited
                              ? any_content()
                              : content_of_length(0, static_cast<uint32_t>(count)));
    if (count > kLongest) refuse(id, name, "the strings would be too long.");
    return with_strings(
        content_of_length(static_cast<uint32_t>(std::min(count, kLongest)), RegularNode::kUnlimited));
  }
  if (name == "pattern") {
    if (!value.is_string()) refuse(id, name, "must be a string.");
    return value.is_string() ? with_strings(pattern(id, name, value.get<std::string>())) : Scalars();
  }
  if (name == "format") {
    const auto content = value.is_string() ? format_content(value.get<std::string>()) : std::nullopt;
    return content ? with_strings(*content) : all_scalars();
  }
  return combined_scalars(id, name, value);
}

Scalars SchemaMeaning::combined_scalars(SchemaId id, const std::string& name, const SchemaJson& value) {
  if (name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef") {
    const auto target = target_of(id, name, value);
    return target ? scalars(*target) : Scalars();
  }
  const auto part = [&](const SchemaJson& child) {
    const SchemaId child_schema = child_id(id, name, child);
    return child_schema < 0 ? Scalars() : scalars(child_schema);
  };
  if (name == "not") return complement(part(value));
  if (name == "if") {
    const SchemaJson& json = *index_->node(id).json;
    const Scalars condition = part(value);
    const auto then = json.find("then");
    const auto otherwise = json.find("else");
    return unite(
        then == json.end() ? condition : intersect(condition, part(*then)),
        otherwise == json.end() ? complement(condition) : intersect(complement(condition), part(*otherwise)));
  }
  const bool all = name == "allOf";
  const bool one = name == "oneOf";
  if (!all && !one && name != "anyOf") return all_scalars();
  if (!value.is_array() || value.empty()) {
    refuse(id, name, "must be an array with at least one schema.");
    return {};
  }
  std::vector<Scalars> parts;
  for (const SchemaJson& child : value) {
    parts.push_back(part(child));
    if (failed()) return {};
  }
  if (all) {
    Scalars result = all_scalars();
    for (const Scalars& next : parts) result = intersect(result, next);
    return result;
  }
  const ScalarSets alternatives = alternatives_of(parts, 0, parts.size(), one);
  return one ? intersect(alternatives.any, complement(alternatives.several)) : alternatives.any;
}

Regular SchemaMeaning::pattern(SchemaId id, std::string_view keyword, const std::string& text) {
  if (const auto found = patterns_.find(text); found != patterns_.end()) return found->second;
  RegexOptions options;
  options.search = true;
  Result<Regular> parsed = parse_regex(text, options);
  if (!parsed) {
    refuse(id, keyword, parsed.failure().message);
    return nothing();
  }
  return patterns_.emplace(text, *parsed).first->second;
}

}  // namespace quire::grammar
