#include "server/openai/constraint_fields.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace quire {
namespace {

using Kind = StructuredOutputs::Kind;

// A field whose value is a constraint.
struct ConstraintField {
  std::string_view name;
  Kind kind;
};
constexpr std::array<ConstraintField, 8> kFields = {{
    {"guided_json", Kind::kJsonSchema},
    {"guided_regex", Kind::kRegex},
    {"guided_choice", Kind::kChoice},
    {"guided_grammar", Kind::kGrammar},
    {"json_schema", Kind::kJsonSchema},  // llama.cpp and SGLang
    {"grammar", Kind::kGrammar},         // llama.cpp
    {"ebnf", Kind::kGrammar},            // SGLang
    {"regex", Kind::kRegex},             // SGLang
}};
// Fields of structured_outputs, of which one has to be given.
constexpr std::array<ConstraintField, 6> kStructuredOutputs = {{
    {"json", Kind::kJsonSchema},
    {"regex", Kind::kRegex},
    {"choice", Kind::kChoice},
    {"grammar", Kind::kGrammar},
    {"json_object", Kind::kJsonObject},
    {"structural_tag", Kind::kStructuralTag},
}};
// Description of the values of a kind.
std::string_view expected(Kind kind) {
  switch (kind) {
    case Kind::kJsonObject:
      return "true or false";
    case Kind::kChoice:
      return "an array of strings";
    case Kind::kRegex:
    case Kind::kGrammar:
      return "a string";
    case Kind::kJsonSchema:
    case Kind::kStructuralTag:
      break;
  }
  return "an object, or a string with one";
}

bool fits(Kind kind, const Json& value) {
  switch (kind) {
    case Kind::kJsonObject:
      return value.is_boolean();
    case Kind::kRegex:
    case Kind::kGrammar:
      return value.is_string();
    case Kind::kChoice:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& choice) { return choice.is_string(); });
    case Kind::kJsonSchema:
      return value.is_object() || value.is_boolean() || value.is_string();
    case Kind::kStructuralTag:
      break;
  }
  return value.is_object() || value.is_string();
}

// The constraint in `value`, which is the field `name` of the request.
std::optional<StructuredOutputs> constraint_of(FieldReader& fields, Kind kind, const Json& value,
                                               const std::string& name) {
  if (!fits(kind, value)) {
    fields.fail(cat(name, " must be ", expected(kind), ", not ", json_type_name(value), "."),
                std::string_view(name).substr(0, name.find('.')));
    return std::nullopt;
  }
  if (kind == Kind::kJsonObject && !value.get<bool>()) return std::nullopt;
  StructuredOutputs spec{.kind = kind, .field = name};
  if (value.is_string()) {
    spec.text = value.get<std::string>();
  } else if (kind != Kind::kJsonObject) {
    spec.text = value.dump();
  }
  return spec;
}

std::optional<StructuredOutputs> read_response_format(FieldReader& fields) {
  const std::string field = "response_format";
  const Json* format = fields.object(field);
  if (format == nullptr) return std::nullopt;
  const auto type = format->find("type");
  const std::string name = type != format->end() && type->is_string() ? type->get<std::string>() : "";
  if (name == "text") return std::nullopt;
  if (name == "structural_tag") return constraint_of(fields, Kind::kStructuralTag, *format, field);
  const auto schema = format->find("schema");  // llama.cpp
  if (name == "json_object" && schema != format->end())
    return constraint_of(fields, Kind::kJsonSchema, *schema, "response_format.schema");
  if (name == "json_object") return StructuredOutputs{.kind = Kind::kJsonObject, .field = field};
  if (name != "json_schema") {
    fields.fail(type == format->end() || !type->is_string()
                    ? "response_format.type must be a string."
                    : cat("response_format.type '", name.substr(0, 80),
                          "' is unknown; supported: text, json_object, json_schema, structural_tag."),
                field);
    return std::nullopt;
  }
  const auto description = format->find("json_schema");
  if (description == format->end() || !description->is_object() || !description->contains("schema")) {
    fields.fail("response_format.json_schema must be an object with a schema.", field);
    return std::nullopt;
  }
  auto spec = constraint_of(fields, Kind::kJsonSchema, (*description)["schema"],
                            "response_format.json_schema.schema");
  const auto strict = description->find("strict");
  if (spec && strict != description->end() && strict->is_boolean()) spec->strict = strict->get<bool>();
  return spec;
}

// A field of structured_outputs that is off in vLLM unless it is given.
bool flag(FieldReader& fields, const Json& object, const std::string& name) {
  const auto value = object.find(name);
  if (value == object.end() || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  fields.fail(cat("structured_outputs.", name, " must be true or false, not ", json_type_name(*value), "."),
              "structured_outputs");
  return false;
}

std::optional<StructuredOutputs> read_structured_outputs(FieldReader& fields) {
  const std::string field = "structured_outputs";
  const Json* object = fields.object(field);
  if (object == nullptr) return std::nullopt;
  std::vector<StructuredOutputs> given;
  for (const auto& [key, value] : object->items()) {
    const auto* row = std::find_if(kStructuredOutputs.begin(), kStructuredOutputs.end(),
                                   [&key = key](const ConstraintField& f) { return f.name == key; });
    if (row != kStructuredOutputs.end()) {
      if (value.is_null()) continue;
      if (auto spec = constraint_of(fields, row->kind, value, cat(field, ".", key)))
        given.push_back(std::move(*spec));
    } else if (key == "whitespace_pattern" || key == "disable_additional_properties") {
      if (!value.is_null() && value != false)
        fields.fail(cat(field, ".", key, " is not supported; put it into the schema or use a grammar."),
                    field);
    } else if (key != "disable_any_whitespace" && key != "disable_fallback") {
      fields.fail(cat(field, ".", key.substr(0, 80), " is unknown."), field);
    }
  }
  if (given.size() != 1) {
    fields.fail(given.empty()
                    ? "structured_outputs must have one of json, regex, choice, grammar, json_object "
                      "and structural_tag."
                    : cat(given[0].field, " and ", given[1].field, " exclude each other."),
                field);
    return std::nullopt;
  }
  given[0].disable_any_whitespace = flag(fields, *object, "disable_any_whitespace");
  return std::move(given[0]);
}

}  // namespace

std::optional<StructuredOutputs> read_constraint(FieldReader& fields) {
  std::vector<StructuredOutputs> given;
  const auto add = [&given](std::optional<StructuredOutputs> spec) {
    if (spec) given.push_back(std::move(*spec));
  };
  add(read_response_format(fields));
  add(read_structured_outputs(fields));
  for (const ConstraintField& row : kFields) {
    const Json* value = fields.any(row.name);
    // llama.cpp's clients send an empty grammar for none.
    if (value == nullptr || *value == "") continue;
    add(constraint_of(fields, row.kind, *value, std::string(row.name)));
  }
  if (given.size() > 1) {
    fields.fail(
        cat(given[0].field, " and ", given[1].field, " exclude each other: an output has one constraint."),
        given[1].field);
  }
  if (given.empty() || !fields.ok()) return std::nullopt;
  return std::move(given[0]);
}

}  // namespace quire
