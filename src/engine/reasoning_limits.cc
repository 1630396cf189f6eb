#include "engine/reasoning_limits.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "engine/answer_language.h"
#include "engine/constraint_compiler.h"
#include "grammar/reasoning_budget.h"
#include "text/output/choose_format.h"
#include "text/output/reasoning_marks.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

constexpr const char* kField = "thinking_token_budget";

// `tokenizer` must outlive it.
FindMarker marker_finder(const Tokenizer& tokenizer) {
  return [&tokenizer](std::string_view text) { return tokenizer.added_token(text); };
}

Result<SharedConstraint> compile_answer(const StructuredOutputs& answer, const OutputParserOptions& reading,
                                        bool reasoning_is_over, ConstraintCompiler& constraints) {
  // Alone first: what is wrong with it is then named by the request's own pointers.
  if (auto alone = constraints.compile(answer); !alone.ok()) return alone;
  const auto language = answer_after_reasoning(answer, reading, reasoning_is_over);
  if (!language.ok()) return language.failure();
  return constraints.compile(*language);
}

}  // namespace

Result<SharedConstraint> ReasoningLimits::limit(int32_t tokens, OutputParserOptions reading,
                                                SharedConstraint within) {
  if (tokenizer_ == nullptr)
    return invalid_argument(cat(kField, " needs a tokenizer, and this model has none."), kField);
  const Tokenizer& tokenizer = *tokenizer_;
  reading.token_of = marker_finder(tokenizer);
  const std::string_view end = reasoning_end(reading.reasoning, reading.token_of);
  if (end.empty()) {
    return invalid_argument(
        cat(kField, " is ", tokens,
            ", but no format of reasoning is known for this model that a marker ends; "
            "--reasoning-parser names the format where the chat template does not show it."),
        kField);
  }
  grammar::ReasoningBudget budget{.tokens = tokens, .reading = std::move(reading)};
  if (const auto token = budget.reading.token_of(end)) {
    budget.end = {*token};
  } else {
    budget.end = tokenizer.encode(end, false);
  }
  // A tokenizer may have tokens for which the model has no logits.
  const auto is_generated = [&](TokenId id) { return id >= 0 && id < vocab_size_; };
  if (budget.end.empty() || !std::ranges::all_of(budget.end, is_generated))
    return invalid_argument(cat(kField, ": the model cannot write '", end, "'."), kField);
  budget.text_of = [&tokenizer](TokenId id) {
    return tokenizer.is_special(id) ? std::string() : tokenizer.token_bytes(id);
  };
  return grammar::limit_reasoning(std::move(budget), std::move(within));
}

Result<SharedConstraint> ReasoningLimits::limit(const Request& request, ConstraintCompiler& constraints) {
  const SamplingParams& sampling = *request.sampling;
  OutputParserOptions reading;
  SharedConstraint within;
  reading.reasoning = formats().reasoning;
  if (reading.reasoning != nullptr && tokenizer_ != nullptr) {
    reading.calls = formats().calls;
    reading.token_of = marker_finder(*tokenizer_);
    const auto decode = [this](std::span<const TokenId> ids) { return tokenizer_->decode(ids, false); };
    reading.start =
        output_start(reading.calls, reading.reasoning, request.prompt_token_ids, reading.token_of, decode);
    if (sampling.structured_outputs) {
      const bool is_over = reasoning_is_over(reading.reasoning, request.prompt_token_ids, decode);
      auto compiled = compile_answer(*sampling.structured_outputs, reading, is_over, constraints);
      if (!compiled.ok()) return compiled.failure();
      within = std::move(*compiled);
    }
  }
  return limit(sampling.thinking_token_budget, std::move(reading), std::move(within));
}

const DetectedFormat& ReasoningLimits::formats() {
  const std::lock_guard lock(mutex_);
  if (!formats_) formats_ = detect_formats(templates_, tokenizer_);
  return *formats_;
}

}  // namespace quire
