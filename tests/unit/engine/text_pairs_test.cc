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
  const auto instructed = encode_pair(*engine, "the cat", "rain", "query");
  ASSERT_TRUE(instructed.ok());
  EXPECT_EQ(instructed->ids,
            engine->tokenizer()->encode_rendered("query: query the cat, document rain, good?"));
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
