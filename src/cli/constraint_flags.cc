#include "cli/constraint_flags.h"

#include "io/json_file.h"

namespace quire::cli {
void add_constraint_flags(CLI::App& command, std::optional<StructuredOutputs>& constraint,
                          const std::string& group) {
  using Kind = StructuredOutputs::Kind;
  CLI::Option* schema = command.add_option_function<std::string>(
      "--json-schema",
      [&constraint](const std::string& value) {
        // A schema begins with a brace, which no path does.
        const bool literal = value.find_first_not_of(" \t\n") != std::string::npos &&
                             value[value.find_first_not_of(" \t\n")] == '{';
        constraint = StructuredOutputs{.kind = Kind::kJsonSchema,
                                       .text = literal ? value : read_text_file(value),
                                       .field = "--json-schema"};
      },
      "Generate JSON that is valid for this JSON Schema: a file, or the schema itself");
  CLI::Option* regex = command.add_option_function<std::string>(
      "--regex",
      [&constraint](const std::string& value) {
        constraint = StructuredOutputs{.kind = Kind::kRegex, .text = value, .field = "--regex"};
      },
      "Generate text that matches this regular expression");
  CLI::Option* grammar = command.add_option_function<std::string>(
      "--grammar",
      [&constraint](const std::string& value) {
        constraint =
            StructuredOutputs{.kind = Kind::kGrammar, .text = read_text_file(value), .field = "--grammar"};
      },
      "Generate text of the grammar in this file (GBNF or EBNF)");
  schema->type_name("FILE")->group(group);
  regex->type_name("PATTERN")->group(group)->excludes(schema);
  grammar->type_name("FILE")->group(group)->excludes(schema)->excludes(regex);
}

}  // namespace quire::cli
