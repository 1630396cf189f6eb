// Prompts of rerankers for a query and a document: from a chat template, or from the tokenizer's pair format.
#include "engine/text_pairs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "support/golden_checkpoint.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

fs::path golden(const char* name) {
  return test::golden_checkpoint(std::string("pooling/") + name);
}

// A golden reranker with a tokenizer, and with this chat template unless it is empty.
class TextPairs : public testing::Test {
 protected:
  std::unique_ptr<Engine> start(const char* model, const std::string& chat_template) {
    const fs::path path = dir_.path() / model;
    fs::copy(golden(model), path, fs::copy_options::recursive);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(golden("bert") / file, path / file, fs::copy_options::overwrite_existing);
    if (!chat_template.empty()) std::ofstream(path / "chat_template.jinja") << chat_template;
    EngineConfig config;
    config.model = path.string();
    config.threads = 1;
    config.kv_cache_memory = int64_t{4} << 20;
    return Engine::start(config);
  }
  test::TempDir dir_;
};

constexpr const char* kTemplate =
    "{{ instruction | default('find') }}: {% for m in messages %}{{ m.role }} {{ m.content }}, {% endfor %}"
    "{% if add_generation_prompt %}good?{% endif %}";

TEST_F(TextPairs, UseTheChatTemplateOfADecoder) {
  const auto engine = start("qwen3-reranker", kTemplate);
  const auto plain = encode_pair(*engine, "the cat", "rain");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->ids, engine->tokenizer()->encode_rendered("find: query the cat, document rain, good?"));
  EXPECT_EQ(plain->second_text, 0);
  const auto instructed = encode_pair(*engine, "the cat", "rain", {.instruction = "query"});
  ASSERT_TRUE(instructed.ok());
  EXPECT_EQ(instructed->ids,
            engine->tokenizer()->encode_rendered("query: query the cat, document rain, good?"));
}

TEST_F(TextPairs, AreTruncatedInTheDocument) {
  const auto engine = start("qwen3-reranker", kTemplate);
  const auto ids = [&](const std::string& document) {
    return engine->tokenizer()->encode_rendered("find: query the cat, document " + document + ", good?");
  };
  // Each of these words is a token.
  const auto size = static_cast<int64_t>(ids("rain rain the").size());
  ASSERT_EQ(size, static_cast<int64_t>(ids("rain rain the cat the").size()) - 2);
  const auto right = encode_pair(*engine, "the cat", "rain rain the cat the", {.keep = size});
  ASSERT_TRUE(right.ok());
  EXPECT_EQ(right->ids, ids("rain rain the"));
  const auto left =
      encode_pair(*engine, "the cat", "rain rain the cat the", {.keep = size, .cut_left = true});
  ASSERT_TRUE(left.ok());
  EXPECT_EQ(left->ids, ids("the cat the"));
}

TEST_F(TextPairs, KeepTheEndOfTheTemplateIfTheQueryIsTooLong) {
  const auto engine = start("qwen3-reranker", kTemplate);
  const auto full = encode_pair(*engine, "the cat the cat the cat", "rain");
  const auto tail = engine->tokenizer()->encode_rendered(", good?");
  const auto keep = static_cast<int64_t>(tail.size()) + 3;
  const auto pair = encode_pair(*engine, "the cat the cat the cat", "rain", {.keep = keep});
  ASSERT_TRUE(full.ok() && pair.ok());
  auto expected = std::vector<TokenId>(full->ids.begin(), full->ids.begin() + 3);
  expected.insert(expected.end(), tail.begin(), tail.end());
  EXPECT_EQ(pair->ids, expected);
  const auto refused = encode_pair(*engine, "the cat", "rain", {.keep = static_cast<int64_t>(tail.size())});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().param, "truncate_prompt_tokens");
  EXPECT_NE(refused.failure().message.find("tokens follow the document"), std::string::npos)
      << refused.failure().message;
}

TEST_F(TextPairs, KeepTheLastSpecialTokenOfEncoders) {
  const auto engine = start("bert-reranker", "");
  const auto full = encode_pair(*engine, "the cat", "rain rain rain rain");
  ASSERT_TRUE(full.ok());
  const auto size = static_cast<int64_t>(full->ids.size());
  const auto cut = encode_pair(*engine, "the cat", "rain rain rain rain", {.keep = size - 2});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->ids, encode_pair(*engine, "the cat", "rain rain")->ids);
  // Only the query is left: no token is of the second text's type, except the last.
  const auto short_pair = encode_pair(*engine, "the cat", "rain rain rain rain", {.keep = 3});
  ASSERT_TRUE(short_pair.ok());
  EXPECT_EQ(short_pair->ids, (std::vector<TokenId>{full->ids[0], full->ids[1], full->ids.back()}));
  EXPECT_EQ(short_pair->second_text, 2);
}

TEST_F(TextPairs, WithoutSpecialTokensAreTruncatedAtTheEnd) {
  PooledText joined{{1, 2, 3, 4, 5}, 0};
  ASSERT_TRUE(truncate_pair(joined, 2, 5, {.keep = 3}).ok());
  EXPECT_EQ(joined.ids, (std::vector<TokenId>{1, 2, 3}));
}

TEST_F(TextPairs, ReportErrorsOfTheTemplate) {
  const auto engine = start("qwen3-reranker", "{{ raise_exception('no such roles') }}");
  const auto pair = encode_pair(*engine, "the cat", "rain");
  ASSERT_FALSE(pair.ok());
  EXPECT_NE(pair.failure().message.find("no such roles"), std::string::npos);
}

TEST_F(TextPairs, AreJoinedByTheTokenizerWithoutATemplate) {
  const auto engine = start("qwen3-reranker", "");
  const auto pair = encode_pair(*engine, "the cat", "rain");
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair->ids, engine->tokenizer()->encode_pair("the cat", "rain").ids);
}

TEST_F(TextPairs, IgnoreTemplatesOfEncoders) {
  const auto engine = start("bert-reranker", kTemplate);
  const auto pair = encode_pair(*engine, "the cat", "rain");
  ASSERT_TRUE(pair.ok());
  const auto joined = engine->tokenizer()->encode_pair("the cat", "rain");
  EXPECT_EQ(pair->ids, joined.ids);
  EXPECT_EQ(pair->second_text, static_cast<int32_t>(joined.second));
}

}  // namespace
}  // namespace quire
