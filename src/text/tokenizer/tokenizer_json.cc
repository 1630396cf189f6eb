// Reading of tokenizer.json: models and added tokens. The steps have their own readers.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

// The "vocab" object of BPE, WordPiece and WordLevel.
void read_vocabulary(const JsonPlace& place, Vocabulary& vocabulary) {
  place.expect_object();
  size_t bytes = 0;
  for (const auto& member : place.value().GetObject()) bytes += member.name.GetStringLength();
  vocabulary.reserve(place.value().MemberCount(), bytes);
  for (const auto& member : place.value().GetObject()) {
    const std::string_view token = view(member.name);
    const auto entry = [&] { return "\"" + std::string(token.substr(0, 100)) + "\""; };
    if (!member.value.IsUint() || member.value.GetUint() > kHighestTokenId) {
      place.fail("the id of " + entry() + " must be an integer from 0 to " + std::to_string(kHighestTokenId));
    }
    const auto id = static_cast<TokenId>(member.value.GetUint());
    switch (vocabulary.add(token, id)) {
      case Vocabulary::Added::kNew:
        break;
      case Vocabulary::Added::kIdTaken:
        place.fail(entry() + " and \"" + std::string(vocabulary.token(id)) + "\" have the same id " +
                   std::to_string(id));
      default:
        place.fail(entry() + " is a duplicate");
    }
  }
}

// The two parts of a merge, written as "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> read_merge(const JsonPlace& merges, rapidjson::SizeType i) {
  const JsonValue& value = merges.value()[i];
  if (value.IsString()) {
    const std::string_view text = view(value);
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      merges.element(i).fail("must be two tokens with one space between them");
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }
  if (!value.IsArray() || value.Size() != 2 || !value[0].IsString() || !value[1].IsString()) {
    merges.element(i).fail("must be two tokens");
  }
  return {view(value[0]), view(value[1])};
}

void read_merges(const JsonPlace& place, const Vocabulary& vocabulary, bool ignore_merges, Bpe& bpe) {
  place.expect_array();
  const size_t count = place.value().Size();
  if (count > std::numeric_limits<uint32_t>::max() / 4) place.fail("has too many merges");
  bpe.merges.reserve(count);
  const bool plain = bpe.continuing_prefix.empty() && bpe.word_suffix.empty() && !ignore_merges;
  bpe.cut_at_meta_space = plain && !bpe.byte_level && vocabulary.find(kMetaSpace).has_value();
  std::string merged;
  uint32_t rank = 0;
  for (rapidjson::SizeType i = 0; i < count; ++i) {
    const JsonValue& value = place.value()[i];
    if (value.IsString() && view(value).starts_with("#version")) continue;
    const auto [left, right] = read_merge(place, i);
    const auto id = [&](std::string_view token) {
      const auto found = vocabulary.find(token);
      if (!found)
        place.element(i).fail("\"" + std::string(token.substr(0, 100)) + "\" is not in the vocabulary");
      return *found;
    };
    if (right.size() < bpe.continuing_prefix.size())
      place.element(i).fail("the second token lacks the continuing_subword_prefix");
    merged.assign(left);
    merged += right.substr(bpe.continuing_prefix.size());
    bpe.merges.add(id(left), id(right), rank++, id(merged), true);
    if (right.starts_with(kMetaSpace) && !left.ends_with(kMetaSpace)) bpe.cut_at_meta_space = false;
  }
}

// The id of a token that a model refers to, which must exist.
TokenId find_named(const JsonPlace& place, const Vocabulary& vocabulary) {
  if (!place.present()) return kNoToken;
  const auto id = vocabulary.find(place.string());
  return id ? *id : kNoToken;
}

Model read_bpe(const JsonPlace& model, Pipeline& pipeline) {
  Bpe bpe;
  bpe.byte_level = pipeline.pre_tokenizer.byte_level;
  read_vocabulary(model.member("vocab"), pipeline.vocabulary);
  bpe.continuing_prefix = model.member("continuing_subword_prefix").string_or("");
  bpe.word_suffix = model.member("end_of_word_suffix").string_or("");
  bpe.byte_fallback = model.member("byte_fallback").boolean_or(false);
  bpe.fuse_unknown = model.member("fuse_unk").boolean_or(false);
  bpe.ignore_merges = model.member("ignore_merges").boolean_or(false);
  bpe.unknown = find_named(model.member("unk_token"), pipeline.vocabulary);
  if (bpe.byte_level && (!bpe.continuing_prefix.empty() || !bpe.word_suffix.empty())) {
    model.fail("a byte-level model with continuing_subword_prefix or end_of_word_suffix is not supported");
  }
  read_merges(model.member("merges"), pipeline.vocabulary, bpe.ignore_merges, bpe);
  prepare(bpe, pipeline.vocabulary);
  return bpe;
}

std::vector<std::pair<std::string_view, int32_t>> all_tokens(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  keys.reserve(vocabulary.size());
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocabulary.has(id)) keys.emplace_back(vocabulary.token(id), id);
  }
  return keys;
}

Model read_word_piece(const JsonPlace& model, Pipeline& pipeline) {
  WordPiece word_piece;
  read_vocabulary(model.member("vocab"), pipeline.vocabulary);
  word_piece.max_characters = model.member("max_input_chars_per_word").integer_or(100, 1u << 30);
  const JsonPlace unknown = model.member("unk_token");
  const auto id = pipeline.vocabulary.find(unknown.string_or("[UNK]"));
  if (!id) unknown.fail("\"" + std::string(unknown.string_or("[UNK]")) + "\" is not in the vocabulary");
  word_piece.unknown = *id;
  auto keys = all_tokens(pipeline.vocabulary);
  word_piece.trie.build(keys);
  const std::string_view prefix = model.member("continuing_subword_prefix").string_or("##");
  word_piece.has_continuing = word_piece.trie.walk(word_piece.continuing, prefix);
  return word_piece;
}

Model read_unigram(const JsonPlace& model, Pipeline& pipeline) {
  Unigram unigram;
  const JsonPlace list = model.member("vocab");
  list.expect_array();
  if (list.value().Empty()) list.fail("is empty");
  if (list.value().Size() > kHighestTokenId) list.fail("has too many tokens");
  pipeline.vocabulary.reserve(list.value().Size(), list.value().Size() * 16);
  double lowest = std::numeric_limits<double>::infinity();
  for (rapidjson::SizeType i = 0; i < list.value().Size(); ++i) {
    const JsonValue& entry = list.value()[i];
    if (!entry.IsArray() || entry.Size() != 2 || !entry[0].IsString() || !entry[1].IsNumber()) {
      list.element(i).fail("must be a token and its score");
    }
    const auto id = static_cast<TokenId>(i);
    unigram.scores.push_back(entry[1].GetDouble());
    lowest = std::min(lowest, unigram.scores.back());
    // As in the reference, the later one of two equal tokens is used.
    if (pipeline.vocabulary.add(view(entry[0]), id) != Vocabulary::Added::kNew)
      pipeline.vocabulary.set_id(view(entry[0]), id);
  }
  const JsonPlace unknown = model.member("unk_id");
  if (unknown.present()) unigram.unknown = static_cast<TokenId>(unknown.integer(list.value().Size() - 1));
  constexpr double kUnknownPenalty = 10.0;
  unigram.unknown_score = lowest - kUnknownPenalty;
  unigram.byte_fallback = model.member("byte_fallback").boolean_or(false);
  Bpe bytes;
  prepare(bytes, pipeline.vocabulary);
  unigram.fallback_bytes = bytes.fallback_bytes;
  auto keys = all_tokens(pipeline.vocabulary);
  unigram.trie.build(keys);
  return unigram;
}

Model read_word_level(const JsonPlace& model, Pipeline& pipeline) {
  read_vocabulary(model.member("vocab"), pipeline.vocabulary);
  return WordLevel{find_named(model.member("unk_token"), pipeline.vocabulary)};
}

using ReadModel = Model (*)(const JsonPlace&, Pipeline&);
struct ModelType {
  std::string_view type;
  ReadModel read;
};
constexpr ModelType kModels[] = {{"BPE", read_bpe},
                                 {"WordPiece", read_word_piece},
                                 {"Unigram", read_unigram},
                                 {"WordLevel", read_word_level}};

// Old files do not contain the type.
std::string_view guess_type(const JsonPlace& model) {
  if (model.member("merges").present()) return "BPE";
  if (model.member("vocab").present() && model.member("vocab").value().IsArray()) return "Unigram";
  return model.member("max_input_chars_per_word").present() ? "WordPiece" : "WordLevel";
}

void read_model(const JsonPlace& model, Pipeline& pipeline) {
  model.expect_object();
  const JsonPlace type = model.member("type");
  const std::string_view name = type.present() ? type.string() : guess_type(model);
  for (const ModelType& known : kModels) {
    if (known.type == name) {
      pipeline.model = known.read(model, pipeline);
      return;
    }
  }
  type.fail("the model type \"" + std::string(name) + "\" is not supported");
}

}  // namespace

AddedToken read_added_token(const JsonPlace& place) {
  AddedToken token;
  token.content = place.member("content").string();
  token.single_word = place.member("single_word").boolean_or(false);
  token.lstrip = place.member("lstrip").boolean_or(false);
  token.rstrip = place.member("rstrip").boolean_or(false);
  token.special = place.member("special").boolean_or(false);
  token.normalized = place.member("normalized").boolean_or(!token.special);
  return token;
}

void add_token(Pipeline& pipeline, const AddedToken& token, const std::string& where) {
  constexpr size_t kLongest =
      1024;  // in bytes; the cost of matching is proportional to the length of the longest token
  if (token.content.empty()) return;
  if (token.content.size() > kLongest) throw Error(where + ": the added token is longer than 1024 bytes");
  switch (pipeline.vocabulary.add(token.content, token.id)) {
    case Vocabulary::Added::kIdTaken:
      throw Error(where + ": the added token \"" + token.content + "\" has the id " +
                  std::to_string(token.id) + " of \"" + std::string(pipeline.vocabulary.token(token.id)) +
                  "\"");
    case Vocabulary::Added::kTokenTaken:
      throw Error(where + ": the added token \"" + token.content + "\" has the id " +
                  std::to_string(token.id) + ", but in the vocabulary it is " +
                  std::to_string(*pipeline.vocabulary.find(token.content)));
    default:
      pipeline.added_tokens.push_back(token);
  }
}

void finish(Pipeline& pipeline) {
  std::vector<const AddedToken*> raw, normalized, rendered;
  // As in the reference, special tokens come first: if two tokens have the same spelling, the first one is
  // used.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : pipeline.added_tokens) {
      if (token.special == special) (token.normalized ? normalized : raw).push_back(&token);
    }
  }
  const auto contents = [](const std::vector<const AddedToken*>& tokens) {
    std::vector<std::string> spellings;
    spellings.reserve(tokens.size());
    for (const AddedToken* token : tokens) spellings.push_back(token->content);
    return spellings;
  };
  pipeline.raw_matcher.build(raw, contents(raw));
  std::vector<std::string> spellings;
  std::string buffer, other;
  for (const AddedToken* token : normalized) {
    spellings.emplace_back(normalize(pipeline.normalizer, token->content, buffer, other));
    if (spellings.back() != token->content) pipeline.normalized_spellings[token->id] = spellings.back();
  }
  pipeline.normalized_matcher.build(normalized, spellings);
  pipeline.special.assign(pipeline.vocabulary.size(), false);
  pipeline.added.assign(pipeline.vocabulary.size(), false);
  for (const AddedToken& token : pipeline.added_tokens) {
    pipeline.added[static_cast<size_t>(token.id)] = true;
    if (token.special) pipeline.special[static_cast<size_t>(token.id)] = true;
  }
  rendered = raw;
  for (const AddedToken& control : pipeline.controls) {
    pipeline.special[static_cast<size_t>(control.id)] = true;
    rendered.push_back(&control);
  }
  const SentencePiece* sentencepiece = pipeline.sentencepiece();
  if (sentencepiece == nullptr) {
    if (!pipeline.controls.empty()) pipeline.rendered_matcher.build(rendered, contents(rendered));
    return;
  }
  std::vector<AddedToken> controls;
  controls.reserve(sentencepiece->types.size());
  for (size_t i = 0; i < sentencepiece->types.size(); ++i) {
    if (sentencepiece->types[i] != PieceType::kControl) continue;
    pipeline.special[i] = true;
    AddedToken& control = controls.emplace_back();
    control.id = static_cast<TokenId>(i);
    control.content = pipeline.vocabulary.token(control.id);
    rendered.push_back(&control);
  }
  pipeline.rendered_matcher.build(rendered, contents(rendered));
}

void read_tokenizer_json(const JsonFile& file, Pipeline& pipeline, std::vector<std::string>& warnings) {
  FieldLog log;
  const JsonPlace root(&file.document, file.name + ": ", &log);
  pipeline.normalizer = read_normalizer(root.member("normalizer"));
  pipeline.pre_tokenizer = read_pre_tokenizer(root.member("pre_tokenizer"));
  read_model(root.member("model"), pipeline);
  pipeline.post_processor = read_post_processor(root.member("post_processor"));
  pipeline.decoder = read_decoder(root.member("decoder"));
  const JsonPlace added = root.member("added_tokens");
  if (auto warning = unread_warning(ConfigFile::kTokenizer, file, log); !warning.empty())
    warnings.push_back(std::move(warning));
  if (!added.present()) return;
  added.expect_array();
  for (rapidjson::SizeType i = 0; i < added.value().Size(); ++i) {
    const JsonPlace entry = added.element(i);
    AddedToken token = read_added_token(entry);
    token.id = static_cast<TokenId>(entry.member("id").integer(kHighestTokenId));
    add_token(pipeline, token, entry.path());
  }
}

}  // namespace quire::tokenizer
