// The tiny tokenizers and single steps of tests/fixtures/tokenizers, compared with the reference.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/json.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

std::string stream(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

class FixtureTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FixtureTest, MatchesTheReference) {
  const auto dir = test::fixture_dir() / GetParam();
  const auto tokenizer = Tokenizer::load(dir);
  const json goldens = test::read_json(dir / "goldens.json");
  ASSERT_FALSE(goldens.empty());
  for (const json& golden : goldens) {
    SCOPED_TRACE(golden.dump());
    const auto plain = golden["ids_no_special"].get<Ids>();
    const auto ids = golden.value("ids", plain);
    if (golden.contains("text")) {
      EXPECT_EQ(tokenizer->encode(golden["text"].get<std::string>(), false), plain);
    }
    if (golden.contains("ids")) {
      EXPECT_EQ(tokenizer->encode(golden["text"].get<std::string>(), true), ids);
    }
    EXPECT_EQ(tokenizer->decode(ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(stream(*tokenizer, ids, false), golden["decoded"].get<std::string>());
    if (!golden.contains("decoded_skip_special")) continue;
    EXPECT_EQ(tokenizer->decode(ids, true), golden["decoded_skip_special"].get<std::string>());
    EXPECT_EQ(stream(*tokenizer, ids, true), golden["decoded_skip_special"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, FixtureTest,
                         ::testing::Values("byte-level", "llama2", "metaspace", "suffix-bpe", "unigram",
                                           "word-piece", "sp-unigram", "sp-unigram-bytes", "sp-bpe",
                                           "sp-bpe-suffix", "tekken", "tiktoken", "kimi-tiktoken",
                                           "qwen-tiktoken"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Tekken, RecognizesControlTokensOnlyInRenderedTemplates) {
  const auto tokenizer = Tokenizer::load(test::fixture_dir() / "tekken");
  const Ids rendered = tokenizer->encode_rendered("<s>[INST]hi[/INST]");
  EXPECT_EQ(rendered.front(), 1);
  EXPECT_EQ(rendered[1], 3);
  EXPECT_EQ(rendered.back(), 4);
  EXPECT_EQ(tokenizer->decode(rendered, true), "hi");
  for (const TokenId id : tokenizer->encode("<s>[INST]hi[/INST]", false)) EXPECT_GE(id, 100);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
}

TEST(RankFile, ErrorsDescribeTheProblem) {
  const auto message = [](const std::string& bytes) -> std::string {
    try {
      TokenizerFiles files;
      files.tokenizer_model = bytes;
      Tokenizer::from_memory(files);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("IQ== 0\nIg== 2\n").find("rank 2 is at position 1"), std::string::npos);
  EXPECT_NE(message("IQ== 0\nIQ== 1\n").find("ranks 0 and 1 have the same bytes"), std::string::npos);
  EXPECT_NE(message("IQ== 0\n? 1\n").find(":2: is not a base64 token and its rank"), std::string::npos);
  EXPECT_NE(message("IQ== 0\n").find("has no token for the byte 0"), std::string::npos);
}

// Reads entries of steps.json like the reader of tokenizer.json.
class StepsTest : public ::testing::Test {
 protected:
  // Calls check(location of the config, cases) for each entry of a kind.
  template <typename Check>
  void for_each_entry(const std::string& kind, const Check& check) {
    const json all = test::read_json(test::fixture_dir() / "steps.json");
    int seen = 0;
    for (const json& entry : all) {
      if (entry["kind"] != kind) continue;
      ++seen;
      SCOPED_TRACE(entry["config"].dump());
      tokenizer::JsonFile file;
      file.name = "steps.json";
      tokenizer::parse_json(json{{"step", entry["config"]}}.dump(), file);
      check(tokenizer::JsonPlace(&file.document, "steps.json: ").member("step"), entry["cases"]);
    }
    EXPECT_GT(seen, 10);
  }
};

TEST_F(StepsTest, PreTokenizersMatchTheReference) {
  for_each_entry("pre_tokenizer", [](const tokenizer::JsonPlace& config, const json& cases) {
    const tokenizer::PreTokenizer pre_tokenizer = tokenizer::read_pre_tokenizer(config);
    tokenizer::Scratch scratch;
    for (const json& golden : cases) {
      const auto text = golden[0].get<std::string>();
      std::string buffer, other;
      const auto words = tokenizer::pre_tokenize(pre_tokenizer, text, true, scratch, buffer, other);
      std::vector<std::string> pieces;
      for (const tokenizer::Range& piece : scratch.pieces) {
        std::string& word = pieces.emplace_back(words.substr(piece.begin, piece.size()));
        if (!pre_tokenizer.byte_level) continue;
        std::string characters;
        for (const char c : word)
          unicode::append(characters, tokenizer::character_of_byte(static_cast<uint8_t>(c)));
        word = characters;
      }
      EXPECT_EQ(pieces, golden[1].get<std::vector<std::string>>()) << golden[0];
    }
  });
}

TEST_F(StepsTest, NormalizersMatchTheReference) {
  for_each_entry("normalizer", [](const tokenizer::JsonPlace& config, const json& cases) {
    const tokenizer::Normalizer normalizer = tokenizer::read_normalizer(config);
    for (const json& golden : cases) {
      const auto text = golden[0].get<std::string>();
      std::string buffer, other;
      EXPECT_EQ(std::string(tokenizer::normalize(normalizer, text, buffer, other)),
                golden[1].get<std::string>())
          << golden[0];
    }
  });
}

TEST_F(StepsTest, DecodersMatchTheReference) {
  for_each_entry("decoder", [](const tokenizer::JsonPlace& config, const json& cases) {
    const tokenizer::Decoder decoder = tokenizer::read_decoder(config);
    for (const json& golden : cases) {
      tokenizer::DecodeStream stream(decoder, false);
      std::string text;
      for (const json& token : golden[0]) stream.push(token.get<std::string>(), text);
      stream.flush(text);
      EXPECT_EQ(text, golden[1].get<std::string>()) << golden[0];
    }
  });
}

}  // namespace
}  // namespace quire
