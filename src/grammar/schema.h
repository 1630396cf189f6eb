// JSON Schema, drafts 4 to 2020-12, as grammars. A keyword is enforced exactly, or the schema is refused with
// the JSON pointer and the reason. Keys come in the order of the schema, further keys after them.
// docs/structured-output.md lists what is supported. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/json_number.h"
#include "grammar/json_text.h"
#include "grammar/limits.h"
#include "grammar/schema_index.h"

namespace quire::grammar {

struct SchemaOptions {
  JsonSpacing spacing = JsonSpacing::kFree;
  NumberSpelling numbers = NumberSpelling::kAny;
  Draft draft = Draft::k2020;  // of schemas without $schema
  Limits limits;
};

struct SchemaGrammar {
  Grammar grammar;
  // JSON pointers of unknown keywords, and of formats that have no effect, with the format's name.
  std::vector<std::string> ignored;
};
// A failure's message starts with a JSON pointer.
Result<SchemaGrammar> schema_grammar(const SchemaJson& schema, const SchemaOptions& options = {});

struct AddedSchema {
  Symbol symbol;
  std::vector<std::string> ignored;
};
// Adds the rules of a schema to a grammar. After a failure the grammar has parts of them.
Result<AddedSchema> add_schema(Grammar& grammar, const SchemaJson& schema, const SchemaOptions& options = {});

// The JSON text of a schema, within the limits.
Result<SchemaJson> parse_schema(std::string_view text, const Limits& limits = {});

struct KeywordReport {
  enum class Effect : uint8_t { kEnforced, kNone, kRefused };
  std::string pointer;
  Effect effect = Effect::kEnforced;
  std::string reason;  // unless enforced
};
// One entry for each keyword of the schema, in its order, and one with the pointer "" if the whole schema is
// refused.
std::vector<KeywordReport> check_schema(const SchemaJson& schema, const SchemaOptions& options = {});

}  // namespace quire::grammar
