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

TEST(ChatSettings, SetsSamplersTextsAndSwitches) {
  ChatSettings settings;
  set_chat_field(settings, {}, "dry-multiplier", "0.8");
  set_chat_field(settings, {}, "mirostat_mode", "2");
  set_chat_field(settings, {}, "ignore_eos", "on");
  set_chat_field(settings, {}, "stop", "The end");
  set_chat_field(settings, {}, "bad_words", R"(["one", "two"])");
  EXPECT_EQ(settings.sampling.dry_multiplier, 0.8F);
  EXPECT_EQ(settings.sampling.mirostat_mode, 2);
  EXPECT_TRUE(settings.sampling.ignore_eos);
  EXPECT_EQ(settings.sampling.stop, (std::vector<std::string>{"The end"}));
  EXPECT_EQ(settings.sampling.bad_words, (std::vector<std::string>{"one", "two"}));
  EXPECT_THAT(chat_fields_text(settings), HasSubstr(R"(["one","two"])"));
  EXPECT_EQ(error_of("stop", "[1]"), "stop must be a text or a JSON array of texts, not '[1]'");
}

TEST(ChatSettings, SetsOneConstraintAtATime) {
  using Kind = StructuredOutputs::Kind;
  ChatSettings settings;
  set_chat_field(settings, {}, "json-schema", R"({"type":"object"})");
  ASSERT_TRUE(settings.sampling.structured_outputs);
  EXPECT_EQ(settings.sampling.structured_outputs->kind, Kind::kJsonSchema);
  EXPECT_EQ(settings.sampling.structured_outputs->field, "json_schema");
  set_chat_field(settings, {}, "regex", "[ab]+");
  EXPECT_EQ(settings.sampling.structured_outputs->kind, Kind::kRegex);
  EXPECT_EQ(settings.sampling.structured_outputs->text, "[ab]+");
  set_chat_field(settings, {}, "json_schema", "off");
  EXPECT_TRUE(settings.sampling.structured_outputs) << "another one is set";
  set_chat_field(settings, {}, "regex", "off");
  EXPECT_FALSE(settings.sampling.structured_outputs);
  EXPECT_THAT(error_of("grammar", "/no/such/file"), HasSubstr("/no/such/file"));
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
  EXPECT_THAT(error_of("n", "2"), HasSubstr("there is no 'n' to set; names are typical_p, top_n_sigma"));
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
