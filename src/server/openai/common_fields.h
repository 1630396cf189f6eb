// Fields that several endpoints share.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "server/openai/field_reader.h"
#include "server/openai/generation_spec.h"

namespace quire {

// The `model` field: absent, empty or one of ours; else a not-found failure. Gives the name that answers use.
std::string read_model(FieldReader& fields, const ApiOptions& options);

// Sampling fields over the model's defaults, and what completions and chat have in common. max_tokens,
// logprobs and prompts are left to the endpoint. Ranges are the engine's to check (sample/validate.h).
void read_generation_fields(FieldReader& fields, const ServingEngine& engine, GenerationSpec& spec);

// Fails for fields that would constrain or change the output in a way this program cannot follow. They are
// never dropped in silence.
void refuse_unsupported(FieldReader& fields);

// Fields nobody read: into spec.ignored_params, or a failure when strict.
void settle_unread(FieldReader& fields, const ApiOptions& options, GenerationSpec& spec);

// How a prompt that is longer than asked for is cut.
struct Truncation {
  std::optional<int32_t> keep;  // -1: what the model takes besides the tokens to be generated
  bool cut_left = true;
};
Truncation read_truncation(FieldReader& fields);

// Cuts the prompt, checks its length and sets max_tokens. `wanted`: the request's own max_tokens;
// `otherwise`: the most where it has none (the rest of the context is always a limit).
Status fit_prompt(PromptInput& prompt, const Truncation& truncation, std::optional<int32_t> wanted,
                  int32_t otherwise, const ModelInfo& model);

// A chat template's input from messages, tools, documents, chat_template_kwargs and the flags beside them.
Result<ChatPrompt> read_chat_prompt(FieldReader& fields, const ApiOptions& options);

}  // namespace quire
