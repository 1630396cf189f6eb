// Flags that several commands share, and what they fill.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/engine_config.h"
#include "quire/llm.h"

namespace quire::cli {

// A subcommand with the flags that all have: --config, --log-level.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description);

// The engine's flags; `config` must live until the parse is over.
void add_engine_flags(CLI::App& command, EngineConfig& config);
// Only MODEL and --chat-template: commands that read texts and run nothing.
void add_model_flag(CLI::App& command, std::string& model);

// Sampling fields as flags. Only those given on the command line are set, so that the model's defaults stand.
struct SamplingFlags {
  std::optional<int> n, max_tokens, top_k, min_tokens, logprobs, prompt_logprobs;
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> sampling_seed;
  bool use_beam_search = false;
  std::optional<int> best_of;
  std::optional<float> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::vector<std::string> stop;
  std::vector<int> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool keep_special_tokens = false;

  void apply(SamplingParams& params) const;
};
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// "4GiB" -> bytes, as a CLI11 check and transform.
CLI::Validator byte_size();

// "250ms" -> seconds, likewise.
CLI::Validator duration();

// A flag that takes one of a table's names; the table must live until the parse is over.
template <typename T>
CLI::Option* add_choice(CLI::App& command, const std::string& name, T& field,
                        const std::map<std::string, T>& table, const std::string& standard,
                        const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&field, &table](const std::string& text) { field = table.at(text); }, help)
      ->check(CLI::IsMember(table))
      ->default_str(standard);
}

// Arguments with those of the YAML file that --config names put in, where the command line does not give them
// itself. Throws Error.
std::vector<std::string> with_config_file(std::vector<std::string> arguments);

}  // namespace quire::cli
