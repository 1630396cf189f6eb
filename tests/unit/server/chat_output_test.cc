// Outputs of chats, from deltas with one token or several.
#include "server/openai/chat_output.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/output/formats.h"

namespace quire {
namespace {

struct Read {
  ParsedOutput output;
  int64_t num_reasoning_tokens = 0;
};

constexpr TokenId kEnd = 9;  // </think>

Read read(const std::vector<CompletionDelta>& deltas) {
  OutputReading reading;
  reading.parser.reasoning = find_reasoning_format("qwen3");
  reading.parser.start = OutputStart::kReasoning;
  reading.parser.token_of = [](std::string_view text) {
    return text == "</think>" ? std::optional<TokenId>(kEnd) : std::nullopt;
  };
  ChatOutput chat(reading, 0);
  std::vector<OutputEvent> events;
  for (const CompletionDelta& delta : deltas) chat.push(delta, events);
  return {fold_events(events), chat.num_reasoning_tokens()};
}

// The marker that ends reasoning is a token of its own, with and without text.
TEST(ChatOutput, ReadsTheSameFromOneDeltaAsFromOnePerToken) {
  for (const std::string end : {"</think>", ""}) {
    std::vector<CompletionDelta> single;
    CompletionDelta whole;
    const std::vector<std::pair<TokenId, std::string>> tokens = {{1, "So"},   {2, ""},    {3, " it is."},
                                                                 {kEnd, end}, {4, "Yes"}, {5, "."}};
    for (const auto& [token, text] : tokens) {
      CompletionDelta& delta = single.emplace_back();
      delta.token_ids = {token};
      delta.text = text;
      whole.token_ids.push_back(token);
      if (token == kEnd) {
        delta.markers = {{0, text.size(), kEnd}};
        whole.markers = {{whole.text.size(), text.size(), kEnd}};
      }
      whole.text += text;
      whole.text_ends.push_back(whole.text.size());
    }
    single.back().finish_reason = whole.finish_reason = FinishReason::kStop;
    const Read expected = read(single);
    const Read actual = read({whole});
    EXPECT_EQ(expected.num_reasoning_tokens, 3);
    EXPECT_EQ(actual.num_reasoning_tokens, expected.num_reasoning_tokens);
    EXPECT_EQ(actual.output.reasoning, "So it is.");
    EXPECT_EQ(actual.output.text, "Yes.");
    EXPECT_EQ(expected.output.text, actual.output.text);
  }
}

}  // namespace
}  // namespace quire
