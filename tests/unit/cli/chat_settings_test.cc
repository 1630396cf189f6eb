#include "cli/chat/chat_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/chat/conversation.h"
#include "quire/error.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& name, const std::string& value) {
  ChatSettings settings;
  try {
    set_chat_field(settings, {}, name, value);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ChatSettings, SetsFieldsAndRestoresThem) {
  const ChatSettings defaults{.sampling = {.max_tokens = 9, .temperature = 0.5F}};
  ChatSettings settings = defaults;
  set_chat_field(settings, defaults, "temperature", "0.7");
  set_chat_field(settings, defaults, "top-k", "40");
  set_chat_field(settings, defaults, "seed", "-3");
  set_chat_field(settings, defaults, "stats", "off");
  EXPECT_EQ(settings.sampling.temperature, 0.7F);
  EXPECT_EQ(settings.sampling.top_k, 40);
  EXPECT_EQ(settings.sampling.seed, -3);
  EXPECT_FALSE(settings.stats);
  EXPECT_THAT(chat_fields_text(settings), HasSubstr("temperature         0.7 "));
  EXPECT_THAT(chat_fields_text(settings), HasSubstr("max_tokens          9 "));
  for (const std::string& name : chat_field_names()) set_chat_field(settings, defaults, name, "default");
  EXPECT_EQ(chat_fields_text(settings), chat_fields_text(defaults));
}

TEST(ChatSettings, NamesTheRangeOfAWrongValue) {
  EXPECT_EQ(error_of("temperature", "2.5"),
            "temperature must be a number of at least 0 and at most 2, not '2.5'");
  EXPECT_EQ(error_of("top_p", "0"), "top_p must be a number greater than 0 and at most 1, not '0'");
  EXPECT_EQ(error_of("repetition_penalty", "inf"),
            "repetition_penalty must be a number greater than 0, not 'inf'");
  EXPECT_EQ(error_of("max_tokens", "99999999999"),
            "max_tokens must be an integer of at least 0, not '99999999999'");
  EXPECT_EQ(error_of("seed", "x"), "seed must be an integer or 'random', not 'x'");
  EXPECT_EQ(error_of("stats", ""), "stats must be on or off, not ''");
  EXPECT_THAT(error_of("n", "2"), HasSubstr("there is no 'n' to set; names are temperature, top_p"));
}

TEST(AnswerStats, HasTheRateOfTheTokensAfterTheFirst) {
  EXPECT_EQ(answer_stats_text({.num_tokens = 11, .times = {.first_token = 0.25, .total = 2.25}}),
            "11 tokens, 5.0 tokens/s, first token after 250 ms");
  EXPECT_EQ(answer_stats_text({.num_tokens = 1, .times = {.first_token = 1.5, .total = 1.5}}),
            "1 token, first token after 1.50 s");
  EXPECT_EQ(answer_stats_text({}), "");
}

}  // namespace
}  // namespace quire::cli
