// Reading of a SentencePiece model file: a protobuf message (sentencepiece_model.proto), of which only some
// fields are used.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

// A protobuf message, read field by field. Every length is checked against the remaining bytes.
class Message {
 public:
  Message(std::string_view bytes, const std::string& file, size_t offset)
      : bytes_(bytes), file_(file), offset_(offset) {}

  // Advances to the next field; returns false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    start_ = at_;
    const uint64_t key = varint();
    field_ = key >> 3;
    type_ = static_cast<int>(key & 7);
    number_ = 0;
    content_ = {};
    if (type_ == kVarint) {
      number_ = varint();
    } else if (type_ == kFixed64) {
      content_ = take(8);
    } else if (type_ == kLengthDelimited) {
      content_ = take(varint());
    } else if (type_ == kFixed32) {
      content_ = take(4);
    } else {
      fail("unknown wire type " + std::to_string(type_));
    }
    return true;
  }

  uint64_t field() const { return field_; }
  uint64_t number() const { return expect(kVarint), number_; }
  std::string_view bytes() const { return expect(kLengthDelimited), content_; }
  float real() const {
    expect(kFixed32);
    float value = 0;
    std::memcpy(&value, content_.data(), sizeof value);
    return value;
  }
  Message message() const {
    return Message(bytes(), file_, offset_ + static_cast<size_t>(content_.data() - bytes_.data()));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(file_ + ": not a valid SentencePiece model: at byte " + std::to_string(offset_ + start_) +
                ": " + what);
  }

 private:
  enum { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void expect(int type) const {
    if (type_ != type) fail("field " + std::to_string(field_) + " has the wrong type");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) fail("truncated number");
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("number of more than ten bytes");
  }
  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_)
      fail("field of " + std::to_string(size) + " bytes, but only " + std::to_string(bytes_.size() - at_) +
           " are left");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  std::string_view bytes_;
  const std::string& file_;
  size_t offset_;  // offset of the message in the file
  size_t at_ = 0, start_ = 0;
  uint64_t field_ = 0, number_ = 0;
  int type_ = 0;
  std::string_view content_;
};

Piece read_piece(Message message) {
  Piece piece;
  while (message.next()) {
    if (message.field() == 1) piece.spelling = message.bytes();
    if (message.field() == 2) piece.score = message.real();
    if (message.field() == 3) {
      if (message.number() < 1 || message.number() > 6)
        message.fail("piece of the unknown type " + std::to_string(message.number()));
      piece.type = static_cast<PieceType>(message.number());
    }
  }
  if (piece.spelling.empty()) message.fail("piece without spelling");
  if (!unicode::is_valid(piece.spelling)) message.fail("piece that is not UTF-8");
  if (!std::isfinite(piece.score)) message.fail("piece whose score is not a number");
  return piece;
}

void read_trainer(Message message, SentencePiece& model) {
  constexpr uint64_t kUnigram = 1, kBpe = 2;
  while (message.next()) {
    switch (message.field()) {
      case 3:
        if (message.number() != kUnigram && message.number() != kBpe) {
          message.fail("the model type " + std::to_string(message.number()) + " is neither Unigram nor BPE");
        }
        model.unigram = message.number() == kUnigram;
        break;
      case 24:
        model.whitespace_as_suffix = message.number() != 0;
        break;
      case 35:
        model.byte_fallback = message.number() != 0;
        break;
      case 44:
        model.unknown_surface = message.bytes();
        break;
      case 46:
        model.bos_piece = message.bytes();
        break;
      case 47:
        model.eos_piece = message.bytes();
        break;
      case 48:
        model.pad_piece = message.bytes();
        break;
      default:
        break;
    }
  }
  if (!unicode::is_valid(model.unknown_surface)) message.fail("unk_surface is not UTF-8");
}

void read_normalizer_spec(Message message, const std::string& file, SentencePiece& model) {
  while (message.next()) {
    switch (message.field()) {
      case 2:
        model.charsmap.load(message.bytes(), file + ": normalizer_spec");
        break;
      case 3:
        model.add_dummy_prefix = message.number() != 0;
        break;
      case 4:
        model.remove_extra_whitespaces = message.number() != 0;
        break;
      case 5:
        model.escape_whitespaces = message.number() != 0;
        break;
      default:
        break;
    }
  }
}

// Whether the spelling of a piece is used in encoding.
bool is_text(PieceType type) {
  return type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused;
}

void build_unigram(const std::vector<Piece>& pieces, SentencePiece& model) {
  Unigram& unigram = model.unigram_model;
  unigram.single_precision = true;
  unigram.unknown = model.unknown;
  unigram.byte_fallback = model.byte_fallback;
  unigram.fallback_bytes = model.bytes;
  float lowest = std::numeric_limits<float>::max(), highest = std::numeric_limits<float>::lowest();
  for (const Piece& piece : pieces) {
    if (piece.type != PieceType::kNormal) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  constexpr float kUnknownPenalty = 10.0f;
  unigram.unknown_score = lowest - kUnknownPenalty;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool user_defined = pieces[i].type == PieceType::kUserDefined;
    // User-defined pieces take precedence.
    unigram.scores.push_back(user_defined ? static_cast<float>(pieces[i].spelling.size()) * highest - 0.1
                                          : static_cast<double>(pieces[i].score));
    if (is_text(pieces[i].type) && pieces[i].type != PieceType::kUnused) {
      keys.emplace_back(pieces[i].spelling, static_cast<int32_t>(i));
    }
  }
  unigram.trie.build(keys);
}

// Two neighbors are merged if they form a piece; higher scores come first. Stored as a table of pairs.
void build_bpe(const std::vector<Piece>& pieces, const Vocabulary& vocabulary, SentencePiece& model) {
  std::vector<float> scores;
  for (const Piece& piece : pieces) {
    if (is_text(piece.type)) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  const auto symbol = [&](std::string_view spelling) -> TokenId {
    const auto id = vocabulary.find(spelling);
    if (id && is_text(model.type(*id))) return *id;
    size_t length = 0;
    const uint32_t cp = unicode::decode(spelling.data(), &length);
    return length == spelling.size() ? static_cast<TokenId>(pieces.size() + cp) : kNoToken;
  };
  model.merges.reserve(pieces.size() * 3);
  model.cut_at_meta_space = vocabulary.find(kMetaSpace).has_value();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view spelling = pieces[i].spelling;
    constexpr size_t kLongest = 4096;
    if (!is_text(pieces[i].type) || spelling.size() > kLongest) continue;
    const auto rank = static_cast<uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), pieces[i].score, std::greater<>()) - scores.begin());
    for (size_t cut = unicode::sequence_length(static_cast<uint8_t>(spelling[0])); cut < spelling.size();
         cut += unicode::sequence_length(static_cast<uint8_t>(spelling[cut]))) {
      const TokenId left = symbol(spelling.substr(0, cut)), right = symbol(spelling.substr(cut));
      if (left == kNoToken || right == kNoToken) continue;
      model.merges.add(left, right, rank, static_cast<TokenId>(i), true);
      const bool crosses = spelling.substr(cut, kMetaSpace.size()) == kMetaSpace &&
                           (cut < kMetaSpace.size() ||
                            spelling.substr(cut - kMetaSpace.size(), kMetaSpace.size()) != kMetaSpace);
      if (crosses) model.cut_at_meta_space = false;
    }
  }
  for (uint32_t c = 0; c < 128; ++c) model.ascii[c] = symbol(std::string(1, static_cast<char>(c)));
}

}  // namespace

void read_sentencepiece(std::string_view bytes, const std::string& file, SentencePiece& model,
                        Vocabulary& vocabulary) {
  std::vector<Piece> pieces;
  Message message(bytes, file, 0);
  model.unigram = true;  // default of the protobuf definition
  while (message.next()) {
    if (message.field() == 1) pieces.push_back(read_piece(message.message()));
    if (message.field() == 2) read_trainer(message.message(), model);
    if (message.field() == 3) read_normalizer_spec(message.message(), file, model);
    if (pieces.size() > kHighestTokenId) message.fail("too many pieces");
  }
  if (pieces.empty()) message.fail("no pieces");
  build_sentencepiece(pieces, file, model, vocabulary);
}

void build_sentencepiece(const std::vector<Piece>& pieces, const std::string& file, SentencePiece& model,
                         Vocabulary& vocabulary) {
  vocabulary.reserve(pieces.size(), pieces.size() * 8);
  model.bytes.fill(kNoToken);
  std::vector<std::pair<std::string_view, int32_t>> user_defined;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    model.types.push_back(pieces[i].type);
    if (vocabulary.add(pieces[i].spelling, id) != Vocabulary::Added::kNew) {
      throw Error(file + ": the pieces " + std::to_string(*vocabulary.find(pieces[i].spelling)) + " and " +
                  std::to_string(i) + " are both spelled \"" + std::string(pieces[i].spelling) + "\"");
    }
    if (pieces[i].type == PieceType::kUnknown) model.unknown = id;
    if (pieces[i].type == PieceType::kUserDefined) user_defined.emplace_back(pieces[i].spelling, id);
    if (pieces[i].type == PieceType::kByte) {
      const int byte = byte_token_value(pieces[i].spelling);
      if (byte < 0)
        throw Error(file + ": the byte piece \"" + std::string(pieces[i].spelling) +
                    "\" is not of the form <0xNN>");
      model.bytes[static_cast<size_t>(byte)] = id;
    }
  }
  if (model.unknown == kNoToken) throw Error(file + ": no piece has the type UNKNOWN");
  if (model.byte_fallback &&
      std::find(model.bytes.begin(), model.bytes.end(), kNoToken) != model.bytes.end()) {
    throw Error(file + ": byte_fallback is set, but not every byte has a piece");
  }
  model.user_defined.build(user_defined);
  model.unigram ? build_unigram(pieces, model) : build_bpe(pieces, vocabulary, model);
}

}  // namespace quire::tokenizer
