#include "engine/text_pairs.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/strings.h"
#include "engine/chat_context.h"

namespace quire {

namespace {

Result<std::vector<TokenId>> render_pair(const Engine& engine, std::string_view query,
                                         std::string_view document, std::string_view instruction,
                                         const YieldPoint& yield_point) {
  ChatRequest request;
  request.messages.push_back({{"role", "query"}, {"content", query}});
  request.messages.push_back({{"role", "document"}, {"content", document}});
  if (!instruction.empty()) request.kwargs["instruction"] = instruction;
  const auto rendered = render_chat(engine.chat_templates(), engine.tokenizer(), std::move(request));
  if (!rendered.ok()) return rendered.failure();
  return engine.tokenizer()->encode_rendered(*rendered, yield_point);
}

}  // namespace

Result<PooledText> encode_pair(const Engine& engine, std::string_view query, std::string_view document,
                               const PairOptions& options, const YieldPoint& yield_point) {
  PooledText text;
  size_t begin = 0;
  size_t end = 0;
  if (engine.model().bidirectional || engine.chat_templates().empty()) {
    Tokenizer::Pair pair = engine.tokenizer()->encode_pair(query, document, yield_point);
    text.ids = std::move(pair.ids);
    if (engine.model().has_token_types) text.second_text = static_cast<int32_t>(pair.second);
    begin = pair.text_begin;
    end = pair.text_end;
  } else {
    auto ids = render_pair(engine, query, document, options.instruction, yield_point);
    if (!ids.ok()) return ids.failure();
    text.ids = std::move(ids).value();
    end = text.ids.size();
    if (!options.keep || static_cast<int64_t>(end) <= *options.keep) return text;
    // The tokens that do not depend on the document are those that two other documents leave as they are.
    size_t before = end;
    size_t after = end;
    for (const std::string_view other : {"a", "0"}) {
      auto probe = render_pair(engine, query, other, options.instruction, yield_point);
      if (!probe.ok()) return probe.failure();
      const auto same = std::ranges::mismatch(text.ids, *probe).in1 - text.ids.begin();
      before = std::min(before, static_cast<size_t>(same));
      const auto same_at_end =
          std::mismatch(text.ids.rbegin(), text.ids.rend(), probe->rbegin(), probe->rend());
      after = std::min(after, static_cast<size_t>(same_at_end.first - text.ids.rbegin()));
    }
    begin = std::min(before, end - after);
    end -= after;
  }
  if (const Status s = truncate_pair(text, begin, end, options); !s.ok()) return s.failure();
  return text;
}

Status truncate_pair(PooledText& pair, size_t begin, size_t end, const PairOptions& options) {
  const size_t size = pair.ids.size();
  if (!options.keep || static_cast<int64_t>(size) <= *options.keep) return {};
  const auto excess = size - static_cast<size_t>(std::max<int64_t>(*options.keep, 0));
  if (excess >= end) {
    return invalid_argument(
        cat("truncate_prompt_tokens is ", *options.keep, ", but ",
            counted(static_cast<int64_t>(size - end), "token"), size - end == 1 ? " follows" : " follow",
            " the document; at least one more is needed."),
        "truncate_prompt_tokens");
  }
  const size_t first = options.cut_left && excess <= end - begin ? begin : end - excess;
  const auto at = pair.ids.begin() + static_cast<std::ptrdiff_t>(first);
  pair.ids.erase(at, at + static_cast<std::ptrdiff_t>(excess));
  pair.second_text = std::min(pair.second_text, static_cast<int32_t>(end - excess));
  return {};
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0.0;
  double of_a = 0.0;
  double of_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    of_a += static_cast<double>(a[i]) * a[i];
    of_b += static_cast<double>(b[i]) * b[i];
  }
  return dot / std::max(std::sqrt(of_a * of_b), 1e-12);
}

}  // namespace quire
