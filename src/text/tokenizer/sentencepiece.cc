#include "text/tokenizer/sentencepiece.h"

#include <algorithm>

#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

// The length of the longest user-defined piece that is a prefix of `text`; 0 if there is none.
size_t match_user_defined(const SentencePiece& model, std::string_view text, TokenId* id) {
  if (model.user_defined.empty()) return 0;
  ByteTrie::Node node = ByteTrie::kRoot;
  size_t longest = 0;
  for (size_t i = 0; i < text.size() && model.user_defined.step(node, static_cast<uint8_t>(text[i])); ++i) {
    if (model.user_defined.value(node) < 0) continue;
    longest = i + 1;
    *id = model.user_defined.value(node);
  }
  return longest;
}

// The normalized form of a prefix of `text`, and the length of that prefix.
std::string_view normal_prefix(const SentencePiece& model, std::string_view text, size_t* length) {
  TokenId ignored = kNoToken;
  if ((*length = match_user_defined(model, text, &ignored)) != 0) return text.substr(0, *length);
  std::string_view replacement;
  const auto lead = static_cast<uint8_t>(text[0]);
  if ((lead >= 0x80 || model.charsmap.may_change(lead)) && model.charsmap.longest(text, &replacement, length))
    return replacement;
  *length = unicode::sequence_length(lead);
  return text.substr(0, *length);
}

void normalize(const SentencePiece& model, std::string_view text, bool dummy_prefix, Scratch& scratch) {
  std::string& out = scratch.text;
  const std::string_view space = model.escape_whitespaces ? kMetaSpace : std::string_view(" ");
  size_t length = 0;
  out.clear();
  out.reserve(text.size() + text.size() / 2 + 8);
  while (model.remove_extra_whitespaces && !text.empty() && normal_prefix(model, text, &length) == " ") {
    text.remove_prefix(length);
  }
  if (text.empty()) return;
  const bool add_space = model.add_dummy_prefix && dummy_prefix;
  if (add_space && !model.whitespace_as_suffix) out += space;
  bool after_space = model.remove_extra_whitespaces;
  for (; !text.empty(); text.remove_prefix(length)) {
    scratch.check_cancelled();
    std::string_view part = normal_prefix(model, text, &length);
    while (after_space && !part.empty() && part.front() == ' ') part.remove_prefix(1);
    if (part.empty()) continue;
    for (const char c : part) {
      if (c == ' ') {
        out += space;
      } else {
        out.push_back(c);
      }
    }
    after_space = model.remove_extra_whitespaces && part.back() == ' ';
  }
  while (model.remove_extra_whitespaces && std::string_view(out).ends_with(space))
    out.resize(out.size() - space.size());
  if (add_space && model.whitespace_as_suffix) out += space;
}

// Encodes a range of normalized text without user-defined pieces.
void encode_bpe(const SentencePiece& model, const Vocabulary& vocabulary, std::string_view word,
                Scratch& scratch, std::vector<TokenId>& out) {
  const auto pieces = static_cast<TokenId>(model.types.size());
  scratch.ids.clear();
  scratch.ids.reserve(word.size());
  for (size_t i = 0; i < word.size();) {
    scratch.check_cancelled();
    const auto lead = static_cast<uint8_t>(word[i]);
    if (lead < 0x80) {
      scratch.ids.push_back(model.ascii[lead]);
      ++i;
      continue;
    }
    size_t length = 0;
    const uint32_t cp = unicode::decode(word.data() + i, &length);
    const auto id = vocabulary.find(word.substr(i, length));
    const PieceType type = id ? model.type(*id) : PieceType::kNone;
    const bool known =
        type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused;
    scratch.ids.push_back(known ? *id : pieces + static_cast<TokenId>(cp));
    i += length;
  }
  const size_t first = out.size();
  merge_symbols(model.merges, scratch, out);
  if (std::none_of(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                   [&](TokenId id) { return id >= pieces; }))
    return;
  // Characters without a piece become bytes, or one unknown piece per run.
  const std::vector<TokenId> symbols(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  out.resize(first);
  bool after_unknown = false;
  for (const TokenId id : symbols) {
    const bool unknown = id >= pieces;
    if (!unknown) {
      out.push_back(id);
    } else if (model.byte_fallback) {
      std::string bytes;
      unicode::append(bytes, static_cast<uint32_t>(id - pieces));
      for (const char c : bytes) out.push_back(model.bytes[static_cast<uint8_t>(c)]);
    } else if (!after_unknown) {
      out.push_back(model.unknown);
    }
    after_unknown = unknown;
  }
}

void encode_word(const SentencePiece& model, const Vocabulary& vocabulary, std::string_view word,
                 Scratch& scratch, std::vector<TokenId>& out) {
  if (!WordCache::cacheable(word)) return encode_bpe(model, vocabulary, word, scratch, out);
  WordCache::Entry& entry = scratch.cache.slot(word);
  if (entry.holds(word)) {
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.num_tokens);
    return;
  }
  const size_t before = out.size();
  encode_bpe(model, vocabulary, word, scratch, out);
  WordCache::fill(entry, word, out.data() + before, out.size() - before);
}

void encode_stretch(const SentencePiece& model, const Vocabulary& vocabulary, std::string_view text,
                    Scratch& scratch, std::vector<TokenId>& out) {
  if (!model.cut_at_meta_space) {
    if (!text.empty()) encode_word(model, vocabulary, text, scratch, out);
    return;
  }
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (text.substr(end, kMetaSpace.size()) == kMetaSpace) end += kMetaSpace.size();
    end = std::min(text.find(kMetaSpace, end), text.size());
    encode_word(model, vocabulary, text.substr(begin, end - begin), scratch, out);
    begin = end;
  }
}

}  // namespace

void encode_sentencepiece(const SentencePiece& model, const Vocabulary& vocabulary, std::string_view text,
                          bool dummy_prefix, Scratch& scratch, std::vector<TokenId>& out) {
  normalize(model, text, dummy_prefix, scratch);
  const std::string_view normal = scratch.text;
  if (model.unigram) {
    if (!normal.empty()) encode_word(model.unigram_model, vocabulary, normal, scratch, out);
    return;
  }
  size_t begin = 0;
  for (size_t i = 0; !model.user_defined.empty() && i < normal.size();) {
    scratch.check_cancelled();
    TokenId id = kNoToken;
    const size_t length = match_user_defined(model, normal.substr(i), &id);
    if (length == 0) {
      i += unicode::sequence_length(static_cast<uint8_t>(normal[i]));
      continue;
    }
    encode_stretch(model, vocabulary, normal.substr(begin, i - begin), scratch, out);
    out.push_back(id);
    begin = i += length;
  }
  encode_stretch(model, vocabulary, normal.substr(begin), scratch, out);
}

// Appends the complete characters of the held bytes. all: other bytes become one U+FFFD each.
void SentencePieceStream::take_bytes(bool all, std::string& out) {
  size_t done = 0, length = 0;
  while (done < bytes_.size()) {
    const auto state = unicode::scan(std::string_view(bytes_).substr(done, 4), &length);
    if (state == unicode::Utf8State::kIncomplete && !all) break;
    if (state == unicode::Utf8State::kComplete) {
      out.append(bytes_, done, length);
      done += length;
    } else {
      out += kReplacementCharacter;
      ++done;
    }
    text_seen_ = true;
  }
  bytes_.erase(0, done);
}

void SentencePieceStream::push(TokenId id, std::string& out) {
  const std::string_view spelling = vocabulary_->token(id);
  const PieceType type = model_->type(id);
  if (type == PieceType::kByte) {
    bytes_.push_back(static_cast<char>(byte_token_value(spelling)));
    return take_bytes(false, out);
  }
  take_bytes(true, out);
  const size_t before = out.size();
  if (type == PieceType::kUnknown) {
    out += model_->unknown_surface;
  } else if (type == PieceType::kNone) {
    out += spelling;  // added to the model: the spelling is the text
  } else if (type != PieceType::kControl) {
    std::string_view text = spelling;
    // The dummy prefix is not part of the text.
    const bool strips = model_->add_dummy_prefix || model_->remove_extra_whitespaces;
    if (strips && !text_seen_ && !prefix_taken_ && text.starts_with(kMetaSpace)) {
      text.remove_prefix(kMetaSpace.size());
      prefix_taken_ = !model_->remove_extra_whitespaces;
    }
    append_replaced(out, text, kMetaSpace, " ");
  }
  text_seen_ = text_seen_ || out.size() > before;
}

void SentencePieceStream::flush(std::string& out) {
  take_bytes(true, out);
}

}  // namespace quire::tokenizer
