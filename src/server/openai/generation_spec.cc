#include "server/openai/generation_spec.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "server/openai/common_fields.h"

namespace quire {
namespace {

constexpr int32_t kDefaultCompletionTokens = 16;
constexpr size_t kMaxPrompts = 4096;
constexpr size_t kMaxChoices = 16384;

Failure no_tokenizer(std::string_view param) {
  return invalid_argument("the model has no tokenizer: send the prompt as token ids", std::string(param));
}

// Refuses a text that cannot fit however it is cut into tokens: tokenizing megabytes only to say so would
// hold up a thread.
Status check_size(std::string_view text, const Truncation& truncation, const ServingEngine& engine,
                  std::string_view param) {
  const auto limit = static_cast<size_t>(std::max(1, engine.model().max_model_len));
  // Short tokens are the rule, so this spares most prompts the question.
  if (truncation.keep || text.size() / 4 <= limit || text.size() / engine.max_token_bytes() <= limit)
    return {};
  return invalid_argument(
      cat("the prompt has ", text.size(), " bytes, that is more than ",
          text.size() / engine.max_token_bytes(), " tokens; the model takes ", limit, " (--max-model-len)"),
      std::string(param));
}

Result<PromptInput> text_prompt(std::string text, bool add_special_tokens, const Truncation& truncation,
                                const ServingEngine& engine) {
  if (!engine.has_tokenizer()) return no_tokenizer("prompt");
  if (const Status s = check_size(text, truncation, engine, "prompt"); !s.ok()) return s.failure();
  auto ids = engine.encode(text, add_special_tokens);
  return PromptInput{std::move(ids), std::move(text), 0};
}

Result<PromptInput> token_prompt(const Json& array, const std::string& name, const ServingEngine& engine) {
  auto ids = read_token_ids(array, name, engine.model().vocab_size);
  if (!ids.ok()) return Failure{ids.failure().kind, ids.failure().message, "prompt"};
  return PromptInput{std::move(ids).value(), {}, 0};
}

// prompt: a string, an array of strings, of token ids, or of arrays of token ids.
Result<std::vector<PromptInput>> read_prompts(const Json* prompt, bool add_special_tokens,
                                              const Truncation& truncation, const ServingEngine& engine) {
  const auto wrong = [] {
    return invalid_argument(
        "prompt must be a string, an array of strings, an array of token ids or an array of such arrays",
        "prompt");
  };
  if (prompt == nullptr) return invalid_argument("prompt is missing", "prompt");
  std::vector<PromptInput> prompts;
  if (prompt->is_string()) {
    auto one = text_prompt(prompt->get<std::string>(), add_special_tokens, truncation, engine);
    if (!one.ok()) return one.failure();
    prompts.push_back(std::move(one).value());
    return prompts;
  }
  if (!prompt->is_array() || prompt->empty()) return wrong();
  if ((*prompt)[0].is_number()) {
    auto one = token_prompt(*prompt, "prompt", engine);
    if (!one.ok()) return one.failure();
    prompts.push_back(std::move(one).value());
    return prompts;
  }
  if (prompt->size() > kMaxPrompts)
    return invalid_argument(cat("one request takes at most ", kMaxPrompts, " prompts"), "prompt");
  for (const Json& element : *prompt) {
    if (!element.is_string() && !element.is_array()) return wrong();
    auto one = element.is_string()
                   ? text_prompt(element.get<std::string>(), add_special_tokens, truncation, engine)
                   : token_prompt(element, cat("prompt[", prompts.size(), "]"), engine);
    if (!one.ok()) return one.failure();
    prompts.push_back(std::move(one).value());
  }
  return prompts;
}

void set_id(GenerationSpec& spec, std::string_view prefix, const std::string& request_id) {
  spec.id = cat(prefix, spec.id.empty() ? request_id : spec.id);
}

// What the engine has to compute so that the answer can be written.
void set_engine_logprobs(GenerationSpec& spec) {
  spec.sampling.logprobs = spec.logprobs;
  spec.sampling.prompt_logprobs = spec.prompt_logprobs;
  if (spec.echo && spec.logprobs) {
    const bool more = !spec.prompt_logprobs || *spec.logprobs == -1 ||
                      (*spec.prompt_logprobs != -1 && *spec.logprobs > *spec.prompt_logprobs);
    if (more) spec.sampling.prompt_logprobs = spec.logprobs;
  }
}

}  // namespace

Result<GenerationSpec> parse_completion(const Json& body, const ServingEngine& engine,
                                        const ApiOptions& options, const std::string& request_id) {
  GenerationSpec spec;
  FieldReader fields(body);
  spec.model = read_model(fields, options);
  read_generation_fields(fields, engine, spec);
  refuse_unsupported(fields);
  const Truncation truncation = read_truncation(fields);
  spec.echo = fields.boolean("echo").value_or(false);
  spec.logprobs = fields.integer32("logprobs", -1);
  const auto wanted = fields.integer32("max_tokens", 0);
  const bool add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  const Json* prompt = fields.any("prompt");
  if (wanted == 0 && !spec.echo && !spec.prompt_logprobs) {
    fields.fail("max_tokens must be at least 1 (0 only scores a prompt: with echo or prompt_logprobs)",
                "max_tokens");
  }
  settle_unread(fields, options, spec);
  if (!fields.ok()) return fields.failure();

  auto prompts = read_prompts(prompt, add_special_tokens, truncation, engine);
  if (!prompts.ok()) return prompts.failure();
  spec.prompts = std::move(prompts).value();
  if (spec.sampling.n > 0 && spec.prompts.size() * static_cast<size_t>(spec.sampling.n) > kMaxChoices) {
    return invalid_argument(cat(spec.prompts.size(), " prompts with n = ", spec.sampling.n,
                                " are more than the ", kMaxChoices, " choices that one request may have"),
                            "n");
  }
  for (PromptInput& p : spec.prompts) {
    const size_t given = p.ids.size();
    if (const Status s = fit_prompt(p, truncation, wanted, kDefaultCompletionTokens, engine.model()); !s.ok())
      return s.failure();
    // What is echoed is what the model saw.
    const bool cut = p.ids.size() != given;
    if (spec.echo && engine.has_tokenizer() && (p.text.empty() || cut)) p.text = engine.decode(p.ids, false);
  }
  set_engine_logprobs(spec);
  set_id(spec, "cmpl-", request_id);
  return spec;
}

Result<GenerationSpec> parse_chat_completion(const Json& body, const ServingEngine& engine,
                                             const ApiOptions& options, const std::string& request_id) {
  GenerationSpec spec;
  spec.chat = true;
  FieldReader fields(body);
  spec.model = read_model(fields, options);
  read_generation_fields(fields, engine, spec);
  refuse_unsupported(fields);
  const Truncation truncation = read_truncation(fields);
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer32("top_logprobs", -1);
  if (top && *top != 0 && !logprobs) fields.fail("top_logprobs needs logprobs: true", "top_logprobs");
  if (logprobs) spec.logprobs = top.value_or(0);
  // The newer name wins.
  const auto max_tokens = fields.integer32("max_tokens", 1);
  const auto max_completion_tokens = fields.integer32("max_completion_tokens", 1);
  const auto wanted = max_completion_tokens ? max_completion_tokens : max_tokens;
  if (fields.boolean("echo").value_or(false)) {
    fields.fail(ErrorKind::kUnsupported,
                "echo is not supported for chat; continue_final_message continues a message", "echo");
  }
  const bool add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (!fields.ok()) return fields.failure();
  auto chat = read_chat_prompt(fields, options);
  if (!chat.ok()) return chat.failure();
  settle_unread(fields, options, spec);
  if (!fields.ok()) return fields.failure();

  if (!engine.has_chat_template() && chat->chat_template.empty()) {
    return invalid_argument(
        "the model has no chat template: start the server with --chat-template FILE, or use /v1/completions "
        "with a prompt",
        "messages");
  }
  if (!engine.has_tokenizer()) return no_tokenizer("messages");
  auto text = engine.render_chat(*chat);
  if (!text.ok()) return text.failure();
  if (const Status s = check_size(*text, truncation, engine, "messages"); !s.ok()) return s.failure();
  PromptInput prompt;
  prompt.ids = add_special_tokens ? engine.encode(*text, true) : engine.encode_rendered(*text);
  if (Status s = fit_prompt(prompt, truncation, wanted, std::numeric_limits<int32_t>::max(), engine.model());
      !s.ok()) {
    Failure failure = s.failure();
    if (failure.param == "prompt") failure.param = "messages";
    return failure;
  }
  if (spec.sampling.n > static_cast<int32_t>(kMaxChoices)) {
    return invalid_argument(cat("n must be between 1 and ", kMaxChoices, ", not ", spec.sampling.n), "n");
  }
  spec.prompts.push_back(std::move(prompt));
  set_engine_logprobs(spec);
  set_id(spec, "chatcmpl-", request_id);
  return spec;
}

}  // namespace quire
