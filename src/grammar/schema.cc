#include "grammar/schema.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "grammar/schema_emit.h"
#include "grammar/schema_meaning.h"
#include "grammar/schema_reader.h"

namespace quire::grammar {
namespace {

// Schemas that nothing refers to are not judged.
std::vector<std::string> ignored_keywords(const SchemaIndex& index, const SchemaMeaning& meaning,
                                          size_t count) {
  std::vector<std::string> result;
  for (size_t i = 1; i < count; ++i) {
    const auto id = static_cast<SchemaId>(i);
    const SchemaNode& node = index.node(id);
    if (node.kind != SchemaNode::Kind::kSchema || !node.json->is_object() || !meaning.was_used(id)) continue;
    for (auto member = node.json->begin(); member != node.json->end(); ++member) {
      if (result.size() >= 100) return result;
      if (find_keyword(member.key()) == nullptr) {
        result.push_back(cat(index.pointer(id), "/", escape_pointer(member.key())));
      } else if (member.key() == "format" && member.value().is_string() &&
                 !format_content(member.value().get<std::string>())) {
        result.push_back(cat(index.pointer(id), "/format: ", member.value().get<std::string>()));
      }
    }
  }
  return result;
}

struct Translation {
  Symbol symbol;
  std::vector<std::string> ignored;
  std::optional<SchemaRefusal> refusal;
  std::set<std::string> used;  // pointers of schemas whose meaning was asked for, if `with_used`
};

Translation translate(Grammar& grammar, const SchemaJson& schema, const SchemaOptions& options,
                      bool with_used = false) {
  Result<SchemaIndex> index = SchemaIndex::build(schema, options.draft, options.limits.nesting);
  if (!index) {
    const std::string& message = index.failure().message;
    const size_t colon = message.starts_with('/') ? message.find(": ") : std::string::npos;
    if (colon == std::string::npos) return {{}, {}, SchemaRefusal{"", message}, {}};
    return {{}, {}, SchemaRefusal{message.substr(0, colon), message.substr(colon + 2)}, {}};
  }
  SchemaMeaning meaning(*index, options.limits);
  SchemaEmitter emitter(meaning, grammar, options.spacing, options.numbers, options.limits);
  Goal goal;
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) goal = no_value();
  } else if (!schema.empty()) {
    goal = {{index->root(), true}};
  }
  Translation result;
  result.symbol = emitter.emit(goal);
  if (!meaning.failed()) {
    const bool possible = emitter.remove_empty(result.symbol);
    meaning.spend(index->root(), 0);  // refuses if the answer is not certain
    if (!possible) meaning.refuse(index->root(), "", "no value satisfies the schema.");
  }
  result.refusal = meaning.refusal();
  if (!result.refusal) result.ignored = ignored_keywords(*index, meaning, index->size());
  for (size_t i = 1; with_used && i < index->size(); ++i) {
    const auto id = static_cast<SchemaId>(i);
    if (index->node(id).kind == SchemaNode::Kind::kSchema && meaning.was_used(id))
      result.used.insert(index->pointer(id));
  }
  return result;
}

// Why a keyword has no effect; "" if it has one.
std::string without_effect(const SchemaJson& schema, const std::string& name, const SchemaJson& value) {
  const Keyword* keyword = find_keyword(name);
  if (keyword == nullptr) return "unknown keyword";
  if (keyword->effect == KeywordEffect::kAnnotation) return "annotation";
  if (keyword->effect == KeywordEffect::kIdentifier) return "names or holds schemas";
  if ((name == "then" || name == "else") && !schema.contains("if")) return "there is no `if`";
  if ((name == "minContains" || name == "maxContains") && !schema.contains("contains"))
    return "there is no `contains`";
  if (name == "format" && value.is_string() && !format_content(value.get<std::string>()))
    return "this format is not enforced";
  return "";
}

// Takes what a pointer names out of the document. False if there is no such place.
bool remove_at(SchemaJson& document, const std::string& pointer) {
  if (pointer.empty()) return false;
  const SchemaJson::json_pointer place(pointer);
  if (!document.contains(place)) return false;
  SchemaJson& parent = document.at(place.parent_pointer());
  if (parent.is_array()) {
    document.at(place) = true;
  } else {
    parent.erase(place.back());
  }
  return true;
}

}  // namespace

Result<AddedSchema> add_schema(Grammar& grammar, const SchemaJson& schema, const SchemaOptions& options) {
  Translation translation = translate(grammar, schema, options);
  if (translation.refusal)
    return invalid_argument(cat(translation.refusal->pointer, ": ", translation.refusal->reason));
  return AddedSchema{translation.symbol, std::move(translation.ignored)};
}

Result<SchemaGrammar> schema_grammar(const SchemaJson& schema, const SchemaOptions& options) {
  SchemaGrammar result;
  Result<AddedSchema> added = add_schema(result.grammar, schema, options);
  if (!added) return added.failure();
  result.grammar.start = added->symbol.id;
  result.ignored = std::move(added->ignored);
  return result;
}

Result<SchemaJson> parse_schema(std::string_view text, const Limits& limits) {
  if (text.size() > limits.specification_bytes)
    return invalid_argument(cat(": the schema has more than ", limits.specification_bytes, " bytes."));
  // Subschemas are two levels apart where keywords hold several.
  SchemaReader reader(static_cast<size_t>(limits.nesting) * 2);
  if (SchemaJson::sax_parse(text, &reader)) return std::move(reader.document());
  if (reader.error().empty()) return invalid_argument(": the schema is not valid JSON.");
  return invalid_argument(": " + reader.error());
}

std::vector<KeywordReport> check_schema(const SchemaJson& schema, const SchemaOptions& options) {
  // A translation ends with the first refusal. To find the others, refused keywords are taken out one by one.
  constexpr int kMaxRefusals = 50;
  std::map<std::string, std::string> refusals;
  std::set<std::string> used;
  SchemaJson rest = schema;
  for (int i = 0; i < kMaxRefusals; ++i) {
    Grammar grammar;
    Translation translation = translate(grammar, rest, options, true);
    used.insert(translation.used.begin(), translation.used.end());
    if (!translation.refusal) break;
    refusals.emplace(translation.refusal->pointer, translation.refusal->reason);
    if (!remove_at(rest, translation.refusal->pointer)) break;
  }
  std::vector<KeywordReport> report;
  const auto add_refusal = [&](const std::string& pointer) {
    const auto found = refusals.find(pointer);
    if (found == refusals.end()) return false;
    report.push_back({pointer, KeywordReport::Effect::kRefused, found->second});
    refusals.erase(found);
    return true;
  };
  const Result<SchemaIndex> index = SchemaIndex::build(schema, options.draft, options.limits.nesting);
  for (size_t i = 1; index && i < index->size(); ++i) {
    const auto id = static_cast<SchemaId>(i);
    const SchemaJson& json = *index->node(id).json;
    const std::string pointer = index->pointer(id);
    add_refusal(pointer);
    if (!json.is_object()) continue;
    for (auto member = json.begin(); member != json.end(); ++member) {
      const std::string place = cat(pointer, "/", escape_pointer(member.key()));
      if (add_refusal(place)) continue;
      std::string reason = without_effect(json, member.key(), member.value());
      if (reason.empty() && !used.contains(pointer)) reason = "nothing refers to this schema";
      const bool none = !reason.empty();
      report.push_back(
          {place, none ? KeywordReport::Effect::kNone : KeywordReport::Effect::kEnforced, reason});
    }
  }
  // Places below keywords, such as one pattern of `patternProperties`.
  while (!refusals.empty()) add_refusal(std::string(refusals.begin()->first));
  return report;
}

}  // namespace quire::grammar
