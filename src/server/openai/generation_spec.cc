#include "server/openai/generation_spec.h"

#include <algorithm>
#include <limits>

#include "base/counted.h"
#include "base/strings.h"
#include "server/openai/common_fields.h"
#include "server/openai/constraint_fields.h"
#include "server/openai/output_language.h"
#include "server/openai/thinking_budget.h"
#include "server/openai/tool_fields.h"

namespace quire {
namespace {

constexpr int32_t kDefaultCompletionTokens = 16;
constexpr size_t kMaxPrompts = 4096;
// Log-probabilities of prompt tokens in a response. This is about 200 MB of JSON.
constexpr int64_t kMaxPromptLogprobs = 4'000'000;

Failure no_tokenizer(std::string_view param) {
  return invalid_argument("The model has no tokenizer: send the prompt as token ids.", std::string(param));
}

// Rejects a text that cannot fit no matter how it is tokenized, without tokenizing it.
Status check_size(std::string_view text, const Truncation& truncation, const ServingEngine& engine,
                  std::string_view param) {
  const auto limit = static_cast<size_t>(std::max(1, engine.model().max_model_len));
  // max_token_bytes() is slow the first time, and most prompts are short.
  if (truncation.keep || text.size() / 4 <= limit || text.size() / engine.max_token_bytes() <= limit)
    return {};
  return Failure{ErrorKind::kContextLength,
                 cat("The prompt has ", text.size(), " bytes, which are more than ",
                     counted(static_cast<int64_t>(text.size() / engine.max_token_bytes()), "token"),
                     "; the maximum is ", limit, " (--max-model-len)."),
                 std::string(param)};
}

// Reads `prompt`: a string, an array of strings, of token ids, or of arrays of token ids.
struct PromptReader {
  const ServingEngine& engine;
  const Truncation& truncation;
  bool add_special_tokens;
  const YieldPoint& yield_point;

  Result<PromptInput> text(std::string text) const {
    if (!engine.has_tokenizer()) return no_tokenizer("prompt");
    if (const Status s = check_size(text, truncation, engine, "prompt"); !s.ok()) return s.failure();
    auto ids = engine.encode(text, add_special_tokens, yield_point);
    return PromptInput{std::move(ids), std::move(text)};
  }

  Result<PromptInput> tokens(const Json& array, const std::string& name) const {
    auto ids = read_token_ids(array, name, engine.model().vocab_size);
    if (!ids.ok()) return Failure{ids.failure().kind, ids.failure().message, "prompt"};
    return PromptInput{std::move(ids).value(), {}};
  }

  Result<std::vector<PromptInput>> read(const Json* prompt) const;
};

Result<std::vector<PromptInput>> PromptReader::read(const Json* prompt) const {
  const auto wrong = [] {
    return invalid_argument(
        "prompt must be a string, an array of strings, an array of token ids or an array of such arrays.",
        "prompt");
  };
  if (prompt == nullptr) return invalid_argument("prompt is missing.", "prompt");
  const bool single =
      prompt->is_string() || (prompt->is_array() && !prompt->empty() && (*prompt)[0].is_number());
  std::vector<PromptInput> prompts;
  if (single) {
    auto one = prompt->is_string() ? text(prompt->get<std::string>()) : tokens(*prompt, "prompt");
    if (!one.ok()) return one.failure();
    prompts.push_back(std::move(one).value());
    return prompts;
  }
  if (!prompt->is_array() || prompt->empty()) return wrong();
  if (prompt->size() > kMaxPrompts) {
    return invalid_argument(cat("prompt has ", prompt->size(), " prompts; the maximum is ", kMaxPrompts, "."),
                            "prompt");
  }
  for (const Json& element : *prompt) {
    if (!element.is_string() && !element.is_array()) return wrong();
    auto one = element.is_string() ? text(element.get<std::string>())
                                   : tokens(element, cat("prompt[", prompts.size(), "]"));
    if (!one.ok()) return one.failure();
    prompts.push_back(std::move(one).value());
  }
  return prompts;
}

// The engine computes what the response needs.
void set_engine_logprobs(GenerationSpec& spec) {
  SamplingParams& sampling = spec.sampling;
  // The alternatives of an echoed prompt are the most likely tokens.
  const std::optional<int32_t> echoed = sampling.logprob_token_ids.empty() ? spec.logprobs : 0;
  // Tokens that the request names are listed instead of the most likely ones.
  if (!sampling.logprob_token_ids.empty())
    spec.logprobs = static_cast<int32_t>(sampling.logprob_token_ids.size());
  if (!sampling.prompt_logprob_token_ids.empty())
    spec.prompt_logprobs = static_cast<int32_t>(sampling.prompt_logprob_token_ids.size());
  sampling.logprobs = spec.logprobs;
  sampling.prompt_logprobs = spec.prompt_logprobs;
  if (spec.echo && echoed) {
    const bool more = !spec.prompt_logprobs || *echoed == -1 ||
                      (*spec.prompt_logprobs != -1 && *echoed > *spec.prompt_logprobs);
    if (more) sampling.prompt_logprobs = echoed;
  }
}

// The prompts' log-probabilities are written once per choice, so that a small request could ask for
// gigabytes.
Status check_prompt_logprobs(const GenerationSpec& spec, const ModelInfo& model) {
  if (!spec.sampling.prompt_logprobs) return {};
  const int64_t top = *spec.sampling.prompt_logprobs;
  const int64_t per_token = 1 + (top < 0 ? model.vocab_size : top);
  const int64_t num_copies = spec.echo && spec.logprobs ? std::max(1, spec.sampling.n) : 1;
  int64_t num_tokens = 0;
  for (const PromptInput& prompt : spec.prompts) num_tokens += static_cast<int64_t>(prompt.ids.size());
  if (num_tokens <= kMaxPromptLogprobs / per_token / num_copies) return {};
  return invalid_argument(
      cat("The response would hold ", num_tokens, " x ", per_token, " x ", num_copies,
          " log-probabilities of prompt tokens (tokens x alternatives x copies); the maximum is ",
          kMaxPromptLogprobs, "."),
      "logprobs");
}

// The text of the last message if it is the assistant's, as vLLM echoes it.
std::string last_answer(const Json& messages) {
  if (messages.empty() || messages.back().value("role", "") != "assistant") return {};
  const auto content = messages.back().find("content");
  if (content == messages.back().end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  for (const Json& part : *content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string())
      text += part["text"].get<std::string>();
  }
  return text;
}

Result<std::string> render_prompt(const ServingEngine& engine, ChatRequest chat) {
  if (!engine.has_chat_template() && chat.chat_template.empty()) {
    return invalid_argument(
        "The model has no chat template: start the server with --chat-template FILE, or use /v1/completions "
        "with a prompt.",
        "messages");
  }
  if (!engine.has_tokenizer()) return no_tokenizer("messages");
  return engine.render_chat(std::move(chat));
}

}  // namespace

Result<GenerationSpec> parse_completion(const Json& body, const ServingEngine& engine,
                                        const ApiOptions& options, const std::string& request_id,
                                        const YieldPoint& yield_point) {
  GenerationSpec spec;
  FieldReader fields(body);
  read_labels(fields, options, engine, "cmpl-", request_id, spec);
  read_generation_fields(fields, engine, options, spec);
  refuse_unsupported(fields);
  const Truncation truncation = read_truncation(fields);
  spec.echo = fields.boolean("echo").value_or(false);
  spec.logprobs = fields.integer32("logprobs", -1);
  const auto wanted = fields.integer32("max_tokens", 0);
  const bool add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  const std::optional<StructuredOutputs> constraint = read_constraint(fields);
  const Json* prompt = fields.any("prompt");
  if (wanted == 0 && !spec.echo && !spec.prompt_logprobs && spec.sampling.prompt_logprob_token_ids.empty()) {
    fields.fail(
        "max_tokens is 0; it must be at least 1, except with echo or prompt_logprobs, to score a prompt.",
        "max_tokens");
  }
  settle_unread(fields, options, spec.ignored_params);
  if (!fields.ok()) return fields.failure();

  auto prompts = PromptReader{engine, truncation, add_special_tokens, yield_point}.read(prompt);
  if (!prompts.ok()) return prompts.failure();
  spec.prompts = std::move(prompts).value();
  if (const auto num = static_cast<int64_t>(spec.prompts.size()); num * spec.sampling.n > kMaxChoices) {
    return invalid_argument(
        cat("n is ", spec.sampling.n, ", which makes ", num * spec.sampling.n, " choices for ",
            counted(num, "prompt"), "; the maximum is ", kMaxChoices, "."),
        "n");
  }
  for (PromptInput& p : spec.prompts) {
    const size_t given = p.ids.size();
    if (const Status s = fit_prompt(p, truncation, wanted, kDefaultCompletionTokens, engine.model()); !s.ok())
      return s.failure();
    // The echo is what the model was given.
    const bool cut = p.ids.size() != given;
    if (spec.echo && engine.has_tokenizer() && (p.text.empty() || cut)) p.text = engine.decode(p.ids, false);
  }
  spec.compile_constraints = [constraint, &engine, &formats = options.formats](
                                 GenerationSpec& parsed, const CompileOptions& compiling) -> Status {
    if (constraint) {
      if (Status s = constrain_answer(parsed, engine, *constraint, compiling); !s.ok()) return s;
    }
    return limit_reasoning(parsed, engine, formats, compiling);
  };
  set_engine_logprobs(spec);
  if (const Status s = check_prompt_logprobs(spec, engine.model()); !s.ok()) return s.failure();
  return spec;
}

Result<GenerationSpec> parse_chat_completion(const Json& given, const ServingEngine& engine,
                                             const ApiOptions& options, const std::string& request_id,
                                             const YieldPoint& yield_point) {
  Result<std::optional<Json>> converted = without_old_forms(given);
  if (!converted.ok()) return converted.failure();
  const auto newer = std::make_shared<const std::optional<Json>>(std::move(*converted));
  const bool old_form = newer->has_value();
  const Json& body = old_form ? **newer : given;
  GenerationSpec spec;
  spec.chat = true;
  FieldReader fields(body);
  read_labels(fields, options, engine, "chatcmpl-", request_id, spec);
  read_generation_fields(fields, engine, options, spec);
  refuse_unsupported(fields);
  const Truncation truncation = read_truncation(fields);
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer32("top_logprobs", -1);
  if (top && *top != 0 && !logprobs) fields.fail("top_logprobs needs logprobs: true.", "top_logprobs");
  if (logprobs) spec.logprobs = top.value_or(0);
  // The newer name takes precedence.
  const auto max_tokens = fields.integer32("max_tokens", 1);
  const auto max_completion_tokens = fields.integer32("max_completion_tokens", 1);
  const auto wanted = max_completion_tokens ? max_completion_tokens : max_tokens;
  const bool echo = fields.boolean("echo").value_or(false);
  const bool add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  const std::optional<StructuredOutputs> constraint = read_constraint(fields);
  ToolFields tools = read_tool_fields(fields);
  if (old_form) tools.parallel = false;
  for (const char* name : {"functions", "function_call"}) (void)fields.any(name);  // null
  const ReasoningFields reasoning = read_reasoning_fields(fields);
  if (!fields.ok()) return fields.failure();
  auto chat = read_chat_fields(fields, options, yield_point);
  if (!chat.ok()) return chat.failure();
  settle_unread(fields, options, spec.ignored_params);
  if (!fields.ok()) return fields.failure();

  if (echo) spec.echoed_message = last_answer(chat->messages);
  auto text = render_prompt(engine, std::move(chat).value());
  if (!text.ok()) return text.failure();
  if (const Status s = check_size(*text, truncation, engine, "messages"); !s.ok()) return s.failure();
  PromptInput prompt;
  prompt.ids = add_special_tokens ? engine.encode(*text, true, yield_point)
                                  : engine.encode_rendered(*text, yield_point);
  const int32_t model_default = engine.model().max_new_tokens;
  const int32_t default_tokens = model_default > 0 ? model_default : std::numeric_limits<int32_t>::max();
  if (Status s = fit_prompt(prompt, truncation, wanted, default_tokens, engine.model()); !s.ok()) {
    Failure failure = s.failure();
    if (failure.param == "prompt") failure.param = "messages";
    return failure;
  }
  if (spec.sampling.n > kMaxChoices) {
    return invalid_argument(cat("n is ", spec.sampling.n, "; the maximum is ", kMaxChoices, "."), "n");
  }
  spec.prompts.push_back(std::move(prompt));
  spec.compile_constraints = [constraint, tools, reasoning, newer, text = std::move(*text), &engine,
                              &formats = options.formats](GenerationSpec& parsed,
                                                          const CompileOptions& compiling) -> Status {
    Status s = set_output_language(parsed, engine, formats, constraint, tools, reasoning, text, compiling);
    if (!s.ok()) return s;
    if (parsed.reading) parsed.reading->old_form = newer->has_value();
    return limit_reasoning(parsed, engine, formats, compiling, text, reasoning.effort_is_none);
  };
  set_engine_logprobs(spec);
  if (const Status s = check_prompt_logprobs(spec, engine.model()); !s.ok()) return s.failure();
  return spec;
}

Status constrain(GenerationSpec& spec, const CompileOptions& options) {
  if (!spec.compile_constraints) return {};
  const size_t num_ignored = spec.ignored_params.size();
  try {
    if (Status s = spec.compile_constraints(spec, options); !s.ok()) return s;
  } catch (...) {
    spec.ignored_params.resize(num_ignored);  // the next call names them again
    throw;
  }
  spec.compile_constraints = nullptr;
  return {};
}

}  // namespace quire
