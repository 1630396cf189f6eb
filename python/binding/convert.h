// Conversions between Python objects and the engine's records. All of them need the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "core.h"

namespace quire::python {

namespace nb = nanobind;

// Spellings of tokens as Python strings, each made at its first use.
class TokenTexts {
 public:
  // A new reference to the text of the token; bytes that are not UTF-8 become U+FFFD.
  nb::object get(const Tokenizer* tokenizer, TokenId token);

 private:
  nb::dict texts_;
};

nb::str to_str(std::string_view text);
nb::list to_list(const std::vector<TokenId>& ids);

// A prompt of vLLM's PromptType: a string, a list of token ids, or a dictionary with "prompt" or
// "prompt_token_ids". Throws RequestError that names the element.
PromptInput to_prompt(nb::handle object, size_t index);
std::vector<PromptInput> to_prompts(nb::handle sequence);

// Throws RequestError for an unknown name or a value of the wrong type.
EngineOptions to_options(const nb::dict& fields);
SharedSamplingParams to_sampling_params(const nb::dict& fields);
nb::dict from_sampling_params(const SamplingParams& params);

// (index, text, token_ids, cumulative_logprob, logprobs | None, finish_reason | None, stop_reason | None)
nb::tuple to_tuple(const CompletionDelta& completion, const Tokenizer* tokenizer, TokenTexts& texts);
// None if there are none, else one (token_ids, logprobs, ranks, texts) per position.
nb::object to_logprobs(const std::vector<PositionLogprobs>& positions, const Tokenizer* tokenizer,
                       TokenTexts& texts);
// float32 array [size].
nb::object to_array(const std::vector<float>& values);
// (arrival, scheduled, first_token, last_token) in seconds of the monotonic clock; 0 = has not happened.
nb::tuple to_tuple(const RequestTimes& times);

// Sets the Python exception for an Error, called by nanobind.
void translate_exception(const std::exception_ptr& error, void* payload);

}  // namespace quire::python
