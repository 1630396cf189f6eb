// Flags that several commands share, and the records they fill.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/sampler_flags.h"
#include "contract/engine_config.h"
#include "quire/llm.h"

namespace quire {
class Engine;
}

namespace quire::cli {

// Adds a subcommand with the flags of all commands: --config, --log-level.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description);

// Adds the engine's flags. `config` must outlive the parse.
void add_engine_flags(CLI::App& command, EngineConfig& config);
// Adds the positional argument MODEL and --revision only, for commands that do not run the model.
void add_model_flag(CLI::App& command, std::string& model, std::string& revision);
// Downloads a model that is given by name and not in the cache, with a progress line. text_only: the
// tokenizer and templates are enough. Does nothing for a path.
void fetch_with_progress(const std::string& model, const std::string& revision, bool text_only = false);
// The same for the model of an engine, whose flags are checked first.
void fetch_with_progress(const EngineConfig& config);

// Loads a model with a progress bar, after fetch_with_progress(). Throws Error.
std::unique_ptr<Engine> start_engine(const EngineConfig& config);

// Sampling parameters as flags. apply() sets only those given on the command line, so the model's defaults
// remain in effect for the others.
struct SamplingFlags {
  std::optional<int> n, max_tokens, top_k, min_tokens, logprobs, prompt_logprobs, thinking_token_budget;
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
  std::optional<StructuredOutputs> structured_outputs;
  SamplingChanges changes;  // made by the flags in cli/sampler_flags.h

  void apply(SamplingParams& params) const;
};
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// Adds --lora. Its value is one of the adapters that --lora-modules names, or a path.
void add_lora_flag(CLI::App& command, std::string& lora);
// The name of the adapter `lora` in `config`, to which a path is added; empty = the base model.
std::string lora_name(const std::string& lora, EngineConfig& config);

// CLI11 validator that converts a size such as "4GiB" to bytes.
CLI::Validator byte_size();

// CLI11 validator that converts a number of tokens such as "32k" (32,000, as in vLLM) or "32K" (32,768).
CLI::Validator token_count();

// CLI11 validator that converts a duration such as "250ms" to seconds.
CLI::Validator duration();

// Adds a flag whose values are the names in `table`, which must outlive the parse.
template <typename T>
CLI::Option* add_choice(CLI::App& command, const std::string& name, T& field,
                        const std::map<std::string, T>& table, const std::string& default_name,
                        const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&field, &table](const std::string& text) { field = table.at(text); }, help)
      ->check(CLI::IsMember(table))
      ->default_str(default_name);
}

// Returns the arguments plus those of the YAML file named by --config; flags on the command line take
// precedence. Throws Error with the path if the file cannot be read or is not a map.
std::vector<std::string> with_config_file(std::vector<std::string> arguments);

}  // namespace quire::cli
