// Sampling parameters and stop conditions of a request. Plain data. Field names, defaults and ranges are
// those of the OpenAI API and of vLLM.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quire {

using TokenId = int32_t;  // index into the vocabulary; -1 = no token

// When a beam search ends, as `early_stopping` of transformers.
enum class EarlyStopping : uint8_t {
  kNo,     // no active beam has, at its current length, a better score than the worst finished hypothesis
  kYes,    // beam_width hypotheses are finished
  kNever,  // no active beam can reach a better score than the worst finished hypothesis at any length
};

// A constraint that the whole output obeys (vLLM: StructuredOutputsParams).
struct StructuredOutputs {
  enum class Kind : uint8_t {
    kJsonObject,     // any JSON object; `text` is empty
    kJsonSchema,     // a JSON Schema, as JSON text
    kRegex,          // a regular expression that the whole output matches
    kChoice,         // a JSON array of strings, one of which is the output
    kGrammar,        // EBNF or GBNF
    kStructuralTag,  // JSON: text in which triggers begin constrained parts
  };

  Kind kind = Kind::kJsonObject;
  std::string text = {};
  // For JSON: no white space except one blank after each comma and colon.
  bool disable_any_whitespace = false;
  bool strict = false;                       // unknown keywords and formats of a schema are refused
  std::string field = "structured_outputs";  // name of the request's field, for messages

  friend bool operator==(const StructuredOutputs&, const StructuredOutputs&) = default;
};

// Ends an output whose last tokens are a pattern that repeats (vLLM: RepetitionDetectionParams).
struct RepetitionDetection {
  int32_t max_pattern_size = 0;  // tokens of the longest pattern that is looked for; 0 = off
  int32_t min_pattern_size = 0;  // tokens of the shortest one; 0 = 1
  int32_t min_count = 0;         // the pattern stands this many times in a row, at least 2

  friend bool operator==(const RepetitionDetection&, const RepetitionDetection&) = default;
};

struct SamplingParams {
  int32_t n = 1;             // number of outputs
  int32_t max_tokens = 16;   // maximum number of generated tokens; 0 = score the prompt only (with echo)
  float temperature = 1.0F;  // [0, 2]; below 1e-5 = greedy
  float top_p = 1.0F;        // (0, 1]
  int32_t top_k = 0;         // 0 or -1 = off
  float min_p = 0.0F;        // [0, 1]
  float repetition_penalty = 1.0F;  // > 0, for tokens of prompt and output
  float presence_penalty = 0.0F;    // [-2, 2], for tokens of the output
  float frequency_penalty = 0.0F;   // [-2, 2], for tokens of the output
  std::optional<int64_t> seed;      // nullopt = the engine chooses one per request
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;          // continue after the model's end tokens; stop_token_ids still apply
  int32_t min_tokens = 0;           // end and stop tokens are masked before this many tokens
  std::optional<int32_t> logprobs;  // number of top log-probabilities per output token; -1 = whole vocabulary
  std::optional<int32_t> prompt_logprobs;             // same for prompt tokens; disables prefix cache lookups
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logits, each in [-100, 100]
  std::vector<TokenId> allowed_token_ids;             // empty = all
  // These tokens, in this order, take the place of the most likely ones in `logprobs` and `prompt_logprobs`.
  std::vector<TokenId> logprob_token_ids;
  std::vector<TokenId> prompt_logprob_token_ids;
  // Texts that the output does not contain: as tokens, with and without a leading blank, the last token of a
  // text is excluded after the tokens before it.
  std::vector<std::string> bad_words;
  RepetitionDetection repetition_detection;

  // Samplers of llama.cpp. With temperature 0 only DRY has an effect.
  float typical_p = 1.0F;       // (0, 1]; locally typical sampling
  float top_n_sigma = 0.0F;     // keeps logits of at least maximum - top_n_sigma * deviation; 0 or less = off
  int32_t min_keep = 0;         // min_p, typical_p, top_p and XTC leave at least this many tokens
  float dynatemp_range = 0.0F;  // >= 0; the entropy sets a temperature in temperature -/+ this; 0 = off
  float dynatemp_exponent = 1.0F;  // >= 0
  float xtc_probability = 0.0F;    // [0, 1]; how often XTC applies; 0 = off
  float xtc_threshold = 0.1F;      // [0, 1]; of the tokens of at least this probability, the last one remains
  float dry_multiplier = 0.0F;     // >= 0; penalty of tokens that prolong a repetition; 0 = off
  float dry_base = 1.75F;          // >= 1; penalty = multiplier * base^(length - allowed length)
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;  // tokens in which repetitions are looked for; -1 = all, 0 = off
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};  // repetitions do not cross them
  int32_t mirostat_mode = 0;  // 0 = off; 2 = Mirostat 2, which takes the place of all truncating steps
  float mirostat_tau = 5.0F;  // >= 0; its surprise in bits
  float mirostat_eta = 0.1F;  // [0, 1]; its learning rate
  // Names of the steps to apply, in this order; empty = all, in the default order. docs/sampling.md
  std::vector<std::string> samplers;
  // Beam search instead of sampling. Keeps `beam_width` active beams and returns the `n` finished hypotheses
  // with the highest cumulative log-probability / length^length_penalty. Temperature, top-p, top-k, min-p,
  // penalties and stop strings are not supported, and outputs are not streamed.
  bool use_beam_search = false;
  int32_t beam_width = 0;  // best_of in the API; 0 = n
  float length_penalty = 1.0F;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::optional<StructuredOutputs> structured_outputs;
  int32_t thinking_token_budget = -1;  // after this many tokens of reasoning, its end is forced; -1 = off
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;

  bool greedy() const { return temperature < 1e-5F; }
  bool wants_logprobs() const { return logprobs.has_value() || !logprob_token_ids.empty(); }
  bool wants_prompt_logprobs() const {
    return prompt_logprobs.has_value() || !prompt_logprob_token_ids.empty();
  }
  // Number of sequences that run at the same time for this request.
  int32_t num_sequences() const { return use_beam_search && beam_width > n ? beam_width : n; }
};

}  // namespace quire
