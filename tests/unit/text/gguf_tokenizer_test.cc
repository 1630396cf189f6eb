// Tokenizers from GGUF metadata give the same ids as the original. The files are derived from other
// tokenizers like in llama.cpp's converter: tokens, types, scores and merges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/gguf/gguf_file.h"
#include "io/mapped_file.h"
#include "text/detokenizer.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/tokenizer.h"
#include "unit/io/gguf_writer.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire {
namespace {

using nlohmann::json;
using test::GgufWriter;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Ids = std::vector<TokenId>;

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4;

std::unique_ptr<Tokenizer> open(const std::string& file) {
  return Tokenizer::from_gguf(GgufFile(std::as_bytes(std::span(file)), "test.gguf"));
}

struct Made {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;

  void resize(size_t n) {
    for (size_t i = tokens.size(); i < n; ++i) {
      tokens.push_back("[PAD" + std::to_string(i) + "]");
      types.push_back(5);
      scores.push_back(-1e4F);
    }
  }
  void set(size_t id, const std::string& token, int32_t type, float score = 0) {
    resize(id + 1);
    tokens[id] = token;
    types[id] = type;
    scores[id] = score;
  }
  void write(GgufWriter& w, bool with_scores) const {
    w.texts("tokenizer.ggml.tokens", tokens);
    w.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kI32, types);
    if (with_scores) w.numbers<float>("tokenizer.ggml.scores", GgufType::kF32, scores);
  }
};

// From a tokenizer.json with merges. rules: "" for a model that is not byte-level.
std::string from_merges(const json& original, const std::string& model, const std::string& rules) {
  GgufWriter w;
  Made made;
  for (const auto& [token, id] : original["model"]["vocab"].items())
    made.set(id.get<size_t>(), token, kNormal);
  for (const json& added : original["added_tokens"]) {
    made.set(added["id"].get<size_t>(), added["content"].get<std::string>(),
             added["special"].get<bool>() ? kControl : kUserDefined);
  }
  std::vector<std::string> merges;
  for (const json& merge : original["model"]["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  w.text("tokenizer.ggml.model", model);
  if (!rules.empty()) w.text("tokenizer.ggml.pre", rules);
  made.write(w, false);
  w.texts("tokenizer.ggml.merges", merges);
  w.boolean("tokenizer.ggml.add_bos_token", false);
  return w.file();
}

// From ranks of byte strings, like in llama.cpp's converter: the merge of a token has the two parts into
// which the previous ranks encode its bytes.
std::string from_ranks(const std::filesystem::path& dir, size_t count, const std::string& rules) {
  const auto original = Tokenizer::load(dir);
  std::map<std::string, size_t> ranks;
  json vocab = json::object();
  for (size_t rank = 0; rank < count; ++rank) {
    const std::string token(original->id_to_token(static_cast<TokenId>(rank)));
    ranks[token] = rank;
    vocab[token] = rank;
  }
  json merges = json::array();
  std::vector<std::string> by_rank(count);
  for (const auto& [token, rank] : ranks) by_rank[rank] = token;
  for (const std::string& token : by_rank) {
    std::vector<std::string> parts;
    for (const char c : token) {
      const bool continues = (static_cast<uint8_t>(c) & 0xC0U) == 0x80U;
      if (!continues) parts.emplace_back();
      parts.back() += c;
    }
    while (parts.size() > 2) {
      size_t best = parts.size();
      size_t lowest = ranks[token];
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto at = ranks.find(parts[i] + parts[i + 1]);
        if (at == ranks.end() || at->second >= lowest) continue;
        lowest = at->second;
        best = i;
      }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    if (parts.size() == 2) merges.push_back(parts[0] + " " + parts[1]);
  }
  json added = json::array();
  for (size_t id = count; id < original->vocab_size(); ++id) {
    const std::string token(original->id_to_token(static_cast<TokenId>(id)));
    added.push_back({{"id", id}, {"content", token}, {"special", true}});
  }
  return from_merges({{"model", {{"vocab", vocab}, {"merges", merges}}}, {"added_tokens", added}}, "gpt2",
                     rules);
}

// From a tokenizer.model, by way of its reader.
std::string from_sentencepiece(const std::filesystem::path& dir) {
  const auto original = Tokenizer::load(dir);
  const tokenizer::SentencePiece& model = *original->pipeline().sentencepiece();
  const std::string bytes = test::read_text(dir / "tokenizer.model");
  // Only the file contains the scores: field 2 of each piece, after its spelling.
  Made made;
  size_t at = 0;
  for (size_t i = 0; i < model.types.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string token(original->id_to_token(id));
    at = bytes.find("\x0A" + std::string(1, static_cast<char>(token.size())) + token + "\x15", at);
    if (at == std::string::npos) throw Error("no score found for " + token);
    at += token.size() + 3;
    float score = 0;
    std::memcpy(&score, bytes.data() + at, sizeof(score));
    made.set(i, token, static_cast<int32_t>(model.types[i]), score);
  }
  GgufWriter w;
  w.text("tokenizer.ggml.model", model.unigram ? "t5" : "llama");
  w.boolean("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  w.boolean("tokenizer.ggml.remove_extra_whitespaces", model.remove_extra_whitespaces);
  w.boolean("tokenizer.ggml.add_eos_token", false);
  made.write(w, true);
  return w.file();
}

// Checks the ids of all texts without control tokens, and that decoding them gives the same text as the
// original.
void expect_goldens(const Tokenizer& tokenizer, const std::filesystem::path& goldens, bool decode = true,
                    const std::vector<std::string>& but = {}) {
  int seen = 0;
  for (const json& golden : test::read_json(goldens)) {
    if (!golden.contains("text")) continue;
    const auto text = golden["text"].get<std::string>();
    if (std::any_of(but.begin(), but.end(),
                    [&](const auto& part) { return text.find(part) != std::string::npos; }))
      continue;
    SCOPED_TRACE(golden["text"].dump());
    ++seen;
    const auto ids = golden["ids_no_special"].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, false), ids);
    if (!decode || !golden.contains("decoded") || golden.value("ids", ids) != ids) continue;
    EXPECT_EQ(tokenizer.decode(ids, false), golden["decoded"].get<std::string>());
  }
  EXPECT_GT(seen, 10);
}

TEST(GgufTokenizer, ByteLevelBpeMatchesTheOriginal) {
  const auto dir = test::fixture_dir() / "byte-level";
  const auto tokenizer = open(from_merges(test::read_json(dir / "tokenizer.json"), "gpt2", "llama-bpe"));
  expect_goldens(*tokenizer, dir / "goldens.json");
}

TEST(GgufTokenizer, ByteRanksMatchTheOriginal) {
  const auto dir = test::fixture_dir() / "kimi-tiktoken";
  constexpr size_t kRanks = 442;
  // GGUF files have one pair per token, rank files have all pairs; the results differ for texts constructed
  // for it.
  expect_goldens(*open(from_ranks(dir, kRanks, "kimi-k2")), dir / "goldens.json", true, {"aaaa"});
}

TEST(GgufTokenizer, CharacterBpeMatchesTheOriginal) {
  const auto dir = test::fixture_dir() / "llama2";
  json original = test::read_json(dir / "tokenizer.json");
  // Gemma 4 neither adds a space before the text nor removes one after it.
  original["normalizer"] = original["normalizer"]["normalizers"][1];
  original["decoder"]["decoders"].erase(3);
  const std::string text = original.dump();
  const auto expected = Tokenizer::from_memory({.tokenizer_json = text});
  const auto tokenizer = open(from_merges(original, "gemma4", ""));
  int seen = 0;
  for (const json& golden : test::read_json(dir / "goldens.json")) {
    if (!golden.contains("text")) continue;
    const auto ids = expected->encode(golden["text"].get<std::string>(), false);
    EXPECT_EQ(tokenizer->encode(golden["text"].get<std::string>(), false), ids) << golden["text"].dump();
    EXPECT_EQ(tokenizer->decode(ids, false), expected->decode(ids, false));
    ++seen;
  }
  EXPECT_GT(seen, 10);
}

TEST(GgufTokenizer, SentencePieceBpeMatchesTheOriginal) {
  // Here, user-defined pieces are added tokens, and each of them starts a new text.
  const auto dir = test::fixture_dir() / "sp-bpe";
  expect_goldens(*open(from_sentencepiece(dir)), dir / "goldens.json", true,
                 {"<s>", "</s>", "<unk>", "<user>", " k"});
}

TEST(GgufTokenizer, UnigramMatchesTheOriginal) {
  const auto dir = test::fixture_dir() / "sp-unigram-bytes";
  expect_goldens(*open(from_sentencepiece(dir)), dir / "goldens.json", true, {"<s>", "</s>", "<unk>"});
}

TEST(GgufTokenizer, KnownVocabulariesMatchTheOriginal) {
  const auto dir = test::shared_dir() / "data/tokenizers";
  QUIRE_NEEDS_SHARED(dir);
  const std::vector<std::pair<std::string, std::string>> byte_level = {
      {"gpt2", "gpt-2"}, {"qwen2", "qwen2"}, {"falcon", "falcon"}};
  for (const auto& [name, rules] : byte_level) {
    SCOPED_TRACE(name);
    const auto tokenizer = open(from_merges(test::read_json(dir / name / "tokenizer.json"), "gpt2", rules));
    expect_goldens(*tokenizer, dir / name / "goldens.json");
  }
  SCOPED_TRACE("mistral-v3");
  expect_goldens(*open(from_sentencepiece(dir / "mistral-v3")), dir / "mistral-v3/goldens.json", true,
                 {"<s>", "</s>", "<unk>", "[INST]", "[/INST]"});
}

// GGUF files created by other tools.
TEST(GgufTokenizer, PublishedFilesMatchTheOriginal) {
  const auto dir = test::shared_dir() / "data/tokenizers";
  QUIRE_NEEDS_SHARED(dir);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"gpt-2", "gpt2"}, {"falcon", "falcon"}, {"phi-3", "phi-3"}, {"bert-bge", "bert-bge"}};
  for (const auto& [file, name] : files) {
    SCOPED_TRACE(file);
    const MappedFile mapping(dir / "gguf" / ("ggml-vocab-" + file + ".gguf"));
    const auto tokenizer = Tokenizer::from_gguf(GgufFile(mapping.bytes(), file));
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_THAT(tokenizer->warnings(), IsEmpty());
    expect_goldens(*tokenizer, dir / name / "goldens.json", false,
                   {"<|placeholder"});  // these strip white space, which GGUF cannot express
  }
}

// The first tokens of a small vocabulary of SentencePiece.
Made few_pieces(int32_t type_of_unknown) {
  Made made;
  made.set(0, "<unk>", type_of_unknown);
  made.set(1, "<s>", kControl);
  made.set(2, "</s>", kControl);
  made.set(3, "\xE2\x96\x81", kNormal, -1);
  made.set(4, "a", kNormal, -2);
  return made;
}

GgufWriter tiny() {
  GgufWriter w;
  w.text("tokenizer.ggml.model", "llama");
  Made made = few_pieces(kUnknown);
  made.set(5,
           "\xE2\x96\x81"
           "a",
           kNormal, -3);
  made.set(6, "<tool>", kUserDefined);
  made.write(w, true);
  w.u32("tokenizer.ggml.bos_token_id", 1);
  w.u32("tokenizer.ggml.eos_token_id", 2);
  w.u32("tokenizer.ggml.unknown_token_id", 0);
  return w;
}

TEST(GgufTokenizer, ReadsRolesTemplatesAndSpecialTokens) {
  GgufWriter w = tiny();
  w.boolean("tokenizer.ggml.add_eos_token", true);
  w.text("tokenizer.chat_template", "{{ messages }}");
  w.texts("tokenizer.chat_templates", {"tool_use"});
  w.text("tokenizer.chat_template.tool_use", "{{ tools }}");
  const auto tokenizer = open(w.file());
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_token(), "</s>");
  EXPECT_EQ(tokenizer->chat_template(), "{{ messages }}");
  EXPECT_EQ(tokenizer->chat_templates().at("tool_use"), "{{ tools }}");
  EXPECT_EQ(tokenizer->encode("a a", true), (Ids{1, 5, 5, 2}));
  EXPECT_EQ(tokenizer->encode("a</s><tool>", false), (Ids{5, 2, 6}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 5, 6, 5}, true), "a<tool> a");
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_FALSE(tokenizer->is_special(6));
}

TEST(GgufTokenizer, NamesMetadataThatNothingReads) {
  GgufWriter w = tiny();
  EXPECT_THAT(open(w.file())->warnings(), IsEmpty());
  w.u32("tokenizer.ggml.fim_pre_token_id", 3);
  w.text("tokenizer.ggml.pre", "default");
  w.boolean("tokenizer.ggml.add_sep_token", false);
  EXPECT_THAT(open(w.file())->warnings(), IsEmpty()) << "these have no effect";
  w.boolean("tokenizer.ggml.shout", true);
  w.text("tokenizer.chat_template.unlisted", "{{ messages }}");
  EXPECT_THAT(
      open(w.file())->warnings(),
      ElementsAre(HasSubstr("test.gguf: 'tokenizer.chat_template.unlisted' and 'tokenizer.ggml.shout' are")));
}

TEST(GgufTokenizer, NamesAllSpecialTokens) {
  GgufWriter w = tiny();
  w.u32("tokenizer.ggml.seperator_token_id", 2);
  w.u32("tokenizer.ggml.mask_token_id", 6);
  const std::map<std::string, std::string> expected = {{"bos_token", "<s>"},
                                                       {"eos_token", "</s>"},
                                                       {"mask_token", "<tool>"},
                                                       {"sep_token", "</s>"},
                                                       {"unk_token", "<unk>"}};
  EXPECT_EQ(open(w.file())->named_tokens(), expected);
}

TEST(GgufTokenizer, ReadsRerankerPromptsAsPairTemplates) {
  GgufWriter w = tiny();
  w.text("tokenizer.chat_template", "{{ messages }}");
  w.texts("tokenizer.chat_templates", {"rerank"});
  w.text("tokenizer.chat_template.rerank", "does {document} answer {query}?");
  EXPECT_EQ(open(w.file())->chat_template(),
            "does {{ messages[1].content }} answer {{ messages[0].content }}?");
}

TEST(GgufTokenizer, SupportsModelsWithoutADummyPrefix) {
  GgufWriter w = tiny();
  w.boolean("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = open(w.file());
  EXPECT_EQ(tokenizer->encode("a a", false), (Ids{4, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 5}, true), "a a");
}

TEST(GgufTokenizer, ErrorsNameTheKey) {
  const auto error = [](const GgufWriter& w) {
    const std::string file = w.file();
    try {
      open(file);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(open(GgufWriter().file()), nullptr);
  GgufWriter other;
  other.text("tokenizer.ggml.model", "rwkv");
  Made made;
  made.set(0, "a", kNormal);
  made.write(other, false);
  EXPECT_THAT(error(other), testing::HasSubstr("tokenizer.ggml.model 'rwkv' is not supported"));
  GgufWriter rules;
  rules.text("tokenizer.ggml.model", "gpt2");
  rules.text("tokenizer.ggml.pre", "from-mars");
  made.write(rules, false);
  EXPECT_THAT(error(rules),
              testing::HasSubstr("tokenizer.ggml.pre 'from-mars' is not supported; supported: gpt-2"));
  GgufWriter merges;
  merges.text("tokenizer.ggml.model", "gpt2");
  merges.text("tokenizer.ggml.pre", "gpt-2");
  made.write(merges, false);
  merges.texts("tokenizer.ggml.merges", {"a b"});
  EXPECT_THAT(error(merges), testing::HasSubstr("entry 0 has tokens that are not in the vocabulary"));
  GgufWriter types;
  types.text("tokenizer.ggml.model", "llama");
  types.texts("tokenizer.ggml.tokens", {"a", "b"});
  types.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kI32, {1});
  EXPECT_THAT(error(types), testing::HasSubstr("has another length than the list of tokens"));
}

TEST(GgufTokenizer, IgnoresIdsOfRolesThatDoNotExist) {
  GgufWriter w = tiny();
  w.u32("tokenizer.ggml.padding_token_id", 77);
  w.entry("tokenizer.ggml.seperator_token_id", GgufType::kI32, GgufWriter::raw<int32_t>(-1));
  testing::internal::CaptureStderr();
  const auto tokenizer = open(w.file());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("'tokenizer.ggml.padding_token_id' is 77, but there are 7 tokens"));
  EXPECT_FALSE(tokenizer->pad_id());
  EXPECT_EQ(tokenizer->encode("a a", true), (Ids{1, 5, 5}));
}

TEST(GgufTokenizer, TakesTheUsualIdsOfRolesThatDoNotExist) {
  GgufWriter w;
  w.text("tokenizer.ggml.model", "llama");
  few_pieces(kNormal).write(w, true);
  w.u32("tokenizer.ggml.bos_token_id", 99);
  w.u32("tokenizer.ggml.unknown_token_id", 99);
  const auto tokenizer = open(w.file());
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->encode("a?", true), (Ids{1, 3, 4, 0}));
}

TEST(GgufTokenizer, LeavesEmptyTokensUnused) {
  GgufWriter w;
  w.text("tokenizer.ggml.model", "llama");
  Made made = few_pieces(kUnknown);
  made.set(5, "", kNormal);
  made.set(6, "", kControl);
  made.write(w, true);
  testing::internal::CaptureStderr();
  const auto tokenizer = open(w.file());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("has 2 empty tokens"));
  EXPECT_EQ(tokenizer->encode("a[EMPTY_5]", false).front(), 3);
  EXPECT_EQ(tokenizer->vocab_size(), 7U);
}

TEST(GgufTokenizer, TokensThatEndATurnAreControlTokens) {
  for (const int32_t type : {kNormal, kUserDefined}) {
    GgufWriter w;
    w.text("tokenizer.ggml.model", "llama");
    Made made;
    made.set(0, "<unk>", kUnknown);
    made.set(1, "\xE2\x96\x81", kNormal, -1);
    made.set(2, "a", kNormal, -2);
    made.set(3, "<|im_end|>", type);
    made.write(w, true);
    const auto tokenizer = open(w.file());
    EXPECT_TRUE(tokenizer->is_special(3));
    EXPECT_EQ(tokenizer->encode("a<|im_end|>", false), (Ids{1, 2, 3}));
    EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3}, true), "a");
  }
}

// Every pre-tokenizer name gives a pre-tokenizer whose pieces cover the whole text.
TEST(GgufTokenizer, AllPreTokenizersSplitTexts) {
  json original = test::read_json(test::fixture_dir() / "byte-level/tokenizer.json");
  const std::string text =
      "It's 12345 words\n\n  of \xE4\xB8\xAD\xE6\x96\x87, \xD0\x9F\xD1\x80!! \xF0\x9F\x98\x80 they'LL ";
  for (const char* rules :
       {"gpt-2",      "olmo",   "llama-bpe",    "dbrx",           "glm4",        "qwen2",
        "stablelm2",  "qwen35", "gpt-4o",       "tekken",         "command-r",   "starcoder",
        "smollm",     "falcon", "deepseek-llm", "deepseek-coder", "deepseek-v3", "seed-coder",
        "bailingmoe", "bloom",  "viking",       "default",        "minicpm5",    "kimi-k2"}) {
    SCOPED_TRACE(rules);
    const auto tokenizer = open(from_merges(original, "gpt2", rules));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false), false), text);
  }
}

}  // namespace
}  // namespace quire
