// Flags and commands that people bring from vLLM, llama.cpp and Ollama, as plain data
// (foreign_flag_table.cc). docs/moving-from-*.md list the same, and a test compares both.
//
// A flag of quire takes precedence over a row with the same name. The row of a feature is removed when quire
// gets its flag.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace quire::cli {

enum class Origin : uint8_t { kVllm, kLlamaCpp, kOllama };

enum class ForeignAction : uint8_t {
  kSame,         // replaced by `here`
  kModel,        // the value is the model
  kModelFile,    // the value is a file in the repository of the model
  kIgnored,      // changes nothing here: accepted, and `note` is printed
  kUnavailable,  // refused with `note`: the counterpart or the reason
};

enum class ForeignValue : uint8_t { kNone, kOne, kOptional };

struct ForeignFlag {
  std::string_view names;  // separated by spaces, with "-" where vLLM also accepts "_"
  ForeignAction action = ForeignAction::kIgnored;
  ForeignValue value = ForeignValue::kNone;
  std::string_view here{};      // kSame: a flag, or a flag with its value, "--runner=pooling"
  std::string_view note{};      // a clause without a capital letter and a full stop
  std::string_view harmless{};  // kUnavailable: values that change nothing; kOptional: all values
  std::string_view unit{};      // kSame: added to a value that is a number
  std::string_view commands{};  // the row is for these commands only; empty = all
};

struct ForeignCommand {
  std::string_view name;
  std::string_view here;  // the command that replaces it; empty = refused with `note`
  std::string_view note;
};

// Values of quire's flags that other programs write in another way.
struct ForeignValueName {
  std::string_view flag;
  std::string_view name;
  std::string_view here;
};

std::span<const ForeignFlag> foreign_flags(Origin origin);
std::span<const ForeignCommand> foreign_commands();
std::span<const ForeignValueName> foreign_values();

// The row of a flag for a command; null if there is none. Rows for some commands precede those for all.
const ForeignFlag* find_foreign_flag(std::string_view name, std::string_view command);

// Whether `words`, separated by spaces, has this word.
bool has_word(std::string_view words, std::string_view word);

}  // namespace quire::cli
