#include "text/output/tag_parameters.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "base/strings.h"
#include "text/output/call_machine.h"
#include "text/output/tool_set.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 6> kAnnotations = {"title",    "description", "default",
                                                          "examples", "$comment",    "deprecated"};

// Whether the object has no other keys than annotations and these.
bool has_only(const Json& object, std::initializer_list<std::string_view> keys) {
  return std::all_of(object.items().begin(), object.items().end(), [&](const auto& item) {
    return std::find(kAnnotations.begin(), kAnnotations.end(), item.key()) != kAnnotations.end() ||
           std::find(keys.begin(), keys.end(), item.key()) != keys.end();
  });
}

// The definition that {"$ref": "#/$defs/NAME"} names, or the schema itself.
const Json& resolved(const Json& root, const Json& schema) {
  const auto reference = schema.find("$ref");
  if (reference == schema.end() || !reference->is_string() || !has_only(schema, {"$ref"})) return schema;
  for (const char* place : {"$defs", "definitions"}) {
    const std::string prefix = cat("#/", place, "/");
    const auto& text = reference->get_ref<const std::string&>();
    const auto definitions = root.find(place);
    if (!text.starts_with(prefix) || definitions == root.end() || !definitions->is_object()) continue;
    const auto found = definitions->find(text.substr(prefix.size()));
    if (found != definitions->end() && found->is_object()) return *found;
  }
  return schema;
}

// True if every string is valid, and null if the parameter can be null.
bool allows_any_string(const Json& schema) {
  if (schema.contains("anyOf")) {
    const Json& options = schema["anyOf"];
    return has_only(schema, {"anyOf"}) && options.is_array() &&
           std::all_of(options.begin(), options.end(), [](const Json& option) {
             return option.is_object() && has_only(option, {"type"}) && option.contains("type");
           });
  }
  return has_only(schema, {"type"});
}

// The strings of `enum` or `const`, and null as a text; nullopt if there is something else.
std::optional<std::vector<std::string>> string_choices(const Json& schema) {
  if (!has_only(schema, {"type", "enum", "const"}) || schema.contains("enum") == schema.contains("const"))
    return std::nullopt;
  const Json values = schema.contains("enum") ? schema["enum"] : Json::array({schema["const"]});
  if (!values.is_array() || values.empty()) return std::nullopt;
  std::vector<std::string> choices;
  for (const Json& value : values) {
    if (!value.is_string() && !value.is_null()) return std::nullopt;
    choices.push_back(value.is_null() ? "null" : value.get<std::string>());
    // Line breaks at the ends may be dropped, and tags within a choice would end it.
    const std::string_view text = choices.back();
    if (text.find('<') != std::string_view::npos || text.starts_with('\n') || text.ends_with('\n'))
      return std::nullopt;
  }
  return choices;
}

bool read_value(const Json& root, const Json& schema, ToolSet::Kind kind, TagParameter& parameter) {
  const Json& value = resolved(root, schema);
  if (kind == ToolSet::Kind::kString || kind == ToolSet::Kind::kNullable) {
    if (allows_any_string(value)) return true;
    const auto choices = string_choices(value);
    if (!choices) return false;
    parameter.kind = TagParameter::Kind::kChoice;
    parameter.choices = *choices;
    return true;
  }
  parameter.kind = TagParameter::Kind::kJson;
  parameter.schema = schema;
  for (const char* place : {"$defs", "definitions"})
    if (root.contains(place)) parameter.schema[place] = root[place];
  return true;
}

}  // namespace

std::optional<TagParameters> read_tag_parameters(const Json& schema) {
  TagParameters result;
  if (!schema.is_object() ||
      !has_only(schema, {"type", "properties", "required", "additionalProperties", "$defs", "definitions",
                         "$schema"}) ||
      schema.value("type", Json()) != "object")
    return std::nullopt;
  const Json properties = schema.value("properties", Json::object());
  const Json required = schema.value("required", Json::array());
  if (!properties.is_object() || !required.is_array()) return std::nullopt;
  if (properties.empty() && required.empty()) {
    result.any = !schema.contains("additionalProperties") || schema["additionalProperties"] == true;
    return result;
  }
  const ToolSet tools(Json::array({{{"name", "tool"}, {"parameters", schema}}}));
  for (const auto& [name, value] : properties.items()) {
    TagParameter& parameter = result.list.emplace_back();
    parameter.name = name;
    parameter.required = std::find(required.begin(), required.end(), Json(name)) != required.end();
    const bool has_name = !name.empty() && std::all_of(name.begin(), name.end(), is_name_byte);
    if (!has_name || !value.is_object() || !read_value(schema, value, tools.kind("tool", name), parameter))
      return std::nullopt;
  }
  const bool all_known = std::all_of(required.begin(), required.end(), [&](const Json& name) {
    return name.is_string() && properties.contains(name.get_ref<const std::string&>());
  });
  return all_known ? std::optional<TagParameters>(std::move(result)) : std::nullopt;
}

}  // namespace quire
