// Structural tags of vLLM and xgrammar: free text in which triggers start tags whose content is constrained.
// Both the form with `structures` and `triggers` and the form with `format` are read. Free text ends where a
// trigger, or the end of the tag around it, occurs for the first time. Thread-safe.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/special_tokens.h"

namespace quire::grammar {

struct StructuralTagOptions {
  // Adds the JSON texts that are valid for the schema at `pointer` in the structural tag. A
  // failure's message names the pointer of the keyword.
  std::function<Result<Symbol>(Grammar& grammar, const nlohmann::ordered_json& schema,
                               const std::string& pointer)>
      add_schema;
  SpecialTokens tokens;
  Limits limits;
};

// A failure's message starts with the JSON pointer of the part that is wrong or not supported.
Result<Grammar> parse_structural_tag(const nlohmann::ordered_json& tag, const StructuralTagOptions& options);

}  // namespace quire::grammar
