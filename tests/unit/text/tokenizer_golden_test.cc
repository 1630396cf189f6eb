// All goldens of the reference implementations: ids, decoded text, streaming.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    dir_ = test::shared_dir() / "data/tokenizers" / GetParam();
    QUIRE_NEEDS_SHARED(dir_);
    tokenizer_ = Tokenizer::load(dir_);
  }
  std::filesystem::path dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(GoldenTest, EncodesEveryText) {
  const json goldens = test::read_json(dir_ / "goldens.json");
  ASSERT_GE(goldens.size(), 121u);
  for (const json& golden : goldens) {
    SCOPED_TRACE(golden["name"]);
    const auto text = golden["text"].get<std::string>();
    const auto ids = golden["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->encode(text, true), ids);
    EXPECT_EQ(tokenizer_->encode(text, false), golden["ids_no_special"].get<Ids>());
    if (!golden.contains("tokens")) continue;
    std::vector<std::string> tokens;
    for (const TokenId id : ids) tokens.emplace_back(tokenizer_->id_to_token(id));
    // The reference reports an unknown word itself; here the token has the spelling of the vocabulary.
    const auto expected = golden["tokens"].get<std::vector<std::string>>();
    ASSERT_EQ(tokens.size(), expected.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (ids[i] != tokenizer_->unk_id()) {
        EXPECT_EQ(tokens[i], expected[i]);
      }
    }
  }
}

TEST_P(GoldenTest, DecodesEveryTextAtOnceAndIncrementally) {
  for (const json& golden : test::read_json(dir_ / "goldens.json")) {
    SCOPED_TRACE(golden["name"]);
    const auto ids = golden["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->decode(ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer_->decode(ids, true), golden["decoded_skip_special"].get<std::string>());
    EXPECT_EQ(streamed(*tokenizer_, ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(streamed(*tokenizer_, ids, true), golden["decoded_skip_special"].get<std::string>());
  }
}

TEST_P(GoldenTest, DecodesArbitraryIds) {
  for (const json& golden : test::read_json(dir_ / "decode.json")) {
    SCOPED_TRACE(golden["ids"].dump());
    const auto ids = golden["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->decode(ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer_->decode(ids, true), golden["decoded_skip_special"].get<std::string>());
    if (!golden.value("stream_exact", true)) continue;
    EXPECT_EQ(streamed(*tokenizer_, ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(streamed(*tokenizer_, ids, true), golden["decoded_skip_special"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, GoldenTest,
                         ::testing::Values("gpt2", "qwen2", "falcon", "phi-3", "t5-small", "bert-bge",
                                           "mistral-v3"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace quire
