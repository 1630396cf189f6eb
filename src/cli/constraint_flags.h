// The flags that constrain an output: --json-schema, --regex, --grammar.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "quire/sampling_params.h"

namespace quire::cli {

// The constraints of the flags' values. Throw Error if a file cannot be read.
StructuredOutputs schema_constraint(const std::string& value, std::string field);  // a file or a schema
StructuredOutputs regex_constraint(const std::string& value, std::string field);
StructuredOutputs grammar_constraint(const std::string& value, std::string field);  // a file

// Adds the flags, of which one can be given. `constraint` must outlive the parse.
void add_constraint_flags(CLI::App& command, std::optional<StructuredOutputs>& constraint,
                          const std::string& group);

}  // namespace quire::cli
