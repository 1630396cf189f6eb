#include "text/output/tool_set.h"

namespace quire {
namespace {

// The types that a schema allows, as bits.
enum Types : unsigned { kNoType = 0, kStringType = 1, kScalarType = 2, kContainerType = 4, kNullType = 8 };

constexpr int kMaxSchemaDepth = 16;

unsigned type_of_name(std::string_view name) {
  if (name == "string") return kStringType;
  if (name == "object" || name == "array") return kContainerType;
  if (name == "null") return kNullType;
  return kScalarType;
}

unsigned types_of_value(const Json& value) {
  if (value.is_string()) return kStringType;
  if (value.is_structured()) return kContainerType;
  return value.is_null() ? kNullType : kScalarType;
}

// The schema that a local reference names; null if there is none.
const Json* resolve_reference(const Json& root, const std::string& reference) {
  if (reference.empty() || reference[0] != '#') return nullptr;
  try {
    const Json::json_pointer pointer(reference.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

unsigned schema_types(const Json& root, const Json& schema, int depth) {
  if (!schema.is_object() || depth > kMaxSchemaDepth) return kNoType;
  unsigned types = kNoType;
  if (const auto at = schema.find("$ref"); at != schema.end() && at->is_string()) {
    if (const Json* target = resolve_reference(root, at->get<std::string>()))
      types |= schema_types(root, *target, depth + 1);
  }
  if (const auto at = schema.find("type"); at != schema.end()) {
    if (at->is_string()) types |= type_of_name(at->get_ref<const std::string&>());
    if (at->is_array()) {
      for (const auto& name : *at) {
        if (name.is_string()) types |= type_of_name(name.get_ref<const std::string&>());
      }
    }
    return types;
  }
  if (const auto at = schema.find("const"); at != schema.end()) return types | types_of_value(*at);
  if (const auto at = schema.find("enum"); at != schema.end() && at->is_array()) {
    for (const auto& value : *at) types |= types_of_value(value);
    return types;
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto at = schema.find(key);
    if (at == schema.end() || !at->is_array() || at->size() > 64) continue;
    for (const auto& option : *at) types |= schema_types(root, option, depth + 1);
  }
  if (types == kNoType && (schema.contains("properties") || schema.contains("items"))) types = kContainerType;
  return types;
}

ToolSet::Kind kind_of(unsigned types) {
  if (types == kNoType) return ToolSet::Kind::kString;
  if ((types & kStringType) != 0)
    return (types & kNullType) != 0 ? ToolSet::Kind::kNullable : ToolSet::Kind::kString;
  return (types & kContainerType) != 0 ? ToolSet::Kind::kContainer : ToolSet::Kind::kScalar;
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  if (!tools.is_array()) return;
  for (const auto& tool : tools) {
    if (!tool.is_object()) continue;
    const auto nested = tool.find("function");
    const Json& function = nested != tool.end() && nested->is_object() ? *nested : tool;
    const auto name = function.find("name");
    if (name == function.end() || !name->is_string() || name->get_ref<const std::string&>().empty()) continue;
    auto& parameters = tools_[name->get<std::string>()];
    const auto schema = function.find("parameters");
    if (schema == function.end() || !schema->is_object()) continue;
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->is_object()) continue;
    for (const auto& [key, value] : properties->items())
      parameters.emplace(key, kind_of(schema_types(*schema, value, 0)));
  }
}

bool ToolSet::has_prefix(std::string_view text) const {
  const auto at = tools_.lower_bound(text);
  return at != tools_.end() && std::string_view(at->first).substr(0, text.size()) == text;
}

ToolSet::Kind ToolSet::kind(std::string_view tool, std::string_view parameter) const {
  const auto at = tools_.find(tool);
  if (at == tools_.end()) return Kind::kString;
  const auto found = at->second.find(parameter);
  return found == at->second.end() ? Kind::kString : found->second;
}

}  // namespace quire
