// Settings in the files next to tokenizer.json, and members of these files that nothing reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// BERT's tokenizer for the words "Hello", "hello" and "café".
json bert_tokenizer(bool lowercase) {
  return json{{"version", "1.0"},
              {"normalizer",
               {{"type", "BertNormalizer"},
                {"clean_text", true},
                {"handle_chinese_chars", true},
                {"strip_accents", nullptr},
                {"lowercase", lowercase}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"model",
               {{"type", "WordPiece"},
                {"unk_token", "[UNK]"},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", {{"[UNK]", 0}, {"Hello", 1}, {"hello", 2}, {"caf\u00e9", 3}, {"cafe", 4}}}}}};
}

std::unique_ptr<Tokenizer> settings_tokenizer(const json& tokenizer, const json& config,
                                              const json& sentence = nullptr) {
  const std::string text = tokenizer.dump();
  const std::string settings = config.dump();
  const std::string of_sentences = sentence.is_null() ? "" : sentence.dump();
  TokenizerFiles files;
  files.tokenizer_json = text;
  files.tokenizer_config_json = settings;
  files.sentence_bert_config_json = of_sentences;
  files.origin = "dir";
  return Tokenizer::from_memory(files);
}

// As sentence-transformers does.
TEST(TokenizerSettings, DoLowerCaseOfSentenceTransformersLowersTextsFirst) {
  const json config = {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}};
  const auto plain = settings_tokenizer(bert_tokenizer(false), config, {{"do_lower_case", false}});
  EXPECT_THAT(plain->encode("Hello hello", false), ElementsAre(1, 2));
  const auto lower = settings_tokenizer(bert_tokenizer(false), config, {{"do_lower_case", true}});
  EXPECT_THAT(lower->encode("Hello hello caf\u00c9", false), ElementsAre(2, 2, 3));
}

TEST(TokenizerSettings, BertsClassesFollowTokenizerConfig) {
  const auto ids = [](bool lowercase, const json& config) {
    return settings_tokenizer(bert_tokenizer(lowercase), config)->encode("Hello caf\u00e9", false);
  };
  EXPECT_THAT(ids(true, {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}}), ElementsAre(1, 3));
  EXPECT_THAT(ids(false, {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", true}}), ElementsAre(2, 4));
  EXPECT_THAT(ids(true, {{"tokenizer_class", "BertTokenizerFast"}, {"strip_accents", false}}),
              ElementsAre(2, 3));
  EXPECT_THAT(ids(true, {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"do_lower_case", false}}),
              ElementsAre(2, 4));
}

TEST(TokenizerSettings, UnknownMembersAreNamedInOneWarningPerFile) {
  json tokenizer = bert_tokenizer(true);
  tokenizer["post_normalizer"] = "x";
  tokenizer["normalizer"]["strip_numbers"] = true;
  const auto loaded = settings_tokenizer(tokenizer, {{"tokenizer_class", "BertTokenizer"},
                                                     {"model_max_length", 512},
                                                     {"image_token", "<image>"},
                                                     {"shout", true}});
  EXPECT_THAT(loaded->warnings(),
              ElementsAre(HasSubstr("dir/tokenizer_config.json: 'shout' is unknown"),
                          AllOf(HasSubstr("dir/tokenizer.json: "), HasSubstr("'normalizer.strip_numbers'"),
                                HasSubstr("'post_normalizer'"), HasSubstr(" are unknown"))));
}

TEST(TokenizerSettings, AreKnownForTheFixtures) {
  for (const auto& dir : {test::fixture_dir(), test::shared_dir() / "data/tokenizers"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
      const bool tokenizer = std::filesystem::exists(entry.path() / "tokenizer.json") ||
                             std::filesystem::exists(entry.path() / "tokenizer.model");
      if (!tokenizer) continue;
      EXPECT_THAT(Tokenizer::load(entry.path())->warnings(), IsEmpty()) << entry.path();
    }
  }
}

}  // namespace
}  // namespace quire
