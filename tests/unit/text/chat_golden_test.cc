// All chat templates of the shared data, compared with the output of transformers.
#include <gtest/gtest.h>

#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

TEST(ChatGolden, MatchesTransformers) {
  const auto dir = shared_dir() / "data" / "templates";
  if (!std::filesystem::exists(dir / "golden")) {
    GTEST_SKIP() << "the shared chat templates are missing: " << dir << " (set QUIRE_SHARED)";
  }
  size_t templates = 0, cases = 0, failures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "golden")) {
    const Json golden = Json::parse(read_file(entry.path()));
    const auto name = golden.at("template").get<std::string>();
    const auto tmpl = ChatTemplate::parse(read_file(dir / "jinja" / name), name);
    ++templates;
    for (const auto& item : golden.at("cases")) {
      ++cases;
      const auto problem = disagreement(tmpl, item, golden.at("frozen_now").get<std::string>());
      if (problem.empty()) continue;
      constexpr size_t kShown = 10;
      if (++failures <= kShown) ADD_FAILURE() << name << ", case " << item.at("name") << ": " << problem;
    }
  }
  EXPECT_EQ(failures, 0U) << "of " << cases << " cases of " << templates << " templates";
  EXPECT_EQ(templates, 136U);
  EXPECT_EQ(cases, 4472U);
}

}  // namespace
}  // namespace quire::test
