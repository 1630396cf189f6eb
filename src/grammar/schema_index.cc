#include "grammar/schema_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace quire::grammar {
namespace {

using Shape = KeywordShape;
using Effect = KeywordEffect;

// Sorted by name.
constexpr std::array kKeywords = {
    Keyword{"$anchor", Shape::kValue, Effect::kIdentifier},
    Keyword{"$comment", Shape::kValue, Effect::kAnnotation},
    Keyword{"$defs", Shape::kSchemaMap, Effect::kIdentifier},
    Keyword{"$dynamicAnchor", Shape::kValue, Effect::kIdentifier},
    Keyword{"$dynamicRef"},
    Keyword{"$id", Shape::kValue, Effect::kIdentifier},
    Keyword{"$recursiveAnchor", Shape::kValue, Effect::kIdentifier},
    Keyword{"$recursiveRef"},
    Keyword{"$ref"},
    Keyword{"$schema", Shape::kValue, Effect::kIdentifier},
    Keyword{"$vocabulary", Shape::kValue, Effect::kIdentifier},
    Keyword{"additionalItems", Shape::kSchema},
    Keyword{"additionalProperties", Shape::kSchema},
    Keyword{"allOf", Shape::kSchemas},
    Keyword{"anyOf", Shape::kSchemas},
    Keyword{"const"},
    Keyword{"contains", Shape::kSchema},
    Keyword{"contentEncoding", Shape::kValue, Effect::kAnnotation},
    Keyword{"contentMediaType", Shape::kValue, Effect::kAnnotation},
    Keyword{"contentSchema", Shape::kSchema, Effect::kAnnotation},
    Keyword{"default", Shape::kValue, Effect::kAnnotation},
    Keyword{"definitions", Shape::kSchemaMap, Effect::kIdentifier},
    Keyword{"dependencies", Shape::kDependencies},
    Keyword{"dependentRequired"},
    Keyword{"dependentSchemas", Shape::kSchemaMap},
    Keyword{"deprecated", Shape::kValue, Effect::kAnnotation},
    Keyword{"description", Shape::kValue, Effect::kAnnotation},
    Keyword{"else", Shape::kSchema},
    Keyword{"enum"},
    Keyword{"examples", Shape::kValue, Effect::kAnnotation},
    Keyword{"exclusiveMaximum"},
    Keyword{"exclusiveMinimum"},
    Keyword{"format"},
    Keyword{"id", Shape::kValue, Effect::kIdentifier},
    Keyword{"if", Shape::kSchema},
    Keyword{"items", Shape::kSchemaOrSchemas},
    Keyword{"maxContains"},
    Keyword{"maxItems"},
    Keyword{"maxLength"},
    Keyword{"maxProperties"},
    Keyword{"maximum"},
    Keyword{"minContains"},
    Keyword{"minItems"},
    Keyword{"minLength"},
    Keyword{"minProperties"},
    Keyword{"minimum"},
    Keyword{"multipleOf"},
    Keyword{"not", Shape::kSchema},
    Keyword{"oneOf", Shape::kSchemas},
    Keyword{"pattern"},
    Keyword{"patternProperties", Shape::kSchemaMap},
    Keyword{"prefixItems", Shape::kSchemas},
    Keyword{"properties", Shape::kSchemaMap},
    Keyword{"propertyNames", Shape::kSchema},
    Keyword{"readOnly", Shape::kValue, Effect::kAnnotation},
    Keyword{"required"},
    Keyword{"then", Shape::kSchema},
    Keyword{"title", Shape::kValue, Effect::kAnnotation},
    Keyword{"type"},
    Keyword{"unevaluatedItems", Shape::kSchema},
    Keyword{"unevaluatedProperties", Shape::kSchema},
    Keyword{"uniqueItems"},
    Keyword{"writeOnly", Shape::kValue, Effect::kAnnotation},
};
static_assert(std::is_sorted(kKeywords.begin(), kKeywords.end(),
                             [](const Keyword& a, const Keyword& b) { return a.name < b.name; }));

struct DraftAddress {
  std::string_view address;
  Draft draft;
};
constexpr std::array kDrafts = {
    DraftAddress{"http://json-schema.org/draft-04/schema", Draft::k4},
    DraftAddress{"http://json-schema.org/draft-06/schema", Draft::k6},
    DraftAddress{"http://json-schema.org/draft-07/schema", Draft::k7},
    DraftAddress{"https://json-schema.org/draft/2019-09/schema", Draft::k2019},
    DraftAddress{"https://json-schema.org/draft/2020-12/schema", Draft::k2020},
    DraftAddress{"http://json-schema.org/schema", Draft::k2020},
};

bool is_schema(const SchemaJson& json) {
  return json.is_object() || json.is_boolean();
}

struct AddressParts {
  std::string_view scheme, authority, path, query;
  bool has_scheme = false, has_authority = false, has_query = false;
};

AddressParts split_address(std::string_view address) {
  AddressParts parts;
  const size_t colon = address.find(':');
  if (colon != std::string_view::npos && colon > 0 && address.find_first_of("/?") > colon) {
    parts.scheme = address.substr(0, colon);
    parts.has_scheme = true;
    address.remove_prefix(colon + 1);
  }
  if (const size_t mark = address.find('?'); mark != std::string_view::npos) {
    parts.query = address.substr(mark + 1);
    parts.has_query = true;
    address = address.substr(0, mark);
  }
  if (address.starts_with("//")) {
    address.remove_prefix(2);
    const size_t end = std::min(address.find('/'), address.size());
    parts.authority = address.substr(0, end);
    parts.has_authority = true;
    address.remove_prefix(end);
  }
  parts.path = address;
  return parts;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> kept;
  const bool absolute = path.starts_with('/');
  bool directory = path.ends_with('/');
  for (size_t begin = absolute ? 1 : 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const bool last = end == path.size();
    if (part == "..") {
      if (!kept.empty()) kept.pop_back();
      directory = directory || last;
    } else if (part == ".") {
      directory = directory || last;
    } else if (!(last && part.empty())) {
      kept.push_back(part);
    }
    begin = end + 1;
  }
  std::string result = absolute ? "/" : "";
  for (size_t i = 0; i < kept.size(); ++i) {
    result += kept[i];
    if (i + 1 < kept.size() || directory) result += '/';
  }
  return result;
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      result += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string unescape_pointer(std::string_view token) {
  std::string result;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      result += token[++i] == '0' ? '~' : '/';
    } else {
      result += token[i];
    }
  }
  return result;
}

const std::string* string_member(const SchemaJson& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : found->get_ptr<const std::string*>();
}

std::string_view without_fragment(std::string_view address) {
  return address.substr(0, address.find('#'));
}

}  // namespace

Goal no_value() {
  return {{kTrueSchema, false}};
}

Goal both(const Goal& a, const Goal& b) {
  if (is_nothing(a) || is_nothing(b)) return no_value();
  Goal result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  for (size_t i = 1; i < result.size(); ++i) {
    if (result[i].schema == result[i - 1].schema) return no_value();
  }
  return result;
}

bool is_any(const Goal& goal) {
  return goal.empty();
}

bool is_nothing(const Goal& goal) {
  return goal.size() == 1 && goal[0] == Literal{kTrueSchema, false};
}

const Keyword* find_keyword(std::string_view name) {
  const auto* found = std::lower_bound(kKeywords.begin(), kKeywords.end(), name,
                                       [](const Keyword& a, std::string_view b) { return a.name < b; });
  return found != kKeywords.end() && found->name == name ? &*found : nullptr;
}

std::string escape_pointer(std::string_view token) {
  std::string result;
  for (const char c : token) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

std::string resolve_address(std::string_view base, std::string_view reference) {
  const AddressParts from = split_address(base);
  AddressParts to = split_address(reference);
  std::string path(to.path);
  if (!to.has_scheme) {
    to.scheme = from.scheme;
    to.has_scheme = from.has_scheme;
    if (!to.has_authority) {
      to.authority = from.authority;
      to.has_authority = from.has_authority;
      if (to.path.empty()) {
        path = from.path;
        if (!to.has_query) {
          to.query = from.query;
          to.has_query = from.has_query;
        }
      } else if (!to.path.starts_with('/')) {
        const size_t slash = from.path.rfind('/');
        path = slash == std::string_view::npos ? (from.has_authority ? "/" : "")
                                               : std::string(from.path.substr(0, slash + 1));
        path += to.path;
      }
    }
  }
  std::string result;
  if (to.has_scheme) result.append(to.scheme).append(":");
  if (to.has_authority) result.append("//").append(to.authority);
  result += path.find('.') == std::string::npos ? path : without_dots(path);
  if (to.has_query) result.append("?").append(to.query);
  return result;
}

Result<SchemaIndex> SchemaIndex::build(const SchemaJson& document, Draft draft, int max_nesting) {
  static const SchemaJson kTrue = true;
  SchemaIndex index;
  index.max_nesting_ = max_nesting;
  index.nodes_.push_back({.json = &kTrue});
  index.resources_.emplace("", 1);
  if (!is_schema(document)) return invalid_argument("a schema must be an object, true or false.");
  Status status = index.add(document, {}, 0, draft, 0);
  if (!status) return status.failure();
  return index;
}

Status SchemaIndex::enter_resource(const SchemaJson& json, SchemaId id, int32_t& base, Draft& draft) {
  if (const std::string* address = string_member(json, "$schema")) {
    const std::string_view name = without_fragment(*address);
    const auto* known = std::find_if(kDrafts.begin(), kDrafts.end(),
                                     [&](const DraftAddress& d) { return d.address == name; });
    if (known == kDrafts.end())
      return invalid_argument(cat(pointer(id), "/$schema: this meta-schema is not known."));
    draft = known->draft;
  }
  const std::string* name = string_member(json, draft == Draft::k4 ? "id" : "$id");
  // Next to $ref, older drafts ignore all keywords.
  if (name == nullptr || (draft <= Draft::k7 && json.contains("$ref"))) return {};
  // An anchor, before there was $anchor.
  if (name->starts_with('#')) {
    anchors_.try_emplace(bases_[static_cast<size_t>(base)] + *name, id);
    return {};
  }
  std::string address = resolve_address(bases_[static_cast<size_t>(base)], without_fragment(*name));
  base = static_cast<int32_t>(bases_.size());
  if (!resources_.try_emplace(address, id).second && id != root_)
    return invalid_argument(cat(pointer(id), "/$id: two schemas have this identifier."));
  bases_.push_back(std::move(address));
  return {};
}

void SchemaIndex::add_anchors(const SchemaJson& json, SchemaId id, int32_t base) {
  const std::string prefix = bases_[static_cast<size_t>(base)] + "#";
  if (const std::string* anchor = string_member(json, "$anchor")) anchors_.try_emplace(prefix + *anchor, id);
  if (const std::string* anchor = string_member(json, "$dynamicAnchor")) {
    anchors_.try_emplace(prefix + *anchor, id);
    dynamic_anchors_[*anchor].push_back(id);
  }
}

Status SchemaIndex::add(const SchemaJson& json, Place place, int32_t base, Draft draft, int nesting) {
  if (ids_.contains(&json)) return {};
  const auto id = static_cast<SchemaId>(nodes_.size());
  nodes_.push_back({.json = &json,
                    .parent = place.parent,
                    .keyword = place.keyword,
                    .key = place.key,
                    .index = place.index,
                    .path = std::move(place.path)});
  ids_.emplace(&json, id);
  if (nesting > max_nesting_)
    return invalid_argument(cat(pointer(id), ": the schema is nested more than ", max_nesting_, " deep."));
  if (json.is_object()) {
    Status status = enter_resource(json, id, base, draft);
    if (!status) return status;
    add_anchors(json, id, base);
  }
  nodes_.back().base = base;
  nodes_.back().draft = draft;
  return json.is_object() ? add_children(json, id, base, draft, nesting + 1) : Status();
}

Status SchemaIndex::add_children(const SchemaJson& json, SchemaId id, int32_t base, Draft draft,
                                 int nesting) {
  for (const auto& [name, value] : json.items()) {
    const Keyword* keyword = find_keyword(name);
    if (keyword == nullptr || keyword->shape == Shape::kValue) continue;
    Status status;
    const auto add_one = [&](const SchemaJson& child, std::string_view key, int32_t index) {
      if (status && is_schema(child))
        status = add(child, {.parent = id, .keyword = keyword->name, .key = key, .index = index, .path = {}},
                     base, draft, nesting);
    };
    const bool map = keyword->shape == Shape::kSchemaMap || keyword->shape == Shape::kDependencies;
    if (value.is_array()) {
      int32_t i = 0;
      if (keyword->shape == Shape::kSchemas || keyword->shape == Shape::kSchemaOrSchemas)
        for (const SchemaJson& child : value) add_one(child, {}, i++);
    } else if (map && value.is_object()) {
      for (auto member = value.begin(); member != value.end(); ++member)
        add_one(member.value(), member.key(), 0);
    } else if (!map) {
      add_one(value, {}, -1);
    }
    if (!status) return status;
  }
  return {};
}

std::string SchemaIndex::pointer(SchemaId id) const {
  std::vector<std::string> parts;
  while (id >= 0) {
    const SchemaNode& n = node(id);
    if (!n.path.empty()) {
      parts.push_back(n.path);
      break;
    }
    if (n.parent < 0) break;
    std::string part = cat("/", n.keyword);
    if (n.index >= 0)
      part += cat("/", n.key.data() != nullptr ? escape_pointer(n.key) : std::to_string(n.index));
    parts.push_back(std::move(part));
    id = n.parent;
  }
  std::string result;
  for (size_t i = parts.size(); i-- > 0;) result += parts[i];
  return result;
}

SchemaId SchemaIndex::find(const SchemaJson& json) const {
  const auto found = ids_.find(&json);
  return found == ids_.end() ? -1 : found->second;
}

Result<SchemaId> SchemaIndex::walk(SchemaId from, std::string_view pointer_text) {
  SchemaId nearest = from;
  const SchemaJson* json = node(from).json;
  std::string path = pointer(from);
  while (!pointer_text.empty()) {
    pointer_text.remove_prefix(1);
    const size_t end = std::min(pointer_text.find('/'), pointer_text.size());
    const std::string token = unescape_pointer(pointer_text.substr(0, end));
    pointer_text.remove_prefix(end);
    path += cat("/", escape_pointer(token));
    const SchemaJson* next = nullptr;
    if (json->is_object()) {
      const auto found = json->find(token);
      if (found != json->end()) next = &*found;
    } else if (json->is_array() && !token.empty() && token.size() < 9 &&
               token.find_first_not_of("0123456789") == std::string::npos) {
      const size_t i = std::stoul(token);
      if (i < json->size()) next = &(*json)[i];
    }
    if (next == nullptr) return invalid_argument("refers to nothing.");
    json = next;
    if (const SchemaId id = find(*json); id >= 0) nearest = id;
  }
  if (const SchemaId id = find(*json); id >= 0) return id;
  if (!is_schema(*json)) return invalid_argument("refers to something that is not a schema.");
  const SchemaNode& around = node(nearest);
  const auto id = static_cast<SchemaId>(nodes_.size());
  Status status = add(*json, {.parent = -1, .keyword = {}, .key = {}, .index = -1, .path = path}, around.base,
                      around.draft, 1);
  if (!status) return status.failure();
  return id;
}

Result<SchemaId> SchemaIndex::resolve(SchemaId from, const std::string& reference) {
  const std::string& base = bases_[static_cast<size_t>(node(from).base)];
  const size_t hash = reference.find('#');
  const std::string_view address = without_fragment(reference);
  const std::string target = address.empty() ? base : resolve_address(base, address);
  const auto resource = resources_.find(target);
  if (resource == resources_.end()) return invalid_argument("refers to another document.");
  const std::string fragment = hash == std::string::npos ? "" : percent_decoded(reference.substr(hash + 1));
  if (fragment.empty()) return resource->second;
  if (fragment[0] == '/') return walk(resource->second, fragment);
  const auto anchor = anchors_.find(target + "#" + fragment);
  if (anchor == anchors_.end()) return invalid_argument("refers to nothing.");
  return anchor->second;
}

Result<SchemaId> SchemaIndex::resolve_dynamic(SchemaId from, const std::string& reference) {
  Result<SchemaId> target = resolve(from, reference);
  if (!target) return target;
  const SchemaJson& json = *node(*target).json;
  if (reference == "#") {
    // $recursiveRef
    const auto found = json.is_object() ? json.find("$recursiveAnchor") : json.end();
    if (json.is_object() && found != json.end() && *found == true)
      return invalid_argument("depends on the way by which it is reached.");
    return target;
  }
  const size_t hash = reference.find('#');
  if (hash == std::string::npos || !json.is_object()) return target;
  const std::string* anchor = string_member(json, "$dynamicAnchor");
  if (anchor == nullptr || *anchor != reference.substr(hash + 1)) return target;
  if (dynamic_anchors_[*anchor].size() > 1)
    return invalid_argument("depends on the way by which it is reached.");
  return target;
}

SchemaId SchemaIndex::add_constant(const SchemaJson& value) {
  const auto [found, added] = constants_.try_emplace(&value, static_cast<SchemaId>(nodes_.size()));
  if (added) nodes_.push_back({.kind = SchemaNode::Kind::kConstant, .json = &value});
  return found->second;
}

SchemaId SchemaIndex::add_any_of(std::vector<Goal> goals) {
  const auto id = static_cast<SchemaId>(nodes_.size());
  nodes_.push_back({.kind = SchemaNode::Kind::kAnyOf, .any_of = std::move(goals)});
  return id;
}

}  // namespace quire::grammar
