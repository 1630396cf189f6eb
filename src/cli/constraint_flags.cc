#include "cli/constraint_flags.h"

#include <utility>

#include "io/json_file.h"

namespace quire::cli {

StructuredOutputs schema_constraint(const std::string& value, std::string field) {
  // A schema begins with a brace, which no path does.
  const size_t first = value.find_first_not_of(" \t\n");
  const bool literal = first != std::string::npos && value[first] == '{';
  return {.kind = StructuredOutputs::Kind::kJsonSchema,
          .text = literal ? value : read_text_file(value),
          .field = std::move(field)};
}

StructuredOutputs regex_constraint(const std::string& value, std::string field) {
  return {.kind = StructuredOutputs::Kind::kRegex, .text = value, .field = std::move(field)};
}

StructuredOutputs grammar_constraint(const std::string& value, std::string field) {
  return {
      .kind = StructuredOutputs::Kind::kGrammar, .text = read_text_file(value), .field = std::move(field)};
}

void add_constraint_flags(CLI::App& command, std::optional<StructuredOutputs>& constraint,
                          const std::string& group) {
  const auto add = [&](const char* name, StructuredOutputs (*make)(const std::string&, std::string),
                       const char* help) {
    return command.add_option_function<std::string>(
        name, [&constraint, make, name](const std::string& value) { constraint = make(value, name); }, help);
  };
  CLI::Option* schema = add("--json-schema", schema_constraint,
                            "Generate JSON that is valid for this JSON Schema: a file, or the schema itself");
  CLI::Option* regex = add("--regex", regex_constraint, "Generate text that matches this regular expression");
  CLI::Option* grammar =
      add("--grammar", grammar_constraint, "Generate text of the grammar in this file (GBNF or EBNF)");
  schema->type_name("FILE")->group(group);
  regex->type_name("PATTERN")->group(group)->excludes(schema);
  grammar->type_name("FILE")->group(group)->excludes(schema)->excludes(regex);
}

}  // namespace quire::cli
