#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "io/config_fields.h"
#include "io/gguf/gguf_unread.h"
#include "io/open_file.h"
#include "text/tokenizer/byte_ranks.h"
#include "text/tokenizer/gguf.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/vocab_files.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode/unicode.h"

namespace quire {

using tokenizer::AddedToken;
using tokenizer::JsonFile;
using tokenizer::Pipeline;
using tokenizer::Scratch;
using tokenizer::SentencePiece;
using tokenizer::TokenizerConfig;

namespace {

// The contents of a file; empty if it does not exist.
std::string read_file(const std::filesystem::path& path) {
  constexpr int64_t kMaxBytes = int64_t{1} << 30;
  std::error_code error;
  return std::filesystem::exists(path, error) ? read_regular_file(path, kMaxBytes) : std::string();
}

std::string place_of(const TokenizerFiles& files, std::string_view name) {
  return files.origin.empty() ? std::string(name) : files.origin + "/" + std::string(name);
}

TokenizerConfig read_config(const TokenizerFiles& files) {
  TokenizerConfig config;
  const auto read = [&](std::string_view text, std::string_view name, auto reader) {
    if (text.empty()) return;
    JsonFile file;
    file.name = place_of(files, name);
    tokenizer::parse_json(text, file);
    reader(file, config);
  };
  read(files.tokenizer_config_json, "tokenizer_config.json", tokenizer::read_tokenizer_config);
  read(files.special_tokens_map_json, "special_tokens_map.json", tokenizer::read_special_tokens_map);
  read(files.added_tokens_json, "added_tokens.json", tokenizer::read_added_tokens);
  read(files.chat_template_json, "chat_template.json", tokenizer::read_processor_template);
  read(files.sentence_bert_config_json, "sentence_bert_config.json", tokenizer::read_sentence_config);
  if (!files.chat_template.empty()) config.chat_templates = {{"default", std::string(files.chat_template)}};
  return config;
}

// bos and eos of a tokenizer.model, as in LlamaTokenizer: bos unless disabled, eos only if enabled.
void add_bos_and_eos(const TokenizerConfig& config, const std::string& bos, const std::string& eos,
                     Pipeline& pipeline) {
  std::vector<tokenizer::PostProcessor::Part> parts;
  const auto bos_id = pipeline.vocabulary.find(bos), eos_id = pipeline.vocabulary.find(eos);
  if (config.add_bos_token.value_or(true) && bos_id) parts.push_back({false, *bos_id});
  parts.push_back({true, -1});
  if (config.add_eos_token.value_or(false) && eos_id) parts.push_back({false, *eos_id});
  pipeline.post_processor.templates.push_back(std::move(parts));
}

// Adds tokens that are only in the other files. Existing tokens keep their settings.
void add_configured_tokens(const TokenizerConfig& config, const std::string& where, Pipeline& pipeline) {
  for (const AddedToken& token : config.added_tokens) {
    const auto known = [&](const AddedToken& other) { return other.content == token.content; };
    if (std::any_of(pipeline.added_tokens.begin(), pipeline.added_tokens.end(), known)) continue;
    tokenizer::add_token(pipeline, token, where);
  }
  for (AddedToken& token : pipeline.added_tokens) {
    const auto& special = config.special_tokens;
    if (std::find(special.begin(), special.end(), token.content) != special.end()) token.special = true;
  }
}

// BERT's tokenizer classes take their settings from tokenizer_config.json, whatever tokenizer.json says; the
// general classes do not.
void follow_bert_settings(const TokenizerConfig& config, tokenizer::Normalizer& normalizer) {
  constexpr std::string_view kGeneral[] = {"", "PreTrainedTokenizerFast", "PreTrainedTokenizer",
                                           "TokenizersBackend"};
  if (std::ranges::find(kGeneral, config.tokenizer_class) != std::end(kGeneral)) return;
  for (tokenizer::NormalizerStep& step : normalizer) {
    auto* bert = std::get_if<tokenizer::BertNormalizer>(&step);
    if (bert == nullptr) continue;
    if (config.do_lower_case) bert->lowercase = bert->strip_accents = *config.do_lower_case;
    if (config.strip_accents) bert->strip_accents = *config.strip_accents;
    if (config.tokenize_chinese_chars) bert->chinese_characters = *config.tokenize_chinese_chars;
  }
}

}  // namespace

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto first_of = [&](std::initializer_list<std::string> names) {
    for (const std::string& name : names) {
      if (std::string bytes = read_file(model_dir / name); !bytes.empty()) return bytes;
    }
    return std::string();
  };
  const std::string json = first_of({"tokenizer.json", "tekken.json"});
  const std::string model =
      json.empty() ? first_of({"tokenizer.model", "tiktoken.model", "qwen.tiktoken"}) : std::string();
  const bool of_vocab = json.empty() && model.empty();
  const auto if_vocab = [&](const char* name) {
    return of_vocab ? read_file(model_dir / name) : std::string();
  };
  const std::string vocab_json = if_vocab("vocab.json");
  const std::string merges = if_vocab("merges.txt");
  const std::string vocab_txt = if_vocab("vocab.txt");
  if (of_vocab && vocab_json.empty() && vocab_txt.empty()) {
    throw Error(model_dir.string() +
                ": tokenizer.json or tokenizer.model is missing or empty; pass the directory of a Hugging "
                "Face model");
  }
  const std::string model_config = if_vocab("config.json");
  const std::string config = read_file(model_dir / "tokenizer_config.json");
  const std::string special = read_file(model_dir / "special_tokens_map.json");
  // tokenizer.json contains the added tokens.
  const std::string added = json.empty() ? read_file(model_dir / "added_tokens.json") : std::string();
  const std::string chat_template = read_file(model_dir / "chat_template.jinja");
  const std::string processor_template = read_file(model_dir / "chat_template.json");
  const std::string sentence = first_of(
      {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_xlm-roberta_config.json"});
  auto tokenizer = from_memory({json, model, config, special, added, chat_template, processor_template,
                                model_dir.string(), sentence, vocab_json, merges, vocab_txt, model_config});
  if (tokenizer == nullptr) return nullptr;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(model_dir / "additional_chat_templates", error)) {
    if (entry.path().extension() == ".jinja")
      tokenizer->chat_templates_[entry.path().stem().string()] = read_file(entry.path());
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> Tokenizer::from_memory(const TokenizerFiles& files) {
  TokenizerConfig config = read_config(files);
  auto pipeline = std::make_unique<Pipeline>();
  if (!files.tokenizer_json.empty()) {
    JsonFile file;
    file.name = place_of(files, "tokenizer.json");
    tokenizer::parse_json(files.tokenizer_json, file);
    if (tokenizer::is_tekken(file)) {
      tokenizer::read_tekken(file, *pipeline, config);
    } else {
      tokenizer::read_tokenizer_json(file, *pipeline, config.warnings);
    }
  } else if (tokenizer::is_rank_file(files.tokenizer_model)) {
    tokenizer::read_rank_file(files.tokenizer_model, place_of(files, "tiktoken.model"), *pipeline, config);
  } else if (!files.tokenizer_model.empty()) {
    SentencePiece& model = pipeline->model.emplace<SentencePiece>();
    tokenizer::read_sentencepiece(files.tokenizer_model, place_of(files, "tokenizer.model"), model,
                                  pipeline->vocabulary);
    pipeline->prefix_every_segment = config.legacy;
    const auto piece = [&](const std::string& spelling) {
      return pipeline->vocabulary.find(spelling) ? spelling : std::string();
    };
    if (!config.bos_token) config.bos_token = piece(model.bos_piece);
    if (!config.eos_token) config.eos_token = piece(model.eos_piece);
    if (!config.unk_token) config.unk_token = pipeline->vocabulary.token(model.unknown);
    if (!config.pad_token) config.pad_token = piece(model.pad_piece);
    add_bos_and_eos(config, *config.bos_token, *config.eos_token, *pipeline);
  } else if (!files.vocab_json.empty() || !files.vocab_txt.empty()) {
    const std::string unsupported = tokenizer::read_vocab_files(
        {files.vocab_json, files.merges_txt, files.vocab_txt, files.tokenizer_config_json,
         files.special_tokens_map_json, files.model_config_json, files.origin},
        *pipeline, config);
    if (!unsupported.empty()) {
      log_warning(place_of(files, files.vocab_json.empty() ? "vocab.txt" : "vocab.json"),
                  ": the tokenizer class ", unsupported,
                  " is not supported; without tokenizer.json the model reads token ids only");
      return nullptr;
    }
  } else {
    throw Error(place_of(files, "tokenizer") + ": tokenizer.json or tokenizer.model is required");
  }
  add_configured_tokens(config, place_of(files, "tokenizer_config.json") + ": added_tokens_decoder",
                        *pipeline);
  tokenizer::check_ids(pipeline->post_processor, pipeline->vocabulary.size(),
                       place_of(files, "tokenizer.json"));
  return assemble(std::move(pipeline), config);
}

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const GgufFile& file) {
  if (!tokenizer::has_gguf_tokenizer(file)) return nullptr;
  TokenizerConfig config;
  auto pipeline = std::make_unique<Pipeline>();
  tokenizer::read_gguf_tokenizer(file, *pipeline, config);
  tokenizer::check_ids(pipeline->post_processor, pipeline->vocabulary.size(), file.file());
  if (auto warning = unread_warning(file.file(), unread_tokenizer_metadata(file)); !warning.empty())
    config.warnings.push_back(std::move(warning));
  return assemble(std::move(pipeline), config);
}

std::unique_ptr<Tokenizer> Tokenizer::assemble(std::unique_ptr<Pipeline> pipeline, TokenizerConfig& config) {
  auto result = std::unique_ptr<Tokenizer>(new Tokenizer);
  SpecialTokens& names = result->special_tokens_;
  names = {config.bos_token.value_or(""), config.eos_token.value_or(""), config.unk_token.value_or(""),
           config.pad_token.value_or("")};
  result->named_tokens_ = std::move(config.named_tokens);
  for (const auto& [name, spelling] :
       std::initializer_list<std::pair<const char*, const std::string&>>{{"bos_token", names.bos},
                                                                         {"eos_token", names.eos},
                                                                         {"unk_token", names.unk},
                                                                         {"pad_token", names.pad}}) {
    if (!spelling.empty()) result->named_tokens_[name] = spelling;
  }
  follow_bert_settings(config, pipeline->normalizer);
  if (config.lower_case && !tokenizer::lowers_case(pipeline->normalizer))
    pipeline->normalizer.insert(pipeline->normalizer.begin(), tokenizer::Lowercase{});
  tokenizer::finish(*pipeline);
  const auto id = [&](const std::string& spelling) {
    return spelling.empty() ? std::nullopt : pipeline->vocabulary.find(spelling);
  };
  result->special_ids_ = {id(names.bos), id(names.eos), id(names.unk), id(names.pad)};
  result->chat_templates_ = std::move(config.chat_templates);
  result->warnings_ = std::move(config.warnings);
  result->pipeline_ = std::move(pipeline);
  return result;
}

const std::string& Tokenizer::chat_template() const {
  static const std::string kNone;
  const auto found = chat_templates_.find("default");
  return found == chat_templates_.end() ? kNone : found->second;
}

std::unique_ptr<Scratch> Tokenizer::take_scratch() const {
  const std::lock_guard lock(scratch_mutex_);
  if (scratch_.empty()) return std::make_unique<Scratch>();
  auto scratch = std::move(scratch_.back());
  scratch_.pop_back();
  return scratch;
}

namespace {

// One call of encode(): passes ranges of text from step to step.
class Encoder {
 public:
  Encoder(const Pipeline& pipeline, bool rendered, Scratch& scratch, std::vector<TokenId>& out)
      : pipeline_(pipeline), rendered_(rendered), scratch_(scratch), out_(out) {}

  void run(std::string_view text) {
    const auto& matcher =
        rendered_ && !pipeline_.rendered_matcher.empty() ? pipeline_.rendered_matcher : pipeline_.raw_matcher;
    matcher.split(
        text, [this](std::string_view part, bool at_start) { run_part(part, at_start); },
        [this](TokenId id) { out_.push_back(id); });
  }

 private:
  void run_part(std::string_view part, bool at_start) {
    scratch_.check_cancelled();
    const std::string_view normal =
        tokenizer::normalize(pipeline_.normalizer, part, scratch_.text, scratch_.other);
    if (const SentencePiece* model = pipeline_.sentencepiece()) {
      tokenizer::encode_sentencepiece(*model, pipeline_.vocabulary, normal,
                                      at_start || pipeline_.prefix_every_segment, scratch_, out_);
      return;
    }
    if (pipeline_.normalized_matcher.empty()) {
      if (!normal.empty()) run_words(normal, at_start);
      return;
    }
    pipeline_.normalized_matcher.split(
        normal, [&](std::string_view text, bool first) { run_words(text, at_start && first); },
        [this](TokenId id) { out_.push_back(id); });
  }

  void run_words(std::string_view text, bool at_start) {
    if (pipeline_.pre_tokenizer.steps.empty()) return encode(text);
    // Ranges of a text have 32 bits, and a step may make it three times as long; longer texts are split.
    constexpr size_t kLongestText = size_t{1} << 30;
    if (text.size() > kLongestText) {
      const size_t cut = unicode::character_start(text, kLongestText);
      run_words(text.substr(0, cut), at_start);
      return run_words(text.substr(cut), false);
    }
    const std::string_view words = tokenizer::pre_tokenize(pipeline_.pre_tokenizer, text, at_start, scratch_,
                                                           scratch_.words, scratch_.other_words);
    for (const tokenizer::Range& piece : scratch_.pieces) encode(words.substr(piece.begin, piece.size()));
  }

  void encode(std::string_view word) {
    scratch_.check_cancelled();
    if (const auto* bpe = std::get_if<tokenizer::Bpe>(&pipeline_.model)) {
      encode_word(*bpe, pipeline_.vocabulary, word, scratch_, out_);
    } else if (const auto* word_piece = std::get_if<tokenizer::WordPiece>(&pipeline_.model)) {
      encode_word(*word_piece, word, scratch_, out_);
    } else if (const auto* unigram = std::get_if<tokenizer::Unigram>(&pipeline_.model)) {
      encode_word(*unigram, pipeline_.vocabulary, word, scratch_, out_);
    } else if (const auto* word_level = std::get_if<tokenizer::WordLevel>(&pipeline_.model)) {
      encode_word(*word_level, pipeline_.vocabulary, word, out_);
    }
  }

  const Pipeline& pipeline_;
  bool rendered_;
  Scratch& scratch_;
  std::vector<TokenId>& out_;
};

}  // namespace

std::vector<TokenId> Tokenizer::encode_with(std::string_view text, bool add_special_tokens, bool rendered,
                                            const YieldPoint& yield_point) const {
  std::string repaired;
  if (!unicode::is_valid(text)) {
    repaired = unicode::to_valid(text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  auto scratch = take_scratch();  // released if the work is cancelled
  scratch->yield_point = yield_point;
  Encoder(*pipeline_, rendered, *scratch, ids).run(text);
  {
    scratch->yield_point = {};
    scratch->trim();
    const std::lock_guard lock(scratch_mutex_);
    scratch_.push_back(std::move(scratch));
  }
  if (add_special_tokens) tokenizer::post_process(pipeline_->post_processor, ids);
  return ids;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens,
                                       const YieldPoint& yield_point) const {
  return encode_with(text, add_special_tokens, false, yield_point);
}
Tokenizer::Pair Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                       const YieldPoint& yield_point) const {
  Pair pair;
  const std::vector<TokenId> text = encode(second, false, yield_point);
  const tokenizer::PairPlaces places = tokenizer::post_process_pair(
      pipeline_->post_processor, encode(first, false, yield_point), text, pair.ids);
  pair.second = places.second_part;
  pair.text_begin = places.second_text;
  pair.text_end = places.second_text + text.size();
  return pair;
}
std::vector<TokenId> Tokenizer::encode_rendered(std::string_view text, const YieldPoint& yield_point) const {
  return encode_with(text, false, true, yield_point);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens,
                              const YieldPoint& yield_point) const {
  // This many tokens take about a millisecond.
  constexpr size_t kTokensPerCheck = 1 << 13;
  std::string text;
  if (const SentencePiece* model = pipeline_->sentencepiece()) {
    tokenizer::SentencePieceStream stream(*model, pipeline_->vocabulary);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % kTokensPerCheck == 0) yield_point.check();
      if (!skip_special_tokens || !is_special(ids[i])) stream.push(ids[i], text);
    }
    stream.flush(text);
    return text;
  }
  tokenizer::DecodeStream stream(pipeline_->decoder, false);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % kTokensPerCheck == 0) yield_point.check();
    const TokenId id = ids[i];
    if (pipeline_->vocabulary.has(id) && (!skip_special_tokens || !is_special(id)))
      stream.push(id_to_token(id), text);
  }
  stream.flush(text);
  return text;
}

std::string_view Tokenizer::id_to_token(TokenId id) const {
  return pipeline_->spelling(id);
}
std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  return pipeline_->vocabulary.find(token);
}
size_t Tokenizer::vocab_size() const {
  return pipeline_->vocabulary.size();
}
std::optional<TokenId> Tokenizer::added_token(std::string_view text) const {
  const std::optional<TokenId> id = token_to_id(text);
  return id && is_added(*id) ? id : std::nullopt;
}
bool Tokenizer::is_added(TokenId id) const {
  if (!pipeline_->vocabulary.has(id)) return false;
  if (pipeline_->is_special(id)) return true;
  const auto at = static_cast<size_t>(id);
  if (at < pipeline_->added.size() && pipeline_->added[at]) return true;
  const SentencePiece* model = pipeline_->sentencepiece();
  return model != nullptr && model->type(id) == tokenizer::PieceType::kUserDefined;
}

bool Tokenizer::is_special(TokenId id) const {
  return pipeline_->is_special(id);
}

namespace {

// The effect of a decoder step on one token, independent of its position.
struct TokenBytes {
  std::string bytes;
  bool done = false;  // `bytes` are bytes, which later steps do not change

  void operator()(const tokenizer::ByteLevelDecoder&) { bytes = tokenizer::byte_level_bytes(bytes); }
  void operator()(const tokenizer::MetaspaceDecoder& step) { replace(step.replacement, " "); }
  void operator()(const tokenizer::WordPieceDecoder& step) {
    if (bytes.starts_with(step.prefix)) {
      bytes.erase(0, step.prefix.size());
    } else {
      bytes.insert(0, " ");
    }
  }
  void operator()(const tokenizer::ByteFallbackDecoder&) {
    const int byte = tokenizer::byte_token_value(bytes);
    if (byte < 0) return;
    bytes.assign(1, static_cast<char>(byte));
    done = true;
  }
  void operator()(const tokenizer::ReplaceDecoder& step) {
    std::string out;
    std::visit([&](const auto& what) { tokenizer::append_replaced(out, bytes, what.pattern, what.content); },
               step.what);
    bytes = std::move(out);
  }
  void operator()(const tokenizer::BpeDecoder& step) { replace(step.suffix, " "); }
  // The other steps depend on more than one token.
  template <typename Other>
  void operator()(const Other&) {}

  void replace(std::string_view pattern, std::string_view content) {
    std::string out;
    tokenizer::append_replaced(out, bytes, pattern, content);
    bytes = std::move(out);
  }
};

}  // namespace

std::string Tokenizer::token_bytes(TokenId id) const {
  TokenBytes result{std::string(id_to_token(id))};
  if (result.bytes.empty() || pipeline_->added[static_cast<size_t>(id)]) return result.bytes;
  if (const SentencePiece* model = pipeline_->sentencepiece()) {
    const int byte = tokenizer::byte_token_value(result.bytes);
    if (model->type(id) == tokenizer::PieceType::kByte) return std::string(1, static_cast<char>(byte));
    result.replace(tokenizer::kMetaSpace, " ");
    return result.bytes;
  }
  for (const tokenizer::DecoderStep& step : pipeline_->decoder.steps) {
    if (!result.done) std::visit([&](const auto& s) { result(s); }, step);
  }
  return result.bytes;
}

}  // namespace quire
