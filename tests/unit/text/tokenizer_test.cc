// Errors of invalid files contain the location, hostile texts do not take excessive time, and streams hold
// incomplete characters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/yield_point.h"
#include "support/eventually.h"
#include "text/detokenizer.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/scratch.h"
#include "text/tokenizer/splitters.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/unicode.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

json fixture(const char* name) {
  return test::read_json(test::fixture_dir() / name / "tokenizer.json");
}

std::unique_ptr<Tokenizer> tokenizer_from(const json& tokenizer, const std::string& config = {}) {
  const std::string text = tokenizer.dump();
  TokenizerFiles files;
  files.tokenizer_json = text;
  files.tokenizer_config_json = config;
  files.origin = "dir";
  return Tokenizer::from_memory(files);
}

std::string error_of(const std::function<void()>& load) {
  try {
    load();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Damage {
  const char* what;
  std::function<void(json&)> apply;
  const char* place;
};

TEST(BrokenTokenizerJson, ErrorsContainTheFileAndTheLocation) {
  const Damage damages[] = {
      {"model missing", [](json& j) { j.erase("model"); }, "model: is missing"},
      {"model is not an object", [](json& j) { j["model"] = 7; }, "model: must be an object"},
      {"unknown model", [](json& j) { j["model"]["type"] = "Neural"; },
       "model.type: the model type \"Neural\""},
      {"vocab missing", [](json& j) { j["model"].erase("vocab"); }, "model.vocab: is missing"},
      {"id is text", [](json& j) { j["model"]["vocab"]["a"] = "x"; }, "model.vocab: the id of \"a\""},
      {"id is negative", [](json& j) { j["model"]["vocab"]["a"] = -1; }, "model.vocab: the id of \"a\""},
      {"id is huge", [](json& j) { j["model"]["vocab"]["a"] = 4000000000u; }, "model.vocab: the id of \"a\""},
      {"duplicate id", [](json& j) { j["model"]["vocab"]["a"] = j["model"]["vocab"]["b"]; },
       "have the same id"},
      {"merges missing", [](json& j) { j["model"].erase("merges"); }, "model.merges: is missing"},
      {"merge of one", [](json& j) { j["model"]["merges"][3] = "ab"; },
       "model.merges[3]: must be two tokens"},
      {"merge of three",
       [](json& j) {
         j["model"]["merges"][3] = json::array({"a", "b", "c"});
       },
       "model.merges[3]"},
      {"merge unknown",
       [](json& j) {
         j["model"]["merges"][3] = json::array({"a", "zzz"});
       },
       "zzz\" is not in the vocabulary"},
      {"normalizer unknown",
       [](json& j) {
         j["normalizer"] = {{"type", "Magic"}};
       },
       "normalizer: the normalizer type \"Magic\""},
      {"normalizer without type", [](json& j) { j["normalizer"] = json::object(); },
       "normalizer.type: is missing"},
      {"bad regex", [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; },
       "pre_tokenizer.pretokenizers[0]: the regular expression"},
      {"no pattern", [](json& j) { j["pre_tokenizer"]["pretokenizers"][0].erase("pattern"); },
       "pretokenizers[0].pattern: is missing"},
      {"bad behavior", [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Often"; },
       "behavior: \"Often\""},
      {"scripts",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
       },
       "\"UnicodeScripts\" is not supported"},
      {"processor unknown",
       [](json& j) {
         j["post_processor"] = {{"type", "Magic"}};
       },
       "post_processor: the post-processor type"},
      {"processor with an unknown token",
       [](json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 0}}, {"sep", {"[SEP]", 90000}}};
       },
       "post_processor: the token id 90000 is not in the vocabulary"},
      {"decoder unknown",
       [](json& j) {
         j["decoder"] = {{"type", "Magic"}};
       },
       "decoder: the decoder type"},
      {"added token without id", [](json& j) { j["added_tokens"][0].erase("id"); },
       "added_tokens[0].id: is missing"},
      {"added token with a taken id", [](json& j) { j["added_tokens"][0]["id"] = 50; },
       "added_tokens[0]: the added token"},
      {"added tokens with one id",
       [](json& j) {
         json token = j["added_tokens"][0];
         token["id"] = 9000, token["content"] = "<x>";
         j["added_tokens"].push_back(token);
         token["content"] = "<y>";
         j["added_tokens"].push_back(token);
       },
       "has the id 9000 of \"<x>\""},
      {"charsmap",
       [](json& j) {
         j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "////fw=="}};
       },
       "normalizer: the precompiled charsmap"},
      {"charsmap base64",
       [](json& j) {
         j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "??"}};
       },
       "is not base64"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    json tokenizer = fixture("byte-level");
    damage.apply(tokenizer);
    EXPECT_THAT(error_of([&] { tokenizer_from(tokenizer); }),
                AllOf(HasSubstr("dir/tokenizer.json: "), HasSubstr(damage.place)));
  }
}

std::string load_error(std::string_view text) {
  TokenizerFiles files;
  files.tokenizer_json = text;
  return error_of([&] { Tokenizer::from_memory(files); });
}

TEST(BrokenTokenizerJson, SyntaxErrorsContainLineAndColumn) {
  EXPECT_THAT(load_error("{\"model\": {\n  \"a\": ]"), HasSubstr("line 2, column 8"));
  EXPECT_THAT(load_error("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(load_error("{\"a\": \"\xFF\"}"), HasSubstr("not UTF-8"));
  EXPECT_THAT(load_error("{\"a\": 1e309}"), AllOf(HasSubstr("line 1, column 7"), HasSubstr("too big")));
}

TEST(BrokenTokenizerJson, DeepNestingIsAnError) {
  const std::string deep = "{\"normalizer\":" + std::string(2'000'000, '[');
  EXPECT_THAT(load_error(deep), HasSubstr("tokenizer.json"));
  std::string steps = "{\"type\":\"NFC\"}";
  for (int i = 0; i < 5000; ++i) steps = "{\"type\":\"Sequence\",\"normalizers\":[" + steps + "]}";
  EXPECT_THAT(load_error("{\"normalizer\":" + steps + "}"), HasSubstr("nested too deep"));
}

TEST(BrokenTokenizerJson, EveryTruncationIsAnError) {
  const std::string whole = fixture("llama2").dump();
  for (size_t size = 1; size < whole.size(); size += 97) {
    ASSERT_NE(load_error(std::string_view(whole).substr(0, size)), "no error") << size;
  }
}

TEST(BrokenTokenizerModel, EveryTruncationAndBitFlipIsAnErrorOrLoads) {
  const std::string whole = test::read_text(test::fixture_dir() / "sp-bpe/tokenizer.model");
  ASSERT_GT(whole.size(), 1000u);
  const auto load = [](std::string_view bytes) {
    TokenizerFiles files;
    files.tokenizer_model = bytes;
    Tokenizer::from_memory(files)->encode("The baker <user> a", true);
  };
  EXPECT_EQ(error_of([&] { load(whole); }), "no error");
  EXPECT_THAT(error_of([&] { load(std::string_view(whole).substr(0, 100)); }),
              AllOf(HasSubstr("tokenizer.model"), HasSubstr("at byte")));
  for (size_t size = 1; size < whole.size(); size += 31)
    error_of([&] { load(std::string_view(whole).substr(0, size)); });
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    error_of([&] { load(damaged); });
  }
}

TEST(MissingTokenizer, ErrorsListTheRequiredFiles) {
  EXPECT_THAT(error_of([] { Tokenizer::load("/nonexistent"); }),
              AllOf(HasSubstr("/nonexistent"), HasSubstr("tokenizer.json")));
}

TEST(InvalidText, CountsAsReplacementCharacters) {
  for (const char* name : {"byte-level", "llama2", "unigram", "word-piece", "suffix-bpe"}) {
    const auto tokenizer = tokenizer_from(fixture(name));
    EXPECT_EQ(tokenizer->encode("a\xFF\xE4\xBD b\xF0\x9F", true),
              tokenizer->encode("a\xEF\xBF\xBD\xEF\xBF\xBD b\xEF\xBF\xBD", true))
        << name;
  }
}

// The number of steps of tokenization, in units of 1024: each loop over the text calls
// Scratch::check_cancelled(), which lets the pacer look at the time.
int64_t steps_to_encode(const Tokenizer& tokenizer, const std::string& text) {
  static int64_t num_looks;
  num_looks = 0;
  constexpr Pacer::Time kStoppedTime = {
      [] {
        ++num_looks;
        return Pacer::Clock::time_point(std::chrono::hours(1));
      },
      [](Pacer::Clock::duration) {},
  };
  Pacer pacer([] { return false; }, kStoppedTime);
  tokenizer.encode(text, false, YieldPoint({}, &pacer));
  return num_looks;
}

std::string repeated(std::string_view unit, size_t size) {
  std::string text;
  while (text.size() < size) text += unit;
  return text;
}

void expect_linear(const Tokenizer& tokenizer, std::string_view unit) {
  constexpr size_t kSize = 100'000;
  const int64_t half = steps_to_encode(tokenizer, repeated(unit, kSize));
  const int64_t whole = steps_to_encode(tokenizer, repeated(unit, 2 * kSize));
  EXPECT_GE(half, kSize >> 11) << unit;
  EXPECT_LE(whole, 2 * half + 10) << unit;
}

TEST(HostileText, RepeatedTextTakesLinearTimeInAllModels) {
  for (const char* name : {"byte-level", "llama2", "metaspace", "suffix-bpe", "unigram", "word-piece"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = tokenizer_from(fixture(name));
    for (const char* unit : {"a", " ", "'", "\n", "the"}) {
      const bool removed = std::string_view(name) == "unigram" && (*unit == ' ' || *unit == '\n');
      if (!removed) expect_linear(*tokenizer, unit);
    }
  }
  const auto sentencepiece = Tokenizer::load(test::fixture_dir() / "sp-bpe");
  for (const char* unit : {"a", " ", "the"}) expect_linear(*sentencepiece, unit);
}

// Work that is not counted takes minutes to hours if it is quadratic.
TEST(HostileText, MegabytesOfRepeatedTextEnd) {
  const auto encode = [](const char* name, const char* unit, size_t size) {
    const auto tokenizer = tokenizer_from(fixture(name));
    test::expect_end(name, [&] { tokenizer->encode(repeated(unit, size), false); });
  };
  encode("byte-level", "a", 10'000'000);
  encode("byte-level", "the", 4'000'000);  // has merges
  encode("unigram", " ", 10'000'000);      // removed before it is counted
}

TEST(HostileText, UnorderedMarksTakeLinearTime) {
  std::string marks = "a";
  for (int i = 0; i < 1'500'000; ++i) marks += "\xCC\x81\xCC\xA3";  // U+0301 U+0323
  std::string normal;
  test::expect_end("normalization", [&] { normal = unicode::normalize(marks, unicode::NormalForm::kNfc); });
  EXPECT_EQ(normal.substr(0, 3), "\xE1\xBA\xA1");  // a with dot below; the acute accents follow all dots
}

TEST(LongWords, MatchTheMergesOfShortWords) {
  // Compares the quadratic algorithm (up to 48 symbols) with the heap, piece by piece: a very long word has
  // no short equivalent.
  const auto tokenizer = tokenizer_from(fixture("byte-level"));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string word;
    for (int k = 0; k < 300; ++k) word += "abcdehorstn"[random() % 11];
    const Ids ids = tokenizer->encode(word, false);
    EXPECT_EQ(tokenizer->decode(ids, false), word);
    for (size_t k = 0; k + 1 < ids.size(); ++k) {
      // Adjacent tokens must not be mergeable: encoding their text alone must give the same two tokens, or
      // more.
      const std::string pair = tokenizer->token_bytes(ids[k]) + tokenizer->token_bytes(ids[k + 1]);
      EXPECT_GE(tokenizer->encode(pair, false).size(), 2u) << pair;
    }
  }
}

TEST(Detokenizer, NeverReturnsIncompleteCharacters) {
  for (const char* name : {"byte-level", "llama2"}) {
    const auto tokenizer = tokenizer_from(fixture(name));
    const std::string text = "日本 😀é 👩\u200d👧 x";
    Detokenizer detokenizer(*tokenizer, true);
    std::string all;
    for (const TokenId id : tokenizer->encode(text, false)) {
      const std::string part = detokenizer.push(id);
      EXPECT_TRUE(unicode::is_valid(part)) << name;
      EXPECT_EQ(part.find("\xEF\xBF\xBD"), std::string::npos) << name;
      all += part;
    }
    EXPECT_EQ(all + detokenizer.flush(), text) << name;
  }
}

TEST(Detokenizer, ReturnsReplacementCharactersForIncompleteCharacters) {
  const auto tokenizer = tokenizer_from(fixture("byte-level"));
  Ids ids = tokenizer->encode("x😀", false);
  ids.pop_back();
  Detokenizer detokenizer(*tokenizer, true);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(detokenizer.flush(), "\xEF\xBF\xBD");
}

TEST(Unicode, FindsTheStartOfACharacter) {
  const std::string text = "a\u00e9\u4e2d\U0001f600";
  const std::vector<size_t> starts{0, 1, 1, 3, 3, 3, 6, 6, 6, 6};
  for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ(unicode::character_start(text, i), starts[i]) << i;
}

TEST(Decode, ThrowsIfItIsCancelled) {
  for (const char* name : {"llama2", "byte-level"}) {
    const auto tokenizer = tokenizer_from(fixture(name));
    const Ids ids = tokenizer->encode("the baker", false);
    std::stop_source stop;
    EXPECT_EQ(tokenizer->decode(ids, true, YieldPoint(stop.get_token())), tokenizer->decode(ids, true))
        << name;
    stop.request_stop();
    EXPECT_THROW((void)tokenizer->decode(ids, true, YieldPoint(stop.get_token())), Cancelled) << name;
  }
}

TEST(Detokenizer, MatchesTheWholeDecodeAfterAPrompt) {
  for (const char* name : {"llama2", "metaspace", "word-piece", "byte-level", "unigram"}) {
    const auto tokenizer = tokenizer_from(fixture(name));
    const Ids ids = tokenizer->encode("the baker opens her shop", false);
    for (size_t cut = 0; cut <= ids.size(); ++cut) {
      const std::span<const TokenId> prompt(ids.data(), cut);
      Detokenizer before(*tokenizer, true);
      std::string head;
      for (const TokenId id : prompt) head += before.push(id);
      Detokenizer detokenizer(*tokenizer, true);
      detokenizer.seed(prompt);
      std::string tail;
      for (size_t i = cut; i < ids.size(); ++i) tail += detokenizer.push(ids[i]);
      EXPECT_EQ(head + tail + detokenizer.flush(), tokenizer->decode(ids, true)) << name << " " << cut;
    }
  }
}

TEST(Detokenizer, IgnoresIdsOutOfRange) {
  const auto tokenizer = tokenizer_from(fixture("byte-level"));
  Detokenizer detokenizer(*tokenizer, true);
  EXPECT_EQ(detokenizer.push(-1) + detokenizer.push(1 << 30) + detokenizer.flush(), "");
  EXPECT_EQ(tokenizer->decode(Ids{-5, 1 << 30}, false), "");
  EXPECT_EQ(tokenizer->id_to_token(-1), "");
  EXPECT_EQ(tokenizer->token_bytes(1 << 30), "");
  EXPECT_FALSE(tokenizer->is_special(-1));
}

TEST(TokenBytes, AreTheBytesOfTheText) {
  for (const char* name : {"byte-level", "llama2", "unigram"}) {
    const auto tokenizer = tokenizer_from(fixture(name));
    const std::string text = "the baker's 日本 shop";
    std::string bytes;
    for (const TokenId id : tokenizer->encode(text, false)) bytes += tokenizer->token_bytes(id);
    if (std::string_view(name) == "byte-level") {
      EXPECT_EQ(bytes, text);
    } else {
      EXPECT_EQ(bytes.substr(0, 10), " the baker") << name;
    }
  }
}

TEST(Config, NamesSpecialTokensAsTransformersDoes) {
  const auto tokenizer = tokenizer_from(fixture("byte-level"), R"({"bos_token": "<b>", "eos_token": "",
    "sep_token": {"content": "<s>", "__type": "AddedToken"}, "unk_token": null, "audio_token": "<a>",
    "additional_special_tokens": ["<x>"], "add_bos_token": true, "padding_side": "left",
    "extra_special_tokens": {"image_token": "<i>", "tool": {"content": "<t>"}},
    "model_specific_special_tokens": {"video_token": "<v>"}})");
  const std::map<std::string, std::string> expected = {
      {"audio_token", "<a>"}, {"bos_token", "<b>"}, {"eos_token", ""},     {"image_token", "<i>"},
      {"sep_token", "<s>"},   {"tool", "<t>"},      {"video_token", "<v>"}};
  EXPECT_EQ(tokenizer->named_tokens(), expected);
}

TEST(Config, PrefersTheFileOfTheTemplateThenTheProcessors) {
  const std::string tokenizer = fixture("byte-level").dump();
  TokenizerFiles files;
  files.tokenizer_json = tokenizer;
  files.tokenizer_config_json = R"({"chat_template": "tokenizer"})";
  EXPECT_EQ(Tokenizer::from_memory(files)->chat_template(), "tokenizer");
  files.chat_template_json = R"({"chat_template": "processor"})";
  EXPECT_EQ(Tokenizer::from_memory(files)->chat_template(), "processor");
  files.chat_template = "file";
  EXPECT_EQ(Tokenizer::from_memory(files)->chat_template(), "file");
}

TEST(Config, ReadsRolesAndTemplates) {
  const auto tokenizer =
      tokenizer_from(fixture("byte-level"), R"({"bos_token": {"content": "<|begin|>", "lstrip": false},
    "eos_token": "<|end|>", "unk_token": null, "chat_template": [{"name": "default", "template": "A"}, {"name": "rag", "template": "B"}],
    "added_tokens_decoder": {"900": {"content": "<|tool|>", "special": true}}})");
  EXPECT_EQ(tokenizer->bos_token(), "<|begin|>");
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->token_to_id("<|end|>"));
  EXPECT_EQ(tokenizer->unk_token(), "");
  EXPECT_EQ(tokenizer->unk_id(), std::nullopt);
  EXPECT_EQ(tokenizer->chat_template(), "A");
  EXPECT_EQ(tokenizer->chat_templates().at("rag"), "B");
  EXPECT_EQ(tokenizer->vocab_size(), 901u);
  EXPECT_TRUE(tokenizer->is_special(900));
  EXPECT_EQ(tokenizer->encode("<|tool|>", false), Ids{900});
  EXPECT_EQ(tokenizer->decode(Ids{900}, true), "");
}

TEST(SentencePieceModel, ControlTokensArePlainTextUnlessRendered) {
  const auto tokenizer = Tokenizer::load(test::fixture_dir() / "sp-unigram");
  const TokenId control = tokenizer->token_to_id("<ctl>").value();
  const Ids plain = tokenizer->encode("a<ctl>b", false), rendered = tokenizer->encode_rendered("a<ctl>b");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), control), 0);
  EXPECT_EQ(std::count(rendered.begin(), rendered.end(), control), 1);
  EXPECT_EQ(tokenizer->encode("a", true).front(), tokenizer->bos_id());
  EXPECT_TRUE(tokenizer->is_special(control));
}

TEST(Threads, EncodeConcurrently) {
  const auto tokenizer = tokenizer_from(fixture("byte-level"));
  const std::string text = "The baker opens her shop at five; don't wake the cat. 日本語 12345";
  const Ids expected = tokenizer->encode(text, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) EXPECT_EQ(tokenizer->encode(text, true), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Compares each hand-written splitter with its expression executed by PCRE2, on random characters of all
// types.
TEST(Splitters, MatchTheirExpressions) {
  const json steps = test::read_json(test::fixture_dir() / "steps.json");
  const std::u32string pool =
      U"'sStTmMdDrReEvVlL\u017faAbB\u00e90123\u00b2\u00bd\u0663    \t\n\r\u00a0\u3000.,!/\u0301\u0903\u20dd"
      U"\u65e5\u0e33\u0915\u0628\U0001F600\u01c5\u02b0\u00aa\u2163\u03c2\u200d\ufeff\U00010d40\U00016d40"
      U"\u1c89";
  std::mt19937 random(7);
  int compared = 0;
  for (const json& entry : steps) {
    if (entry["config"].value("type", "") != "Split" || !entry["config"]["pattern"].contains("Regex"))
      continue;
    const auto pattern = entry["config"]["pattern"]["Regex"].get<std::string>();
    const auto splitter = tokenizer::find_splitter(pattern);
    if (!splitter) continue;
    ++compared;
    const tokenizer::Regex regex = tokenizer::Regex::compile(pattern, "test");
    for (int i = 0; i < 4000; ++i) {
      std::string text;
      for (size_t n = 1 + random() % 24; n > 0; --n) {
        uint32_t cp = pool[random() % pool.size()];
        if (random() % 8 == 0) cp = static_cast<uint32_t>(random() % 0x20000);
        if (cp >= 0xD800 && cp < 0xE000) cp = 'x';
        unicode::append(text, cp);
      }
      std::vector<tokenizer::Range> mine, theirs;
      tokenizer::Scratch scratch;
      tokenizer::split(*splitter, text, {0, text.size()}, scratch, mine);
      tokenizer::Regex::Search search(regex, text);
      size_t begin = 0, end = 0;
      while (search.next(&begin, &end)) theirs.push_back({begin, end});
      ASSERT_EQ(mine, theirs) << pattern << "\n" << json(text).dump();
    }
  }
  EXPECT_EQ(compared, 4);
}

TEST(Regexes, StopAtTheBacktrackingLimit) {
  const tokenizer::Regex regex = tokenizer::Regex::compile("(a|aa)+$|(a*)*b", "test");
  const std::string text = std::string(5000, 'a') + "c";
  tokenizer::Regex::Search search(regex, text);
  size_t begin = 0, end = 0;
  test::expect_end("the search", [&] { EXPECT_THROW(while (search.next(&begin, &end)){}, Error); });
}

}  // namespace
}  // namespace quire
