// The formats of a model's output: those of its chat template, or those that a person has named.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/chat/chat_templates.h"
#include "text/output/detect_format.h"

namespace quire {

class Tokenizer;

// Names of parsers as given with --tool-call-parser and --reasoning-parser: a row's name or alias, "none", or
// "auto" for what the template shows, as if nothing were given.
struct ParserNames {
  std::optional<std::string> calls;
  std::optional<std::string> reasoning;
};

// Throws Error, which lists the names, if one is unknown.
void check_parser_names(const ParserNames& names);
// Replaces what is named. Throws Error like check_parser_names().
void apply_parser_names(const ParserNames& names, DetectedFormat& formats);

// The template that requests with tools get; null if the model has none.
const ChatTemplate* tool_template(const ChatTemplates& templates);
// detect_format() for that template. tokenizer: for the special tokens; null if the model has none.
DetectedFormat detect_formats(const ChatTemplates& templates, const Tokenizer* tokenizer);

}  // namespace quire
