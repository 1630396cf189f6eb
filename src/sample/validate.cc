#include "sample/validate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "base/strings.h"
#include "sample/sampler_chain.h"

namespace quire {
namespace {

enum class Lower { kClosed, kOpen };

struct FloatRange {
  std::string_view name;
  float SamplingParams::*field;
  Lower lower;
  float min_value;
  float max_value;  // infinity = any finite value
};

constexpr float kNoBound = std::numeric_limits<float>::infinity();

constexpr FloatRange kFloatRanges[] = {
    {"temperature", &SamplingParams::temperature, Lower::kClosed, 0.0F, 2.0F},
    {"top_p", &SamplingParams::top_p, Lower::kOpen, 0.0F, 1.0F},
    {"min_p", &SamplingParams::min_p, Lower::kClosed, 0.0F, 1.0F},
    {"repetition_penalty", &SamplingParams::repetition_penalty, Lower::kOpen, 0.0F, kNoBound},
    {"presence_penalty", &SamplingParams::presence_penalty, Lower::kClosed, -2.0F, 2.0F},
    {"frequency_penalty", &SamplingParams::frequency_penalty, Lower::kClosed, -2.0F, 2.0F},
    {"typical_p", &SamplingParams::typical_p, Lower::kOpen, 0.0F, 1.0F},
    {"top_n_sigma", &SamplingParams::top_n_sigma, Lower::kClosed, -1.0F, kNoBound},
    {"dynatemp_range", &SamplingParams::dynatemp_range, Lower::kClosed, 0.0F, kNoBound},
    {"dynatemp_exponent", &SamplingParams::dynatemp_exponent, Lower::kClosed, 0.0F, kNoBound},
    {"xtc_probability", &SamplingParams::xtc_probability, Lower::kClosed, 0.0F, 1.0F},
    {"xtc_threshold", &SamplingParams::xtc_threshold, Lower::kClosed, 0.0F, 1.0F},
    {"dry_multiplier", &SamplingParams::dry_multiplier, Lower::kClosed, 0.0F, kNoBound},
    {"dry_base", &SamplingParams::dry_base, Lower::kClosed, 1.0F, kNoBound},
    {"mirostat_tau", &SamplingParams::mirostat_tau, Lower::kClosed, 0.0F, kNoBound},
    {"mirostat_eta", &SamplingParams::mirostat_eta, Lower::kClosed, 0.0F, 1.0F},
    // length^20 and its inverse are finite for every length.
    {"length_penalty", &SamplingParams::length_penalty, Lower::kClosed, -20.0F, 20.0F},
};

// Parameters that beam search does not support, because it uses the model's probabilities directly.
constexpr std::pair<std::string_view, float SamplingParams::*> kSamplingOnly[] = {
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
    {"typical_p", &SamplingParams::typical_p},
    {"top_n_sigma", &SamplingParams::top_n_sigma},
    {"dynatemp_range", &SamplingParams::dynatemp_range},
    {"xtc_probability", &SamplingParams::xtc_probability},
    {"dry_multiplier", &SamplingParams::dry_multiplier},
};

struct IntRange {
  std::string_view name;
  int32_t SamplingParams::*field;
  int32_t min_value;
  int32_t max_value;
};

constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxLogprobTokenIds = 128;
constexpr size_t kMaxBadWords = 1024;
constexpr size_t kMaxBreakers = 32;  // each is searched in the whole vocabulary
constexpr size_t kMaxBadWordBytes = 1024;
constexpr size_t kMaxBreakerBytes = 40;
constexpr int32_t kMaxPatternSize = 1024;  // each is compared with the end of the output at each token

constexpr IntRange kIntRanges[] = {
    {"n", &SamplingParams::n, 1, kMaxSamplesPerRequest},
    {"best_of", &SamplingParams::beam_width, 0, kMaxSamplesPerRequest},
    {"top_k", &SamplingParams::top_k, -1, kIntMax},
    {"max_tokens", &SamplingParams::max_tokens, 0, kIntMax},
    {"min_tokens", &SamplingParams::min_tokens, 0, kIntMax},
    {"min_keep", &SamplingParams::min_keep, 0, kIntMax},
    {"dry_allowed_length", &SamplingParams::dry_allowed_length, 0, kIntMax},
    {"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n, -1, kIntMax},
    {"thinking_token_budget", &SamplingParams::thinking_token_budget, -1, kIntMax},
};

// Returns the shortest decimal that parses to the same float, which is usually what the user wrote.
std::string shown(float value) {
  std::array<char, 32> text;
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), result.ptr);
}

Status check_float(const SamplingParams& params, const FloatRange& range) {
  const float value = params.*range.field;
  const bool above = range.lower == Lower::kOpen ? value > range.min_value : value >= range.min_value;
  if (above && value <= range.max_value && std::isfinite(value)) {
    return {};
  }
  const std::string lower =
      cat(range.lower == Lower::kOpen ? "greater than " : "at least ", shown(range.min_value));
  const std::string upper =
      range.max_value == kNoBound ? std::string(" and finite") : cat(" and at most ", shown(range.max_value));
  return invalid_argument(cat(range.name, " must be ", lower, upper, ", but is ", shown(value), "."),
                          std::string(range.name));
}

Status check_int(const SamplingParams& params, const IntRange& range) {
  const int32_t value = params.*range.field;
  if (value >= range.min_value && value <= range.max_value) {
    return {};
  }
  const std::string upper =
      range.max_value == kIntMax ? std::string() : cat(" and at most ", range.max_value);
  return invalid_argument(
      cat(range.name, " must be at least ", range.min_value, upper, ", but is ", value, "."),
      std::string(range.name));
}

Status check_logprobs(std::optional<int32_t> asked, std::string_view name, int32_t vocab_size,
                      int32_t max_logprobs) {
  if (!asked || max_logprobs < 0) {
    if (asked && *asked < -1) {
      return invalid_argument(cat(name, " must be at least -1 (the whole vocabulary), but is ", *asked, "."),
                              std::string(name));
    }
    return {};
  }
  if (*asked < -1) {
    return invalid_argument(cat(name, " must be at least -1, but is ", *asked, "."), std::string(name));
  }
  const int32_t count = *asked == -1 ? vocab_size : *asked;
  if (count <= max_logprobs) {
    return {};
  }
  const std::string wish =
      *asked == -1 ? cat("-1, the whole vocabulary of ", vocab_size, " tokens") : cat(*asked);
  return invalid_argument(cat(name, " may be at most ", max_logprobs, " on this server, but is ", wish, "."),
                          std::string(name));
}

Status check_token(TokenId token, std::string_view name, int32_t vocab_size) {
  if (token >= 0 && token < vocab_size) {
    return {};
  }
  return invalid_argument(cat(name, " names token ", token,
                              ", but the model's vocabulary has the tokens 0 to ", vocab_size - 1, "."),
                          std::string(name));
}

Status check_tokens(std::span<const TokenId> tokens, std::string_view name, int32_t vocab_size) {
  if (tokens.size() > static_cast<size_t>(std::max(0, vocab_size))) {
    return invalid_argument(cat(name, " has ", tokens.size(), " token ids; at most ", vocab_size,
                                " are allowed, one for each token of the vocabulary."),
                            std::string(name));
  }
  for (const TokenId token : tokens) {
    if (Status status = check_token(token, name, vocab_size); !status) {
      return status;
    }
  }
  return {};
}

Status check_logit_bias(const SamplingParams& params, int32_t vocab_size) {
  for (const auto& [token, bias] : params.logit_bias) {
    if (Status status = check_token(token, "logit_bias", vocab_size); !status) {
      return status;
    }
    if (!std::isfinite(bias)) {
      return invalid_argument(cat("logit_bias of token ", token, " must be a finite number."), "logit_bias");
    }
  }
  return {};
}

Status check_texts(std::span<const std::string> texts, std::string_view name, size_t max_texts,
                   size_t max_bytes) {
  if (texts.size() > max_texts) {
    return invalid_argument(
        cat(name, " must have at most ", max_texts, " texts, but has ", texts.size(), "."),
        std::string(name));
  }
  for (const std::string& text : texts) {
    if (text.empty() || text.size() > max_bytes) {
      return invalid_argument(
          cat(name, " must contain texts of 1 to ", max_bytes, " bytes, but one has ", text.size(), "."),
          std::string(name));
    }
  }
  return {};
}

Status check_mirostat(const SamplingParams& params) {
  if (params.mirostat_mode == 0 || params.mirostat_mode == 2) return {};
  return invalid_argument(cat("mirostat_mode must be 0 (off) or 2, but is ", params.mirostat_mode,
                              "; Mirostat 1 is not supported."),
                          "mirostat_mode");
}

Status check_repetition_detection(const RepetitionDetection& detection) {
  const auto check = [](std::string_view name, int32_t value, int32_t low, int32_t high) -> Status {
    if (value >= low && value <= high) return {};
    return invalid_argument(
        cat("repetition_detection: ", name, " must be ", low, " to ", high, ", but is ", value, "."),
        "repetition_detection");
  };
  if (Status s = check("max_pattern_size", detection.max_pattern_size, 0, kMaxPatternSize); !s) return s;
  if (Status s = check("min_pattern_size", detection.min_pattern_size, 0, detection.max_pattern_size); !s)
    return s;
  if (detection.max_pattern_size == 0) return {};
  return check("min_count", detection.min_count, 2, kIntMax);
}

Status check_lists(const SamplingParams& params, int32_t vocab_size) {
  const std::pair<std::string_view, const std::vector<TokenId>*> scored[] = {
      {"logprob_token_ids", &params.logprob_token_ids},
      {"prompt_logprob_token_ids", &params.prompt_logprob_token_ids},
  };
  for (const auto& [name, ids] : scored) {
    if (ids->size() > kMaxLogprobTokenIds) {
      return invalid_argument(
          cat(name, " must have at most ", kMaxLogprobTokenIds, " token ids, but has ", ids->size(), "."),
          std::string(name));
    }
    if (Status status = check_tokens(*ids, name, vocab_size); !status) return status;
  }
  if (Status status = check_texts(params.bad_words, "bad_words", kMaxBadWords, kMaxBadWordBytes); !status)
    return status;
  if (Status status =
          check_texts(params.dry_sequence_breakers, "dry_sequence_breakers", kMaxBreakers, kMaxBreakerBytes);
      !status) {
    return status;
  }
  if (const auto chain = read_samplers(params.samplers); !chain.ok()) return chain.failure();
  return {};
}

Failure not_in_beam_search(std::string_view field) {
  return invalid_argument(
      cat(field, " is not available with use_beam_search, which follows the model's own probabilities."),
      std::string(field));
}

Status check_beam_search(const SamplingParams& params) {
  const int32_t width = params.num_sequences();
  if (params.beam_width != 0 && params.beam_width < params.n) {
    return invalid_argument(cat("best_of, the beam width, must be at least n, which is ", params.n,
                                ", but is ", params.beam_width, "."),
                            "best_of");
  }
  if (width > kMaxBeamWidth) {
    return invalid_argument(cat(width > params.n ? "best_of" : "n", ", the beam width, must be at most ",
                                kMaxBeamWidth, ", but is ", width, "."),
                            width > params.n ? "best_of" : "n");
  }
  const SamplingParams neutral;
  for (const auto& [name, field] : kSamplingOnly) {
    if (params.*field != neutral.*field) {
      return not_in_beam_search(name);
    }
  }
  const std::pair<std::string_view, bool> others[] = {
      {"top_k", params.top_k > 0},
      {"mirostat_mode", params.mirostat_mode != 0},
      {"samplers", !params.samplers.empty()},
      {"bad_words", !params.bad_words.empty()},
      {"logprob_token_ids", !params.logprob_token_ids.empty()},
      {"repetition_detection", params.repetition_detection.max_pattern_size > 0},
  };
  for (const auto& [name, is_set] : others) {
    if (is_set) return not_in_beam_search(name);
  }
  if (!params.stop.empty()) {
    return invalid_argument(
        "stop is not available with use_beam_search: texts end by end tokens and stop_token_ids.", "stop");
  }
  if (params.max_tokens < 1) {
    return invalid_argument("max_tokens must be at least 1 with use_beam_search, but is 0.", "max_tokens");
  }
  return {};
}

Status check_together(const SamplingParams& params) {
  if (params.use_beam_search) {
    if (Status status = check_beam_search(params); !status) {
      return status;
    }
  } else if (params.beam_width != 0 && params.beam_width != params.n) {
    return invalid_argument(cat("best_of must equal n, which is ", params.n,
                                ", unless use_beam_search is set, but is ", params.beam_width, "."),
                            "best_of");
  }
  if (params.n > 1 && params.greedy() && !params.use_beam_search) {
    return invalid_argument(
        cat("n must be 1 where temperature is 0, since all samples would be the same, but is ", params.n,
            "."),
        "n");
  }
  // With max_tokens 0 no minimum can be reached.
  if (params.min_tokens > params.max_tokens) {
    return invalid_argument(cat("min_tokens must be at most max_tokens, which is ", params.max_tokens,
                                ", but is ", params.min_tokens, "."),
                            "min_tokens");
  }
  for (const std::string& text : params.stop) {
    if (text.empty()) {
      return invalid_argument("stop must not contain an empty string.", "stop");
    }
  }
  return {};
}

}  // namespace

Status validate(const SamplingParams& params, int32_t vocab_size, int32_t max_logprobs) {
  for (const IntRange& range : kIntRanges) {
    if (Status status = check_int(params, range); !status) {
      return status;
    }
  }
  for (const FloatRange& range : kFloatRanges) {
    if (Status status = check_float(params, range); !status) {
      return status;
    }
  }
  if (Status status = check_mirostat(params); !status) {
    return status;
  }
  if (Status status = check_repetition_detection(params.repetition_detection); !status) {
    return status;
  }
  if (Status status = check_lists(params, vocab_size); !status) {
    return status;
  }
  if (Status status = check_together(params); !status) {
    return status;
  }
  // Tokens that the request names are listed instead of the most likely ones, and have a limit of their own.
  const std::optional<int32_t> logprobs =
      params.logprob_token_ids.empty() ? params.logprobs : std::optional<int32_t>();
  const std::optional<int32_t> prompt_logprobs =
      params.prompt_logprob_token_ids.empty() ? params.prompt_logprobs : std::optional<int32_t>();
  if (Status status = check_logprobs(logprobs, "logprobs", vocab_size, max_logprobs); !status) {
    return status;
  }
  if (Status status = check_logprobs(prompt_logprobs, "prompt_logprobs", vocab_size, max_logprobs); !status) {
    return status;
  }
  if (Status status = check_tokens(params.stop_token_ids, "stop_token_ids", vocab_size); !status) {
    return status;
  }
  if (Status status = check_tokens(params.allowed_token_ids, "allowed_token_ids", vocab_size); !status) {
    return status;
  }
  return check_logit_bias(params, vocab_size);
}

uint64_t effective_seed(const SamplingParams& params, uint64_t engine_seed, uint64_t request_number) {
  if (params.seed && *params.seed != -1) {
    return static_cast<uint64_t>(*params.seed);
  }
  return derive_seed(engine_seed, request_number);
}

}  // namespace quire
