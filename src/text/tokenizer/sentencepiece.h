// SentencePiece models (tokenizer.model): reading the protobuf file, encoding and decoding, like the
// sentencepiece library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/pieces.h"
#include "text/tokenizer/scratch.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

enum class PieceType : uint8_t {
  kNone = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Immutable after loading. The spellings of the pieces are in the corresponding Vocabulary.
struct SentencePiece {
  std::vector<PieceType> types;  // [number of pieces]
  bool unigram = false;          // otherwise BPE
  // Normalization.
  CharsMap charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  // Names in the trainer settings.
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  std::string unknown_surface = " \xE2\x81\x87 ";
  TokenId unknown = kNoToken;
  bool byte_fallback = false;
  std::array<TokenId, 256> bytes{};  // <0x00> .. <0xFF>, or kNoToken
  ByteTrie user_defined;             // pieces that are matched before anything else
  // BPE. Characters without a piece are merged under the ids [number of pieces + code point].
  MergeTable merges;
  std::array<TokenId, 128> ascii{};
  bool cut_at_meta_space = false;  // no merge joins a character with a following meta space
  Unigram unigram_model;

  PieceType type(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < types.size() ? types[static_cast<size_t>(id)]
                                                             : PieceType::kNone;
  }
};

// Reads a model file into `model` and `vocabulary`, which must be empty. Throws Error with `file`.
void read_sentencepiece(std::string_view bytes, const std::string& file, SentencePiece& model,
                        Vocabulary& vocabulary);

// A piece of a model's vocabulary.
struct Piece {
  std::string_view spelling;
  float score = 0;
  PieceType type = PieceType::kNormal;
};
// Builds the tables of a model from its pieces. The settings of the model must be set; `vocabulary` must be
// empty. Throws Error with `file`.
void build_sentencepiece(const std::vector<Piece>& pieces, const std::string& file, SentencePiece& model,
                         Vocabulary& vocabulary);

// Appends the tokens of a text (valid UTF-8). dummy_prefix: whether a space is prepended, if the model uses
// one.
void encode_sentencepiece(const SentencePiece& model, const Vocabulary& vocabulary, std::string_view text,
                          bool dummy_prefix, Scratch& scratch, std::vector<TokenId>& out);

// Decodes one sequence. Not thread-safe.
class SentencePieceStream {
 public:
  SentencePieceStream(const SentencePiece& model, const Vocabulary& vocabulary)
      : model_(&model), vocabulary_(&vocabulary) {}
  void push(TokenId id, std::string& out);
  void flush(std::string& out);

 private:
  void take_bytes(bool all, std::string& out);

  const SentencePiece* model_;
  const Vocabulary* vocabulary_;
  std::string bytes_;          // byte pieces of an incomplete character
  bool text_seen_ = false;     // some text has been returned
  bool prefix_taken_ = false;  // the dummy prefix has been removed
};

}  // namespace quire::tokenizer
