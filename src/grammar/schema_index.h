// The subschemas of a JSON Schema document: their identifiers, anchors and base addresses, and what $ref
// refers to. Drafts 4 to 2020-12. Also holds schemas that no document contains but that arise while schemas
// are combined. Owned by one translation; used by one thread. The document must outlive it.
#pragma once

#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"

namespace quire::grammar {

// Keeps the order of keys, which is the order of keys in outputs.
using SchemaJson = nlohmann::ordered_json;

using SchemaId = int32_t;

// A schema or its opposite. Sorted and without duplicates, literals are a goal: what a value must satisfy.
// The goal without literals is any value.
struct Literal {
  SchemaId schema = 0;
  bool positive = true;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes <=> for a comparison with 0
  friend auto operator<=>(const Literal&, const Literal&) = default;
};
using Goal = std::vector<Literal>;

// The schema `true`, so that its opposite is `false`.
constexpr SchemaId kTrueSchema = 0;

Goal no_value();
Goal both(const Goal& a, const Goal& b);
bool is_any(const Goal& goal);
bool is_nothing(const Goal& goal);

enum class Draft : uint8_t { k4, k6, k7, k2019, k2020 };

struct SchemaNode {
  enum class Kind : uint8_t { kSchema, kConstant, kAnyOf };
  Kind kind = Kind::kSchema;
  const SchemaJson* json = nullptr;  // the schema or the constant
  std::vector<Goal> any_of = {};     // kAnyOf
  // Where it is: the parent's keyword, and the key or index below it.
  SchemaId parent = -1;
  std::string_view keyword = {};
  std::string_view key = {};
  int32_t index = -1;
  std::string path = {};  // of schemas that only a $ref knows; from the root
  int32_t base = 0;
  Draft draft = Draft::k2020;
};

// How a keyword contains schemas.
enum class KeywordShape : uint8_t { kValue, kSchema, kSchemas, kSchemaMap, kSchemaOrSchemas, kDependencies };
enum class KeywordEffect : uint8_t {
  kEnforced,
  kIdentifier,  // locates schemas, and restricts nothing
  kAnnotation,  // without effect by the standard
};
struct Keyword {
  std::string_view name;
  KeywordShape shape = KeywordShape::kValue;
  KeywordEffect effect = KeywordEffect::kEnforced;
};
// Nothing for unknown keywords.
const Keyword* find_keyword(std::string_view name);

// "~" and "/" as JSON pointers write them.
std::string escape_pointer(std::string_view token);

class SchemaIndex {
 public:
  // Fails if the document is nested too deeply or refers to an unknown draft.
  // `draft` is that of documents without $schema.
  static Result<SchemaIndex> build(const SchemaJson& document, Draft draft, int max_nesting);

  SchemaId root() const { return root_; }
  size_t size() const { return nodes_.size(); }
  const SchemaNode& node(SchemaId id) const { return nodes_[static_cast<size_t>(id)]; }
  // "" for the root.
  std::string pointer(SchemaId id) const;
  SchemaId child(SchemaId id, std::string_view keyword) const;
  // The id of a subschema of the document.
  SchemaId find(const SchemaJson& json) const;

  // The target of a $ref within schema `from`.
  Result<SchemaId> resolve(SchemaId from, const std::string& reference);
  // The same for $dynamicRef and $recursiveRef, unless the target depends on the way to it.
  Result<SchemaId> resolve_dynamic(SchemaId from, const std::string& reference);

  SchemaId add_constant(const SchemaJson& value);
  SchemaId add_any_of(std::vector<Goal> goals);

 private:
  struct Place {
    SchemaId parent = -1;
    std::string_view keyword;
    std::string_view key;
    int32_t index = -1;
    std::string path;
  };
  SchemaIndex() = default;
  Status add(const SchemaJson& json, Place place, int32_t base, Draft draft, int nesting);
  Status add_children(const SchemaJson& json, SchemaId id, int32_t base, Draft draft, int nesting);
  Status enter_resource(const SchemaJson& json, SchemaId id, int32_t& base, Draft& draft);
  void add_anchors(const SchemaJson& json, SchemaId id, int32_t base);
  Result<SchemaId> walk(SchemaId from, std::string_view pointer);

  SchemaId root_ = 1;
  int max_nesting_ = 100;
  std::vector<SchemaNode> nodes_;
  std::vector<std::string> bases_ = {""};
  std::unordered_map<const SchemaJson*, SchemaId> ids_;
  std::unordered_map<const SchemaJson*, SchemaId> constants_;
  std::unordered_map<std::string, SchemaId> resources_;  // by address
  std::unordered_map<std::string, SchemaId> anchors_;    // by "address#anchor"
  std::unordered_map<std::string, std::vector<SchemaId>> dynamic_anchors_;
};

// RFC 3986, section 5.2: `reference` relative to `base`.
std::string resolve_address(std::string_view base, std::string_view reference);

}  // namespace quire::grammar
