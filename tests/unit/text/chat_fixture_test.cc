// Small templates, compared with the output of jinja2; one group per language feature
// (tools/make_template_fixtures.py).
#include <gtest/gtest.h>

#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

class ChatFixture : public testing::TestWithParam<const char*> {};

TEST_P(ChatFixture, MatchesJinja2) {
  const auto path = std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/fixtures/templates" /
                    (std::string(GetParam()) + ".json");
  const Json fixture = Json::parse(read_file(path));
  ASSERT_FALSE(fixture.at("cases").empty());
  for (const auto& item : fixture.at("cases")) {
    const auto source = item.at("template").get<std::string>();
    SCOPED_TRACE(source);
    Json entry = item;
    entry["kwargs"] = fixture.at("context");
    try {
      const auto tmpl = ChatTemplate::parse(source, "fixture");
      EXPECT_EQ(disagreement(tmpl, entry, fixture.at("now").get<std::string>()), "");
    } catch (const Error& error) {
      EXPECT_TRUE(item.contains("error_type")) << "rejected by the parser: " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, ChatFixture,
                         testing::Values("whitespace", "literals", "arithmetic", "comparison", "access",
                                         "string_methods", "percent_format", "text", "tests",
                                         "sequence_filters", "string_filters", "value_filters", "tojson",
                                         "globals", "if_for", "set_macro", "syntax_errors"),
                         [](const auto& group) { return std::string(group.param); });

}  // namespace
}  // namespace quire::test
