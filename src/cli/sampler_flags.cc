#include "cli/sampler_flags.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/split.h"
#include "base/strings.h"
#include "server/openai/sampler_fields.h"

namespace quire::cli {
namespace {

template <typename T>
struct Flag {
  const char* name;
  T SamplingParams::*field;
  const char* help;
};

constexpr Flag<float> kNumbers[] = {
    {"--typical-p", &SamplingParams::typical_p,
     "Sample from the tokens with the most typical probabilities, with this cumulative probability; 1 = off"},
    {"--top-n-sigma", &SamplingParams::top_n_sigma,
     "Sample from logits within this many standard deviations of the largest; 0 = off"},
    {"--dynatemp-range", &SamplingParams::dynatemp_range,
     "Dynamic temperature: how far it may be from --temperature; 0 = off"},
    {"--dynatemp-exponent", &SamplingParams::dynatemp_exponent,
     "Dynamic temperature: exponent of the entropy (default: 1)"},
    {"--xtc-probability", &SamplingParams::xtc_probability,
     "XTC: how often the most probable tokens are excluded; 0 = off"},
    {"--xtc-threshold", &SamplingParams::xtc_threshold,
     "XTC: tokens of at least this probability are excluded, except for the least probable of them (default: "
     "0.1)"},
    {"--dry-multiplier", &SamplingParams::dry_multiplier,
     "DRY: penalty of tokens that prolong a repetition; 0 = off"},
    {"--dry-base", &SamplingParams::dry_base,
     "DRY: factor of the penalty for each further token of a repetition (default: 1.75)"},
    {"--mirostat-tau", &SamplingParams::mirostat_tau, "Mirostat: target surprise in bits (default: 5)"},
    {"--mirostat-eta", &SamplingParams::mirostat_eta, "Mirostat: learning rate (default: 0.1)"},
};

constexpr Flag<int32_t> kIntegers[] = {
    {"--min-keep", &SamplingParams::min_keep,
     "--min-p, --typical-p, --top-p and XTC leave at least this many tokens"},
    {"--dry-allowed-length", &SamplingParams::dry_allowed_length,
     "DRY: longest repetition without a penalty for the next token (default: 2)"},
    {"--dry-penalty-last-n", &SamplingParams::dry_penalty_last_n,
     "DRY: number of last tokens in which repetitions are looked for; -1 = all (default)"},
    {"--mirostat-mode", &SamplingParams::mirostat_mode,
     "2 = Mirostat 2 instead of top-k, top-p and the like; 0 = off"},
};

constexpr Flag<std::vector<std::string>> kTexts[] = {
    {"--dry-sequence-breakers", &SamplingParams::dry_sequence_breakers,
     "DRY: texts that end repetitions (default: line break, colon, quotation mark, asterisk)"},
    {"--bad-words", &SamplingParams::bad_words, "Texts that the output does not contain"},
};

constexpr Flag<std::vector<TokenId>> kTokens[] = {
    {"--logprob-token-ids", &SamplingParams::logprob_token_ids,
     "Token ids whose log-probabilities are printed per output token, instead of the most likely ones"},
    {"--prompt-logprob-token-ids", &SamplingParams::prompt_logprob_token_ids, "The same per prompt token"},
};

template <typename T>
CLI::Option* add_flag(CLI::App& command, SamplingChanges& changes, const Flag<T>& flag) {
  return command.add_option_function<T>(
      flag.name,
      [&changes, field = flag.field](const T& value) {
        changes.push_back([field, value](SamplingParams& params) { params.*field = value; });
      },
      flag.help);
}

RepetitionDetection parse_repetition_detection(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) {
    throw Error(
        "--repetition-detection must be a JSON object with max_pattern_size, min_pattern_size and "
        "min_count.");
  }
  const auto detection = read_repetition_detection(object);
  if (!detection.ok()) throw Error(cat("--", detection.failure().message));
  return *detection;
}

}  // namespace

void add_sampler_flags(CLI::App& command, SamplingChanges& changes, const std::string& group) {
  for (const Flag<float>& flag : kNumbers) add_flag(command, changes, flag)->group(group);
  for (const Flag<int32_t>& flag : kIntegers) add_flag(command, changes, flag)->group(group);
  for (const auto& flag : kTexts) add_flag(command, changes, flag)->group(group);
  for (const auto& flag : kTokens) add_flag(command, changes, flag)->group(group);
  command
      .add_option_function<std::string>(
          "--samplers",
          [&changes](const std::string& text) {
            changes.push_back(
                [names = split_text(text, ";,")](SamplingParams& params) { params.samplers = names; });
          },
          "Samplers to apply, in this order, separated by semicolons: penalties, dry, top_n_sigma, top_k, "
          "typ_p, top_p, min_p, xtc, temperature (docs/sampling.md)")
      ->type_name("NAMES")
      ->group(group);
  command
      .add_option_function<std::string>(
          "--repetition-detection",
          [&changes](const std::string& text) {
            changes.push_back([detection = parse_repetition_detection(text)](SamplingParams& params) {
              params.repetition_detection = detection;
            });
          },
          "End an output that repeats itself: {\"max_pattern_size\": tokens, \"min_pattern_size\": tokens, "
          "\"min_count\": repetitions}")
      ->type_name("JSON")
      ->group(group);
}

}  // namespace quire::cli
