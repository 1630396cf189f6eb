#include "server/openai/common_fields.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/counted.h"
#include "base/listed.h"
#include "base/strings.h"
#include "engine/beam_defaults.h"
#include "server/openai/sampler_fields.h"
#include "server/openai/tool_fields.h"
#include "text/output/call_text.h"

namespace quire {
namespace {

constexpr size_t kMaxStopStrings = 128;
constexpr size_t kMaxStopBytes = 16 << 10;
constexpr size_t kMaxCacheSaltBytes = 128;
constexpr size_t kMaxIdBytes = 128;
constexpr size_t kMaxClientBytes = 256;  // of `user`, for fair scheduling
constexpr size_t kMaxStopTokenIds = 4096;

// Labels and hints: ignoring them does not change the response.
constexpr std::array<std::string_view, 9> kHarmless = {"metadata",
                                                       "store",
                                                       "service_tier",
                                                       "safety_identifier",
                                                       "prompt_cache_key",
                                                       "prompt_cache_retention",
                                                       "parallel_tool_calls",
                                                       "guided_decoding_backend",
                                                       "session_id"};

struct Unsupported {
  std::string_view field;
  std::string_view feature;
};
constexpr std::array<Unsupported, 6> kUnsupported = {{
    {"guided_whitespace_pattern", "white space patterns; use a grammar"},
    {"prompt_embeds", "prompts as embeddings"},
    {"suffix", "a suffix (fill in the middle)"},
    {"functions", "the functions field (use tools)"},
    {"audio", "audio output"},
    {"web_search_options", "web search"},
}};

// false, 0, "", [] and {} ask for nothing.
bool is_neutral(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0.0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

// "'a', 'b' and 3 more"
std::string some_of(const std::vector<std::string>& keys) {
  constexpr size_t kShown = 20;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(keys.size(), kShown); ++i)
    shown.push_back(cat("'", keys[i].substr(0, 40), "'"));
  return cat(join(shown, ", "), keys.size() > kShown ? cat(" and ", keys.size() - kShown, " more") : "");
}

void read_logit_bias(FieldReader& fields, int32_t vocab_size, SamplingParams& sampling) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  std::vector<std::string> no_tokens;
  std::vector<std::string> no_numbers;
  for (const auto& item : bias->items()) {
    const std::string& key = item.key();
    const bool digits = !key.empty() && key.size() <= 9 &&
                        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stol(key) >= vocab_size) {
      no_tokens.push_back(key);
    } else if (!item.value().is_number()) {
      no_numbers.push_back(key);
    } else {
      const auto value = static_cast<float>(item.value().get<double>());
      sampling.logit_bias.emplace_back(static_cast<TokenId>(std::stol(key)),
                                       std::clamp(value, -100.0F, 100.0F));
    }
  }
  if (!no_tokens.empty()) {
    const bool one = no_tokens.size() == 1;
    fields.fail(cat("logit_bias: ", some_of(no_tokens), one ? " is not a token id" : " are not token ids",
                    "; the model's token ids are 0 to ", vocab_size - 1, "."),
                "logit_bias");
  }
  if (!no_numbers.empty()) {
    fields.fail(cat("logit_bias: the bias of ", some_of(no_numbers), " must be a number."), "logit_bias");
  }
}

void read_stop(FieldReader& fields, SamplingParams& sampling) {
  auto stop = fields.texts("stop");
  if (!stop) return;
  size_t bytes = 0;
  for (const std::string& s : *stop) {
    if (s.empty()) return fields.fail("stop must not contain an empty string.", "stop");
    bytes += s.size();
  }
  if (stop->size() > kMaxStopStrings || bytes > kMaxStopBytes) {
    return fields.fail(cat("stop has ", counted(static_cast<int64_t>(stop->size()), "string"), " of ",
                           counted(static_cast<int64_t>(bytes), "byte"), " in total; the maximum is ",
                           kMaxStopStrings, " strings of ", kMaxStopBytes, " bytes in total."),
                       "stop");
  }
  sampling.stop = std::move(*stop);
}

std::string bytes_message(std::string_view field, size_t size, size_t max_size) {
  return cat(field, " has ", counted(static_cast<int64_t>(size), "byte"), "; it must have 1 to ", max_size,
             ".");
}

template <typename T, typename V>
void take(T& target, const std::optional<V>& value) {
  if (value) target = static_cast<T>(*value);
}

// true, false or "never".
void read_early_stopping(FieldReader& fields, SamplingParams& s) {
  const Json* value = fields.any("early_stopping");
  if (value == nullptr) return;
  if (value->is_boolean()) {
    s.early_stopping = value->get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
  } else if (*value == "never") {
    s.early_stopping = EarlyStopping::kNever;
  } else {
    fields.fail(
        cat("early_stopping must be true, false or \"never\", not ", value->dump().substr(0, 80), "."),
        "early_stopping");
  }
}

// best_of is the width of a beam search. Without beam search all samples are returned.
void read_best_of(FieldReader& fields, SamplingParams& s) {
  const auto best_of = fields.integer32("best_of", 1);
  if (!best_of) return;
  if (s.use_beam_search) {
    s.beam_width = *best_of;
  } else if (*best_of != s.n) {
    fields.fail(cat("best_of is ", *best_of, " and n is ", s.n,
                    "; without use_beam_search they must be equal, because "
                    "choosing among more samples than are returned is not supported."),
                "best_of");
  }
}

void read_sampling(FieldReader& fields, const ModelInfo& model, SamplingParams& s) {
  s.use_beam_search = fields.boolean("use_beam_search").value_or(false);
  if (s.use_beam_search) drop_sampling_defaults(s);
  take(s.n, fields.integer32("n"));
  take(s.temperature, fields.number("temperature"));
  take(s.top_p, fields.number("top_p"));
  take(s.top_k, fields.integer32("top_k"));
  take(s.min_p, fields.number("min_p"));
  take(s.repetition_penalty, fields.number("repetition_penalty"));
  take(s.presence_penalty, fields.number("presence_penalty"));
  take(s.frequency_penalty, fields.number("frequency_penalty"));
  if (const auto seed =
          fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    s.seed = *seed;
  }
  take(s.min_tokens, fields.integer32("min_tokens"));
  take(s.thinking_token_budget, fields.integer32("thinking_token_budget"));
  take(s.ignore_eos, fields.boolean("ignore_eos"));
  take(s.include_stop_str_in_output, fields.boolean("include_stop_str_in_output"));
  take(s.skip_special_tokens, fields.boolean("skip_special_tokens"));
  take(s.spaces_between_special_tokens, fields.boolean("spaces_between_special_tokens"));
  read_stop(fields, s);
  read_logit_bias(fields, model.vocab_size, s);
  if (auto ids = fields.tokens("stop_token_ids", model.vocab_size)) {
    if (ids->size() > kMaxStopTokenIds) {
      fields.fail(
          cat("stop_token_ids has ", ids->size(), " token ids; the maximum is ", kMaxStopTokenIds, "."),
          "stop_token_ids");
    }
    s.stop_token_ids = std::move(*ids);
  }
  if (auto ids = fields.tokens("allowed_token_ids", model.vocab_size)) {
    if (ids->empty()) fields.fail("allowed_token_ids must have at least one token id.", "allowed_token_ids");
    s.allowed_token_ids = std::move(*ids);
  }
  read_sampler_fields(fields, model.vocab_size, s);
  take(s.length_penalty, fields.number("length_penalty"));
  read_early_stopping(fields, s);
  read_best_of(fields, s);
}

void read_stream(FieldReader& fields, GenerationSpec& spec) {
  spec.stream = fields.boolean("stream").value_or(false);
  if (spec.stream && spec.sampling.use_beam_search) {
    fields.fail(
        "stream is not available with use_beam_search: the outputs are known only when the search has ended.",
        "stream");
  }
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!spec.stream) return fields.fail("stream_options needs stream: true.", "stream_options");
  FieldReader inner(*options);
  spec.include_usage = inner.boolean("include_usage").value_or(false);
  spec.continuous_usage = spec.include_usage && inner.boolean("continuous_usage_stats").value_or(false);
  spec.include_timings = inner.boolean("include_timings").value_or(false) && spec.include_usage;
  if (!inner.ok()) fields.fail(cat("stream_options: ", inner.failure().message), "stream_options");
}

}  // namespace

std::string no_such_model(std::string_view name, const ApiOptions& options, const ServingEngine& engine) {
  std::vector<std::string> names = options.model_names;
  for (const AdapterDescription& adapter : engine.adapters()) names.push_back(adapter.name);
  return cat("The model '", name.substr(0, 200), "' does not exist; available: ", listed(names), ".");
}

ModelChoice read_model(FieldReader& fields, const ApiOptions& options, const ServingEngine& engine) {
  const auto name = fields.text("model");
  const std::vector<std::string>& names = options.model_names;
  if (!name || name->empty()) return {.name = names.front()};
  if (std::ranges::find(names, *name) != names.end()) return {.name = *name};
  if (const Status found = engine.require_adapter(*name); !found.ok()) {
    const Failure& failure = found.failure();
    const bool unknown = failure.kind == ErrorKind::kNotFound;
    fields.fail(failure.kind, unknown ? no_such_model(*name, options, engine) : failure.message, "model");
  }
  return {.name = *name, .adapter = *name};
}

void read_generation_fields(FieldReader& fields, const ServingEngine& engine, const ApiOptions& options,
                            GenerationSpec& spec) {
  spec.sampling = engine.default_sampling();
  read_sampling(fields, engine.model(), spec.sampling);
  read_stream(fields, spec);
  spec.include_usage = spec.include_usage || (spec.stream && options.force_include_usage);
  spec.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  spec.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(options.tokens_as_ids);
  spec.prompt_logprobs = fields.integer32("prompt_logprobs", -1);
  if (spec.stream && spec.prompt_logprobs)
    fields.fail("prompt_logprobs is not available with stream: true.", "prompt_logprobs");
  if (spec.stream && !spec.sampling.prompt_logprob_token_ids.empty())
    fields.fail("prompt_logprob_token_ids is not available with stream: true.", "prompt_logprob_token_ids");
}

void read_labels(FieldReader& fields, const ApiOptions& options, const ServingEngine& engine,
                 std::string_view prefix, const std::string& id, RequestLabels& labels) {
  ModelChoice choice = read_model(fields, options, engine);
  labels.model = std::move(choice.name);
  labels.adapter = std::move(choice.adapter);
  labels.created = unix_seconds();
  take(labels.priority, fields.integer32("priority"));
  if (labels.priority != 0 && engine.model().scheduling_policy != SchedulingPolicy::kPriority)
    labels.ignored_params.emplace_back("priority");
  if (auto salt = fields.text("cache_salt")) {
    if (salt->empty() || salt->size() > kMaxCacheSaltBytes)
      fields.fail(bytes_message("cache_salt", salt->size(), kMaxCacheSaltBytes), "cache_salt");
    labels.cache_salt = std::move(*salt);
  }
  if (const Json* user = fields.any("user"); user != nullptr && user->is_string()) {
    labels.client =
        cat("user ", std::string_view(user->get_ref<const std::string&>()).substr(0, kMaxClientBytes));
  }
  const auto given = fields.text("request_id");
  if (given && (given->empty() || given->size() > kMaxIdBytes))
    fields.fail(bytes_message("request_id", given->size(), kMaxIdBytes), "request_id");
  labels.id = cat(prefix, given.value_or(id));
}

void refuse_unsupported(FieldReader& fields) {
  for (const Unsupported& row : kUnsupported) {
    const Json* value = fields.any(row.field);
    if (value == nullptr || is_neutral(*value)) continue;
    fields.fail(ErrorKind::kUnsupported,
                cat(row.field, " is not supported by this build (", row.feature, ")."), row.field);
  }
  for (const std::string_view name : kHarmless) (void)fields.any(name);
}

void settle_unread(FieldReader& fields, const ApiOptions& options, std::vector<std::string>& ignored_params) {
  const std::vector<std::string> unread = fields.unread();
  if (options.strict_params && !unread.empty()) {
    fields.fail(cat("The field '", unread.front().substr(0, 80), "' is unknown (--strict-params)."),
                unread.front().substr(0, 80));
  }
  ignored_params.insert(ignored_params.end(), unread.begin(), unread.end());
}

Truncation read_truncation(FieldReader& fields) {
  Truncation result;
  result.keep = fields.integer32("truncate_prompt_tokens", -1);
  if (result.keep == 0)
    fields.fail("truncate_prompt_tokens must be -1 or at least 1, not 0.", "truncate_prompt_tokens");
  if (const auto side = fields.text("truncation_side")) {
    if (*side != "left" && *side != "right")
      fields.fail(cat("truncation_side must be 'left' or 'right', not '", side->substr(0, 80), "'."),
                  "truncation_side");
    result.cut_left = *side != "right";
  }
  return result;
}

Status fit_prompt(PromptInput& prompt, const Truncation& truncation, std::optional<int32_t> wanted,
                  int32_t default_max_tokens, const ModelInfo& model) {
  const int64_t limit = model.max_model_len;
  // Scoring a prompt generates nothing, everything else at least one token.
  const bool generates = wanted != 0;
  if (truncation.keep && *truncation.keep > limit) {
    return invalid_argument(cat("truncate_prompt_tokens must be at most ", limit,
                                " (--max-model-len), but is ", *truncation.keep, "."),
                            "truncate_prompt_tokens");
  }
  if (truncation.keep) {
    const int64_t keep =
        *truncation.keep >= 0 ? *truncation.keep : std::max<int64_t>(1, limit - wanted.value_or(1));
    const auto size = static_cast<int64_t>(prompt.ids.size());
    if (size > keep && truncation.cut_left)
      prompt.ids.erase(prompt.ids.begin(), prompt.ids.begin() + (size - keep));
    if (size > keep && !truncation.cut_left) prompt.ids.resize(static_cast<size_t>(keep));
  }
  const auto size = static_cast<int64_t>(prompt.ids.size());
  if (Status length = check_prompt_length(size, generates, model.max_model_len); !length.ok()) return length;
  if (wanted && size + *wanted > limit) {
    return Failure{ErrorKind::kContextLength,
                   cat("The prompt has ", counted(size, "token"), " and max_tokens is ", *wanted,
                       ", together ", size + *wanted, "; the maximum is ", limit, " (--max-model-len)."),
                   "max_tokens"};
  }
  prompt.max_tokens =
      wanted ? *wanted : static_cast<int32_t>(std::min<int64_t>(default_max_tokens, limit - size));
  return {};
}

Result<ChatRequest> read_chat_fields(FieldReader& fields, const ApiOptions& options,
                                     const YieldPoint& yield_point) {
  for (const std::string_view name : kChatFields) (void)fields.any(name);
  (void)read_tool_fields(fields);
  if (!fields.ok()) return fields.failure();
  auto request = read_chat_request(fields.body(), MediaParts::kRefuse, yield_point);
  // A template that the request has chosen is followed, also if it ignores the tools.
  if (request.ok() && !request->tools.is_null() && request->chat_template.empty() &&
      options.formats.calls != nullptr)
    request->how_to_call = how_to_call(*options.formats.calls, {});
  if (request.ok() && !request->chat_template.empty() && !options.trust_request_chat_template) {
    return invalid_argument(
        "This server does not accept chat templates in requests (--trust-request-chat-template allows them).",
        "chat_template");
  }
  if (request.ok()) {
    for (const auto& item : options.default_chat_template_kwargs.items()) {
      if (!request->kwargs.contains(item.key())) request->kwargs[item.key()] = item.value();
    }
  }
  return request;
}

}  // namespace quire
