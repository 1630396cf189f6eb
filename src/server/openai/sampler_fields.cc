#include "server/openai/sampler_fields.h"

#include <set>
#include <utility>

#include "base/strings.h"

namespace quire {
namespace {

constexpr std::pair<std::string_view, float SamplingParams::*> kNumbers[] = {
    {"typical_p", &SamplingParams::typical_p},
    {"top_n_sigma", &SamplingParams::top_n_sigma},
    {"dynatemp_range", &SamplingParams::dynatemp_range},
    {"dynatemp_exponent", &SamplingParams::dynatemp_exponent},
    {"xtc_probability", &SamplingParams::xtc_probability},
    {"xtc_threshold", &SamplingParams::xtc_threshold},
    {"dry_multiplier", &SamplingParams::dry_multiplier},
    {"dry_base", &SamplingParams::dry_base},
    {"mirostat_tau", &SamplingParams::mirostat_tau},
    {"mirostat_eta", &SamplingParams::mirostat_eta},
};

constexpr std::pair<std::string_view, int32_t SamplingParams::*> kIntegers[] = {
    {"min_keep", &SamplingParams::min_keep},
    {"dry_allowed_length", &SamplingParams::dry_allowed_length},
    {"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n},
    {"mirostat", &SamplingParams::mirostat_mode},  // of llama.cpp
    {"mirostat_mode", &SamplingParams::mirostat_mode},
};

constexpr std::pair<std::string_view, std::vector<std::string> SamplingParams::*> kTexts[] = {
    {"samplers", &SamplingParams::samplers},
    {"dry_sequence_breakers", &SamplingParams::dry_sequence_breakers},
    {"bad_words", &SamplingParams::bad_words},
};

constexpr std::pair<std::string_view, std::vector<TokenId> SamplingParams::*> kTokens[] = {
    {"logprob_token_ids", &SamplingParams::logprob_token_ids},
    {"prompt_logprob_token_ids", &SamplingParams::prompt_logprob_token_ids},
};

// Responses have one entry per token.
std::vector<TokenId> distinct(const std::vector<TokenId>& ids) {
  std::vector<TokenId> result;
  std::set<TokenId> seen;
  for (const TokenId id : ids) {
    if (seen.insert(id).second) result.push_back(id);
  }
  return result;
}

}  // namespace

void read_sampler_fields(FieldReader& fields, int32_t vocab_size, SamplingParams& sampling) {
  for (const auto& [name, field] : kNumbers) {
    if (const auto value = fields.number(name)) sampling.*field = static_cast<float>(*value);
  }
  for (const auto& [name, field] : kIntegers) {
    if (const auto value = fields.integer32(name)) sampling.*field = *value;
  }
  for (const auto& [name, field] : kTexts) {
    if (auto value = fields.texts(name)) sampling.*field = std::move(*value);
  }
  for (const auto& [name, field] : kTokens) {
    if (auto value = fields.tokens(name, vocab_size)) sampling.*field = distinct(*value);
  }
  if (const Json* detection = fields.object("repetition_detection")) {
    const auto read = read_repetition_detection(*detection);
    if (!read.ok()) return fields.fail(read.failure().message, "repetition_detection");
    sampling.repetition_detection = *read;
  }
}

Result<RepetitionDetection> read_repetition_detection(const Json& object) {
  RepetitionDetection detection;
  FieldReader fields(object);
  detection.max_pattern_size = fields.integer32("max_pattern_size").value_or(0);
  detection.min_pattern_size = fields.integer32("min_pattern_size").value_or(0);
  detection.min_count = fields.integer32("min_count").value_or(0);
  if (!fields.ok()) {
    return invalid_argument(cat("repetition_detection: ", fields.failure().message), "repetition_detection");
  }
  if (const auto unread = fields.unread(); !unread.empty()) {
    return invalid_argument(cat("repetition_detection: the field '", unread.front().substr(0, 80),
                                "' is unknown; it has max_pattern_size, min_pattern_size and min_count."),
                            "repetition_detection");
  }
  return detection;
}

}  // namespace quire
