// Fields that several endpoints have in common.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "server/openai/field_reader.h"
#include "server/openai/generation_spec.h"

namespace quire {

// The message for a model that is neither the base model nor one of its adapters.
std::string no_such_model(std::string_view name, const ApiOptions& options, const ServingEngine& engine);
// The `model` field. Absent and empty stand for the first model name; an unknown name is a not-found failure.
ModelChoice read_model(FieldReader& fields, const ApiOptions& options, const ServingEngine& engine);

// id: the request's id unless it has the field `request_id`; prefix: of the id in the response. A priority
// where the scheduling policy has none is ignored.
void read_labels(FieldReader& fields, const ApiOptions& options, const ServingEngine& engine,
                 std::string_view prefix, const std::string& id, RequestLabels& labels);

// Sampling fields, on top of the model's defaults, and the other fields of both completions and chat.
// max_tokens, logprobs and prompts are left to the endpoint. The engine checks the ranges
// (sample/validate.h).
void read_generation_fields(FieldReader& fields, const ServingEngine& engine, const ApiOptions& options,
                            GenerationSpec& spec);

// Fails for fields that would constrain or change the output in a way that is not supported. They are never
// ignored.
void refuse_unsupported(FieldReader& fields);

// Unknown fields are added to ignored_params; with --strict-params they are a failure.
void settle_unread(FieldReader& fields, const ApiOptions& options, std::vector<std::string>& ignored_params);

// How long prompts are truncated.
struct Truncation {
  std::optional<int32_t> keep;  // tokens; -1 = as many as fit next to max_tokens
  bool cut_left = true;
};
Truncation read_truncation(FieldReader& fields);

// Truncates the prompt, checks its length and sets max_tokens: to `wanted`, or without it to
// default_max_tokens, at most the rest of the context.
Status fit_prompt(PromptInput& prompt, const Truncation& truncation, std::optional<int32_t> wanted,
                  int32_t default_max_tokens, const ModelInfo& model);

// read_chat_request() for the fields of a body.
Result<ChatRequest> read_chat_fields(FieldReader& fields, const ApiOptions& options,
                                     const YieldPoint& yield_point = {});

}  // namespace quire
