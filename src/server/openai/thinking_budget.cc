#include "server/openai/thinking_budget.h"

#include <span>
#include <string>
#include <utility>

#include "base/strings.h"
#include "server/openai/tool_fields.h"
#include "text/output/reasoning_marks.h"

namespace quire {

Status limit_reasoning(GenerationSpec& spec, const ServingEngine& engine, const DetectedFormat& formats,
                       std::optional<std::string_view> rendered, bool effort_is_none) {
  int32_t& budget = spec.sampling.thinking_token_budget;
  const FindMarker token_of = marker_finder(engine);
  if (budget < 0 && effort_is_none && !reasoning_end(formats.reasoning, token_of).empty()) budget = 0;
  if (budget < 0) return {};
  // The engine says why it refuses a constraint on the whole output.
  if (!spec.chat && spec.constraint != nullptr) {
    spec.constraint = nullptr;
    return {};
  }
  OutputParserOptions reading;
  if (spec.reading) reading = spec.reading->parser;
  const bool channels = formats.reasoning != nullptr && formats.reasoning->name == "harmony";
  if (channels || !spec.chat) reading.calls = formats.calls;
  reading.reasoning = formats.reasoning;
  for (PromptInput& prompt : spec.prompts) {
    if (rendered) {
      reading.start = output_start(reading.calls, reading.reasoning, *rendered);
    } else if (reading.reasoning != nullptr && engine.has_tokenizer()) {
      const auto decode = [&engine](std::span<const TokenId> ids) { return engine.decode(ids, false); };
      reading.start = output_start(reading.calls, reading.reasoning, prompt.ids, token_of, decode);
    }
    auto limited = engine.limit_reasoning(budget, reading, spec.constraint);
    if (!limited.ok()) return limited.failure();
    prompt.constraint = std::move(*limited);
  }
  return {};
}

}  // namespace quire
