#include "text/tokenizer/gguf.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "io/gguf/gguf_end_tokens.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

namespace {

// tokenizer.ggml.token_type has the values of SentencePiece.
constexpr int64_t kNormal = 1;

constexpr std::string_view kCl100kList =
    R"(["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kQwen2 =
    R"(["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kQwen35 =
    R"(["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kO200k =
    R"(["[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kTekken =
    R"(["[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kDeepseekLlm =
    R"(["[\\r\\n]", "\\s?[\\p{Lu}\\p{Ll}\\p{Lt}]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"])";
constexpr std::string_view kDeepseekCoder =
    R"(["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"])";
constexpr std::string_view kDeepseekV3 =
    R"(["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
// The expression of Moonshot (Kimi), as in byte_ranks.cc.
constexpr std::string_view kKimiList =
    R"(["\\p{sc:Han}+)"
    R"(|[^\\r\\n\\p{L}\\p{N}]?(?:(?!\\p{sc:Han})[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])*(?:(?!\\p{sc:Han})[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\\r\\n\\p{L}\\p{N}]?(?:(?!\\p{sc:Han})[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])+(?:(?!\\p{sc:Han})[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kSeedCoder =
    R"(["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kBailing =
    R"(["'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"])";
constexpr std::string_view kBloom = R"([" ?[^(\\s|.,!?…。，、।۔،)]+"])";
constexpr std::string_view kViking = R"([" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"])";
constexpr std::string_view kDigits = R"([{"type": "Digits", "individual_digits": true}])";
constexpr std::string_view kFalcon =
    R"([{"type": "Punctuation", "behavior": "Contiguous"},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        {"type": "Digits", "individual_digits": false}, "[0-9][0-9][0-9]"])";

constexpr std::array<GgufRules, 23> kRules = {{
    {"gpt-2 phi-2 exaone4 gigachat mellum jais trillion granite-docling jina-es jina-de jina-v2-es "
     "jina-v2-de a.x-4.0 "
     "jina-v1-en jina-v2-code roberta-bpe modern-bert",
     "[]", true},
    {"olmo mpt", "[]", true, true},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", kCl100kList, false,
     false, true, true},
    {"dbrx smaug-bpe chatglm-bpe", kCl100kList},
    {"glm4 glm5", kCl100kList, false, false, true},
    {"qwen2 deepseek-r1-qwen megrez kormo f2llmv2", kQwen2, false, true},
    {"stablelm2 hunyuan grok-2 solar-open", kQwen2},
    {"qwen35", kQwen35, false, true},
    {"gpt-4o llama4 kanana2 minimax-m2", kO200k},
    {"tekken", kTekken, false, false, true, true},
    {"command-r", kDigits, true, true},
    {"starcoder refact smollm codeshell exaone minerva-7b", kDigits, true},
    {"falcon", kFalcon},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-v3 hunyuan-dense joyai-llm", kDeepseekV3},
    {"kimi-k2", kKimiList, false, false, true},
    {"seed-coder", kSeedCoder},
    {"bailingmoe bailingmoe2 llada-moe", kBailing},
    {"bloom poro-chat gpt3-finnish", kBloom},
    {"viking", kViking},
    // Old files do not have the key, or have this value.
    {"default", kFalcon},
    {"minicpm5", kCl100kList, false, false, true},
}};

const GgufRules& find_rules(const GgufFile& file) {
  const std::string name(file.text("tokenizer.ggml.pre").value_or("default"));
  for (const GgufRules& rules : kRules) {
    if (cat(" ", rules.names, " ").find(cat(" ", name, " ")) != std::string::npos) return rules;
  }
  std::vector<std::string> names;
  names.reserve(std::size(kRules));
  for (const GgufRules& rules : kRules) names.emplace_back(rules.names);
  file.fail(cat("tokenizer.ggml.pre '", name, "' is not supported; supported: ", join(names, " ")));
}

// The steps of a pre-tokenizer, in the format of tokenizer.json.
PreTokenizer make_pre_tokenizer(const GgufRules& rules, const std::string& name) {
  JsonFile listed;
  listed.name = name;
  parse_json(cat("{\"steps\": ", rules.expressions, "}"), listed);
  std::string steps;
  const JsonValue& list = listed.document["steps"];
  JsonDocument out(rapidjson::kObjectType);
  auto& allocator = out.GetAllocator();
  JsonValue all(rapidjson::kArrayType);
  for (const auto& entry : list.GetArray()) {
    JsonValue step;
    if (entry.IsObject()) {
      step.CopyFrom(entry, allocator);
    } else {
      step.SetObject();
      JsonValue pattern(rapidjson::kObjectType);
      pattern.AddMember("Regex", JsonValue().CopyFrom(entry, allocator), allocator);
      step.AddMember("type", "Split", allocator);
      step.AddMember("pattern", pattern, allocator);
      step.AddMember("behavior", "Isolated", allocator);
      step.AddMember("invert", false, allocator);
    }
    all.PushBack(step, allocator);
  }
  JsonValue bytes(rapidjson::kObjectType);
  bytes.AddMember("type", "ByteLevel", allocator);
  bytes.AddMember("add_prefix_space", false, allocator);
  bytes.AddMember("use_regex", rules.byte_level_expression, allocator);
  // Falcon's list already contains the step.
  const bool has_bytes =
      std::any_of(all.Begin(), all.End(), [](const auto& step) { return view(step["type"]) == "ByteLevel"; });
  if (!has_bytes) all.PushBack(bytes, allocator);
  out.AddMember("type", "Sequence", allocator);
  out.AddMember("pretokenizers", all, allocator);
  return read_pre_tokenizer(JsonPlace(&out, name + ": "));
}

// Tokens and their attributes.
struct Tokens {
  std::vector<std::string_view> spellings;  // empty for ids without a token
  std::vector<int64_t> types;
  std::vector<double> scores;

  PieceType type(size_t i) const { return static_cast<PieceType>(types[i]); }
};

Tokens read_tokens(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  Tokens tokens;
  tokens.spellings = file.texts(kKey);
  const size_t count = tokens.spellings.size();
  if (count == 0 || count > kHighestTokenId) file.fail(cat("metadata '", kKey, "' has ", count, " tokens"));
  for (size_t i = 0; i < count; ++i) {
    if (!is_valid_utf8(tokens.spellings[i]))
      file.fail(cat("metadata '", kKey, "': token ", i, " is not UTF-8"));
  }
  tokens.types = file.integers("tokenizer.ggml.token_type");
  if (tokens.types.empty()) tokens.types.assign(count, kNormal);
  tokens.scores = file.numbers("tokenizer.ggml.scores");
  if (tokens.types.size() != count)
    file.fail("metadata 'tokenizer.ggml.token_type' has another length than the list of tokens");
  if (!tokens.scores.empty() && tokens.scores.size() != count)
    file.fail("metadata 'tokenizer.ggml.scores' has another length than the list of tokens");
  for (const int64_t type : tokens.types) {
    if (type < 0 || type > static_cast<int64_t>(PieceType::kByte))
      file.fail(cat("metadata 'tokenizer.ggml.token_type' contains the unknown type ", type));
  }
  for (const int64_t id : gguf_end_tokens(file).control)
    tokens.types[static_cast<size_t>(id)] = static_cast<int64_t>(PieceType::kControl);
  if (const auto empty = std::ranges::count(tokens.spellings, std::string_view()); empty > 0) {
    log_warning(file.file(), ": metadata '", kKey, "' has ", empty,
                empty == 1 ? " empty token" : " empty tokens", "; texts do not contain ",
                empty == 1 ? "it" : "them");
  }
  return tokens;
}

// The token with this role. An id that does not exist is ignored, as in llama.cpp: most roles are not needed.
std::optional<TokenId> token_id(const GgufFile& file, std::string_view role, const Tokens& tokens) {
  const std::string key = cat("tokenizer.ggml.", role, "_token_id");
  const auto id = file.integer(key);
  if (!id || *id == -1 || *id == std::numeric_limits<uint32_t>::max()) return std::nullopt;
  const size_t count = tokens.spellings.size();
  if (*id >= 0 && static_cast<size_t>(*id) < count) return static_cast<TokenId>(*id);
  log_warning(file.file(), ": metadata '", key, "' is ", *id, ", but there are ", count,
              count == 1 ? " token" : " tokens", "; it is ignored");
  return std::nullopt;
}

// Control and user-defined tokens are matched in the original text.
void add_tokens(const GgufFile& file, const Tokens& tokens, Pipeline& pipeline) {
  for (size_t i = 0; i < tokens.spellings.size(); ++i) {
    const PieceType type = tokens.type(i);
    if (type != PieceType::kControl && type != PieceType::kUserDefined) continue;
    AddedToken token;
    token.content = tokens.spellings[i];
    token.id = static_cast<TokenId>(i);
    token.special = type == PieceType::kControl;
    token.normalized = false;
    add_token(pipeline, token, file.file() + ": tokenizer.ggml.tokens");
  }
}

void fill_vocabulary(const GgufFile& file, const Tokens& tokens, Vocabulary& vocabulary) {
  vocabulary.reserve(tokens.spellings.size(), tokens.spellings.size() * 8);
  for (size_t i = 0; i < tokens.spellings.size(); ++i) {
    if (tokens.spellings[i].empty()) continue;
    if (vocabulary.add(tokens.spellings[i], static_cast<TokenId>(i)) == Vocabulary::Added::kNew) continue;
    // Some files repeat padding tokens; the first one of equal tokens is used.
    if (tokens.type(i) == PieceType::kNormal)
      file.fail(cat("metadata 'tokenizer.ggml.tokens' has the duplicate token '", tokens.spellings[i], "'"));
    vocabulary.add_spelling(tokens.spellings[i], static_cast<TokenId>(i));
  }
}

void read_merges(const GgufFile& file, const Vocabulary& vocabulary, Bpe& bpe) {
  const auto merges = file.texts("tokenizer.ggml.merges");
  if (merges.empty()) file.fail("has no metadata 'tokenizer.ggml.merges'");
  bpe.merges.reserve(merges.size());
  std::string merged;
  for (size_t i = 0; i < merges.size(); ++i) {
    const size_t space = merges[i].find(' ', 1);
    if (space == std::string_view::npos)
      file.fail(cat("metadata 'tokenizer.ggml.merges': entry ", i, " is not a pair"));
    const std::string_view left = merges[i].substr(0, space), right = merges[i].substr(space + 1);
    merged.assign(left);
    merged += right;
    const auto a = vocabulary.find(left), b = vocabulary.find(right);
    const auto both = vocabulary.find(merged);
    if (!a || !b || !both)
      file.fail(
          cat("metadata 'tokenizer.ggml.merges': entry ", i, " has tokens that are not in the vocabulary"));
    bpe.merges.add(*a, *b, static_cast<uint32_t>(i), *both, true);
  }
  prepare(bpe, vocabulary);
}

void read_bpe(const GgufFile& file, const Tokens& tokens, Pipeline& pipeline) {
  const GgufRules& rules = find_rules(file);
  fill_vocabulary(file, tokens, pipeline.vocabulary);
  pipeline.pre_tokenizer = make_pre_tokenizer(rules, file.file());
  if (rules.nfc) pipeline.normalizer.emplace_back(UnicodeForm{unicode::NormalForm::kNfc});
  pipeline.decoder.steps.emplace_back(ByteLevelDecoder{});
  Bpe bpe;
  bpe.byte_level = true;
  bpe.ignore_merges = rules.ignore_merges;
  read_merges(file, pipeline.vocabulary, bpe);
  pipeline.model = std::move(bpe);
}

// Gemma 4: merges of characters over the whole text, with spaces as meta spaces and bytes for unknown
// characters.
void read_character_bpe(const GgufFile& file, const Tokens& tokens, Pipeline& pipeline) {
  const std::string meta(kMetaSpace);
  fill_vocabulary(file, tokens, pipeline.vocabulary);
  pipeline.normalizer.emplace_back(ReplaceString{" ", meta});
  pipeline.decoder.steps.emplace_back(ReplaceDecoder{ReplaceString{meta, " "}});
  pipeline.decoder.steps.emplace_back(ByteFallbackDecoder{});
  pipeline.decoder.steps.emplace_back(FuseDecoder{});
  Bpe bpe;
  bpe.byte_fallback = bpe.fuse_unknown = true;
  bpe.unknown = token_id(file, "unknown", tokens).value_or(kNoToken);
  read_merges(file, pipeline.vocabulary, bpe);
  pipeline.model = std::move(bpe);
}

// SentencePiece BPE ("llama") and Unigram ("t5").
void read_pieces(const GgufFile& file, const Tokens& tokens, bool unigram, Pipeline& pipeline) {
  if (tokens.scores.empty()) file.fail("has no metadata 'tokenizer.ggml.scores'");
  std::vector<Piece> pieces;
  auto unknown = token_id(file, "unknown", tokens);
  const bool has_unknown = std::ranges::count(tokens.types, static_cast<int64_t>(PieceType::kUnknown)) > 0;
  if (!unknown && !has_unknown) unknown = unigram ? 2 : 0;  // as in llama.cpp
  std::deque<std::string> made;                             // pieces point to them
  for (size_t i = 0; i < tokens.spellings.size(); ++i) {
    PieceType type = tokens.type(i);
    // Tokens that are matched in the text beforehand are handled separately; unused tokens are padding.
    if (type == PieceType::kControl || type == PieceType::kUserDefined || type == PieceType::kUnused)
      type = PieceType::kNone;
    if (unknown && static_cast<TokenId>(i) == *unknown) type = PieceType::kUnknown;
    std::string_view spelling = tokens.spellings[i];
    if (spelling.empty()) {  // the name that llama.cpp gives it
      spelling = made.emplace_back(cat("[EMPTY_", i, "]"));
      if (type != PieceType::kUnknown) type = PieceType::kNone;
    }
    pieces.push_back({spelling, static_cast<float>(tokens.scores[i]), type});
  }
  SentencePiece& model = pipeline.model.emplace<SentencePiece>();
  model.unigram = unigram;
  model.add_dummy_prefix = file.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  model.remove_extra_whitespaces = file.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(unigram);
  const auto bytes = [](const Piece& piece) { return piece.type == PieceType::kByte; };
  constexpr std::ptrdiff_t kBytes = 256;
  model.byte_fallback = std::count_if(pieces.begin(), pieces.end(), bytes) >= kBytes;
  std::string charsmap;
  for (const int64_t byte : file.integers("tokenizer.ggml.precompiled_charsmap"))
    charsmap.push_back(static_cast<char>(byte));
  if (!charsmap.empty()) model.charsmap.load(charsmap, file.file() + ": tokenizer.ggml.precompiled_charsmap");
  build_sentencepiece(pieces, file.file(), model, pipeline.vocabulary);
}

// WordPiece: the file marks the first token of a word instead of the following ones.
void read_word_piece(const GgufFile& file, const Tokens& tokens, Pipeline& pipeline) {
  std::vector<std::string> spellings;
  Tokens unmarked = tokens;
  for (size_t i = 0; i < tokens.spellings.size(); ++i) {
    const std::string_view token = tokens.spellings[i];
    const bool begins = token.starts_with(kMetaSpace);
    spellings.push_back(tokens.type(i) == PieceType::kControl || tokens.type(i) == PieceType::kUnknown
                            ? std::string(token)
                        : begins ? std::string(token.substr(kMetaSpace.size()))
                                 : cat("##", token));
  }
  unmarked.spellings.assign(spellings.begin(), spellings.end());
  fill_vocabulary(file, unmarked, pipeline.vocabulary);
  pipeline.normalizer.emplace_back(BertNormalizer{true, true, true, true});
  JsonFile steps;
  steps.name = file.file();
  parse_json(R"({"step": {"type": "BertPreTokenizer"}})", steps);
  pipeline.pre_tokenizer = read_pre_tokenizer(JsonPlace(&steps.document, steps.name + ": ").member("step"));
  pipeline.decoder.steps.emplace_back(WordPieceDecoder{});
  WordPiece model;
  auto unknown = token_id(file, "unknown", tokens);
  if (!unknown) unknown = pipeline.vocabulary.find("[UNK]");
  if (!unknown) file.fail("has no metadata 'tokenizer.ggml.unknown_token_id'");
  model.unknown = *unknown;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < unmarked.spellings.size(); ++i) {
    if (!unmarked.spellings[i].empty()) keys.emplace_back(unmarked.spellings[i], static_cast<int32_t>(i));
  }
  model.trie.build(keys);
  model.has_continuing = model.trie.walk(model.continuing, "##");
  pipeline.model = std::move(model);
}

// Default special tokens around a text.
struct Around {
  bool bos, eos;
};

void read_special_tokens(const GgufFile& file, const Tokens& tokens, Around around, bool sentence,
                         Pipeline& pipeline, TokenizerConfig& config) {
  const bool sentencepiece = pipeline.sentencepiece() != nullptr && !pipeline.sentencepiece()->unigram;
  const auto role = [&](std::string_view name, std::optional<std::string>& spelling) {
    auto id = token_id(file, name, tokens);
    // The ids that llama.cpp assumes in a file without a valid one.
    const size_t default_id = name == "bos" ? 1 : name == "eos" ? 2 : tokens.types.size();
    if (!id && sentencepiece && default_id < tokens.types.size() &&
        tokens.type(default_id) == PieceType::kControl)
      id = static_cast<TokenId>(default_id);
    if (id) spelling = pipeline.vocabulary.token(*id);
    return id;
  };
  auto bos = role("bos", config.bos_token);
  auto eos = role("eos", config.eos_token);
  role("unknown", config.unk_token);
  role("padding", config.pad_token);
  constexpr std::array<std::pair<std::string_view, const char*>, 3> kMoreRoles = {
      {{"seperator", "sep_token"}, {"cls", "cls_token"}, {"mask", "mask_token"}}};  // as GGUF spells them
  for (const auto& [key, name] : kMoreRoles) {
    if (const auto id = token_id(file, key, tokens))
      config.named_tokens[name] = pipeline.vocabulary.token(*id);
  }
  if (sentence) {  // [CLS] text [SEP]
    if (const auto cls = token_id(file, "cls", tokens)) bos = cls;
    if (const auto separator = token_id(file, "seperator", tokens)) eos = separator;
  }
  std::vector<PostProcessor::Part> parts;
  if (bos && file.boolean("tokenizer.ggml.add_bos_token").value_or(around.bos))
    parts.push_back({false, *bos});
  parts.push_back({true, -1});
  if (eos && file.boolean("tokenizer.ggml.add_eos_token").value_or(around.eos))
    parts.push_back({false, *eos});
  if (parts.size() > 1) pipeline.post_processor.templates.push_back(std::move(parts));
}

// Converts the prompt format in files of rerankers to a chat template with two messages, one per text.
std::string pair_template(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPlaces = {{
      {"{query}", "{{ messages[0].content }}"},
      {"{document}", "{{ messages[1].content }}"},
  }};
  for (const auto& [place, content] : kPlaces) {
    const size_t at = text.find(place);
    if (at != std::string::npos) text.replace(at, place.size(), content);
  }
  return text;
}

void read_chat_templates(const GgufFile& file, TokenizerConfig& config) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (const auto text = file.text(kKey); text && !text->empty()) config.chat_templates["default"] = *text;
  for (const std::string_view name : file.texts("tokenizer.chat_templates")) {
    const auto text = file.text(cat(kKey, ".", name));
    if (!text) continue;
    if (name == "rerank") config.chat_templates["default"] = pair_template(std::string(*text));
    config.chat_templates[std::string(name)] = *text;
  }
}

}  // namespace

std::span<const GgufRules> gguf_rules() {
  return kRules;
}

bool has_gguf_tokenizer(const GgufFile& file) {
  return file.find("tokenizer.ggml.model") != nullptr && file.find("tokenizer.ggml.tokens") != nullptr;
}

void read_gguf_tokenizer(const GgufFile& file, Pipeline& pipeline, TokenizerConfig& config) {
  const std::string_view model = file.text("tokenizer.ggml.model").value_or("");
  const Tokens tokens = read_tokens(file);
  // The original tokenizer.json, which few files contain, is complete.
  if (const auto original = file.text("tokenizer.huggingface.json")) {
    JsonFile json;
    json.name = cat(file.file(), ": tokenizer.huggingface.json");
    parse_json(*original, json);
    read_tokenizer_json(json, pipeline, config.warnings);
    PostProcessor own = std::move(pipeline.post_processor);
    read_special_tokens(file, tokens, {false, false}, false, pipeline, config);
    pipeline.post_processor = std::move(own);
    return read_chat_templates(file, config);
  }
  Around around = {true, false};
  if (model == "gpt2") {
    read_bpe(file, tokens, pipeline);
    around = {find_rules(file).add_bos, false};
  } else if (model == "gemma4") {
    read_character_bpe(file, tokens, pipeline);
  } else if (model == "llama") {
    read_pieces(file, tokens, false, pipeline);
  } else if (model == "t5") {
    read_pieces(file, tokens, true, pipeline);
    around = {false, true};
  } else if (model == "bert") {
    read_word_piece(file, tokens, pipeline);
    around = {true, true};
  } else {
    file.fail(
        cat("tokenizer.ggml.model '", model, "' is not supported; supported: gpt2, gemma4, llama, t5, bert"));
  }
  add_tokens(file, tokens, pipeline);
  read_special_tokens(file, tokens, around, model == "bert", pipeline, config);
  read_chat_templates(file, config);
}

}  // namespace quire::tokenizer
