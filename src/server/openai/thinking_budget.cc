#include "server/openai/thinking_budget.h"

#include <span>
#include <string>
#include <utility>

#include "base/strings.h"
#include "engine/answer_language.h"
#include "server/openai/tool_fields.h"
#include "text/output/reasoning_marks.h"

namespace quire {

Status limit_reasoning(GenerationSpec& spec, const ServingEngine& engine, const DetectedFormat& formats,
                       const CompileOptions& compiling, std::optional<std::string_view> rendered,
                       bool effort_is_none) {
  int32_t& budget = spec.sampling.thinking_token_budget;
  const FindMarker token_of = marker_finder(engine);
  if (budget < 0 && effort_is_none && !reasoning_end(formats.reasoning, token_of).empty()) budget = 0;
  if (budget < 0) return {};
  OutputParserOptions reading;
  if (spec.reading) reading = spec.reading->parser;
  const bool channels = formats.reasoning != nullptr && formats.reasoning->name == "harmony";
  if (channels || !spec.chat) reading.calls = formats.calls;
  reading.reasoning = formats.reasoning;
  if (!spec.chat) reading.token_of = token_of;
  const auto decode = [&engine](std::span<const TokenId> ids) { return engine.decode(ids, false); };
  const bool reads_prompts = !rendered && reading.reasoning != nullptr && engine.has_tokenizer();
  for (PromptInput& prompt : spec.prompts) {
    if (rendered) {
      reading.start = output_start(reading.calls, reading.reasoning, *rendered);
    } else if (reads_prompts) {
      reading.start = output_start(reading.calls, reading.reasoning, prompt.ids, token_of, decode);
    }
    SharedConstraint within = spec.constraint;
    if (within != nullptr && reads_prompts) {
      const bool is_over = reasoning_is_over(reading.reasoning, prompt.ids, decode);
      const auto language = answer_after_reasoning(*spec.sampling.structured_outputs, reading, is_over);
      if (!language.ok()) return language.failure();
      auto compiled = engine.compile(*language, compiling);
      if (!compiled.ok()) return compiled.failure();
      within = std::move(*compiled);
    }
    auto limited = engine.limit_reasoning(budget, reading, std::move(within));
    if (!limited.ok()) return limited.failure();
    prompt.constraint = std::move(*limited);
  }
  return {};
}

}  // namespace quire
