// JSON-Schema-Test-Suite: each group of instances is judged by the grammar of its schema. The instances are
// compact JSON with the keys in the order of the suite, so a group that needs another order of keys than the
// schema's counts as too strict.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "grammar/schema.h"
#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

std::filesystem::path schema_dir() {
  const char* shared = std::getenv("QUIRE_SHARED");
  const auto root = shared != nullptr ? std::filesystem::path(shared)
                                      : std::filesystem::path(QUIRE_SOURCE_DIR) / ".." / "shared";
  return root / "data" / "schemas";
}

SchemaJson read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return SchemaJson::parse(file);
}

// Numbers of groups by how they were judged.
struct Verdicts {
  int exact = 0;
  int too_strict = 0;
  int refused = 0;
  int wrong = 0;
  std::vector<std::string> wrongly_accepted;
  std::vector<std::string> refused_without_pointer;
};

// A schema that no instance satisfies is refused, which is the exact judgement if all instances are invalid.
bool says_unsatisfiable(const std::string& message) {
  return message.find("no value satisfies the schema") != std::string::npos;
}

void judge(const SchemaJson& group, const SchemaOptions& options, Verdicts& verdicts) {
  const auto name = group.at("description").get<std::string>();
  const SchemaJson& tests = group.at("tests");
  const bool none_valid = std::none_of(tests.begin(), tests.end(),
                                       [](const SchemaJson& test) { return test.at("valid") == true; });
  const auto schema = schema_grammar(group.at("schema"), options);
  if (!schema.ok()) {
    const std::string& message = schema.failure().message;
    const bool exact = says_unsatisfiable(message) && none_valid;
    ++(exact ? verdicts.exact : verdicts.refused);
    const bool has_pointer = message.starts_with('/') && message.find(": ") != std::string::npos;
    if (!exact && !has_pointer) verdicts.refused_without_pointer.push_back(name + ": " + message);
    return;
  }
  bool exact = true;
  bool wrong = false;
  for (const SchemaJson& test : tests) {
    const std::string text = test.at("data").dump();
    const bool accepted = oracle_matches(schema->grammar, text);
    if (accepted && test.at("valid") == false) {
      verdicts.wrongly_accepted.push_back(name + ": " + text);
      wrong = true;
    }
    exact = exact && accepted == test.at("valid");
  }
  ++(wrong ? verdicts.wrong : exact ? verdicts.exact : verdicts.too_strict);
}

void add(Verdicts& sum, const Verdicts& part) {
  sum.exact += part.exact;
  sum.too_strict += part.too_strict;
  sum.wrong += part.wrong;
  sum.refused += part.refused;
  sum.wrongly_accepted.insert(sum.wrongly_accepted.end(), part.wrongly_accepted.begin(),
                              part.wrongly_accepted.end());
  sum.refused_without_pointer.insert(sum.refused_without_pointer.end(), part.refused_without_pointer.begin(),
                                     part.refused_without_pointer.end());
}

Verdicts judge_all(const char* draft_name, Draft draft) {
  Verdicts all;
  SchemaOptions options;
  options.draft = draft;
  std::vector<std::filesystem::path> files;
  for (const auto& file :
       std::filesystem::directory_iterator(schema_dir() / "JSON-Schema-Test-Suite" / "tests" / draft_name))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    Verdicts verdicts;
    for (const SchemaJson& group : read(file)) judge(group, options, verdicts);
    // tools/make_schema_table.py reads this.
    std::printf("suite: %s %d %d %d %d\n", file.stem().c_str(), verdicts.exact, verdicts.too_strict,
                verdicts.wrong, verdicts.refused);
    add(all, verdicts);
  }
  return all;
}

class SchemaSuite : public testing::Test {
  void SetUp() override {
    if (!std::filesystem::exists(schema_dir()))
      GTEST_SKIP() << "SKIPPED: no schemas at " << schema_dir() << " (set QUIRE_SHARED)";
  }
};

TEST_F(SchemaSuite, JudgesDraft2020) {
  const Verdicts verdicts = judge_all("draft2020-12", Draft::k2020);
  EXPECT_EQ(verdicts.wrongly_accepted, std::vector<std::string>());
  EXPECT_EQ(verdicts.refused_without_pointer, std::vector<std::string>());
  EXPECT_GE(verdicts.exact, 326);
  EXPECT_EQ(verdicts.exact + verdicts.too_strict + verdicts.refused, 383);
}

TEST_F(SchemaSuite, JudgesDraft7) {
  const Verdicts verdicts = judge_all("draft7", Draft::k7);
  EXPECT_EQ(verdicts.wrongly_accepted, std::vector<std::string>());
  EXPECT_EQ(verdicts.refused_without_pointer, std::vector<std::string>());
  EXPECT_GE(verdicts.exact, 230);
  EXPECT_EQ(verdicts.exact + verdicts.too_strict + verdicts.refused, 257);
}

TEST_F(SchemaSuite, JudgesTheRecordedStrings) {
  int strings = 0;
  for (const SchemaJson& entry : read(schema_dir() / "grammar_cases.json")) {
    if (entry.at("kind") != "json_schema") continue;
    SchemaJson schema = entry.at("schema");
    SCOPED_TRACE(schema.dump());
    auto grammar = schema_grammar(schema);
    if (!grammar.ok()) {
      // One schema wants different strings in an array, which is not supported; the rest of it is.
      ASSERT_EQ(grammar.failure().message.substr(0, 29), "/properties/tags/uniqueItems:");
      schema["properties"]["tags"].erase("uniqueItems");
      grammar = schema_grammar(schema);
    }
    ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
    for (const char* kind : {"accept", "reject"}) {
      for (const SchemaJson& text : entry.at(kind)) {
        EXPECT_EQ(oracle_matches(grammar->grammar, text.get<std::string>()), std::string(kind) == "accept")
            << text;
        ++strings;
      }
    }
  }
  EXPECT_GT(strings, 80);
}

}  // namespace
}  // namespace quire::grammar
