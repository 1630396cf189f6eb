// Regular expressions, compared with Python's `re` (tools/make_grammar_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "grammar/regex.h"
#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

TEST(RegexGolden, MatchesWhatPythonMatches) {
  std::ifstream file(QUIRE_SOURCE_DIR "/tests/golden/grammar/regex.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 400U);
  for (const auto& entry : cases) {
    const auto pattern = entry["pattern"].get<std::string>();
    SCOPED_TRACE(pattern);
    for (const bool search : {false, true}) {
      const auto language = parse_regex(
          pattern, {.dialect = RegexOptions::Dialect::kPython, .search = search, .encode = {}, .limits = {}});
      ASSERT_TRUE(language.ok()) << language.failure().message;
      const auto expected = entry[search ? "search" : "full"].get<std::string>();
      for (size_t i = 0; i < expected.size(); ++i) {
        const auto text = entry["texts"][i].get<std::string>();
        EXPECT_EQ(oracle_matches(*language, text), expected[i] == '1')
            << (search ? "search in '" : "match of '") << text << "'";
      }
    }
  }
}

}  // namespace
}  // namespace quire::grammar
