#include "engine/text_pairs.h"

#include <algorithm>
#include <cmath>

#include "engine/chat_context.h"

namespace quire {

Result<PooledText> encode_pair(const Engine& engine, std::string_view query, std::string_view document,
                               std::string_view instruction, const YieldPoint& yield_point) {
  PooledText text;
  if (engine.model().bidirectional || engine.chat_template() == nullptr) {
    Tokenizer::Pair pair = engine.tokenizer()->encode_pair(query, document, yield_point);
    text.ids = std::move(pair.ids);
    if (engine.model().has_token_types) text.second_text = static_cast<int32_t>(pair.second);
    return text;
  }
  ChatRequest request;
  request.messages.push_back({{"role", "query"}, {"content", query}});
  request.messages.push_back({{"role", "document"}, {"content", document}});
  if (!instruction.empty()) request.kwargs["instruction"] = instruction;
  const auto rendered = render_chat(engine.chat_template(), engine.tokenizer(), std::move(request));
  if (!rendered.ok()) return rendered.failure();
  text.ids = engine.tokenizer()->encode_rendered(*rendered, yield_point);
  return text;
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
