// The models that look words up: WordPiece, Unigram and WordLevel.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/scratch.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

// Greedy: the longest token that starts the word, then the longest that continues it.
struct WordPiece {
  ByteTrie trie;                  // all tokens
  ByteTrie::Node continuing = 0;  // where those with the continuing prefix start
  bool has_continuing = false;
  TokenId unknown = kNoToken;
  size_t max_characters = 100;  // a longer word is unknown
};
void encode_word(const WordPiece& model, std::string_view word, Scratch& scratch, std::vector<TokenId>& out);

// The split into tokens with the highest sum of scores (Viterbi).
struct Unigram {
  ByteTrie trie;               // the tokens that text may become
  std::vector<double> scores;  // [vocabulary size]
  double unknown_score = 0;    // of one unknown character: lowest score - 10
  TokenId unknown = kNoToken;  // kNoToken: unknown characters vanish
  bool byte_fallback = false;
  std::array<TokenId, 256> fallback_bytes{};
  // SentencePiece keeps the sums in single precision; ties fall differently.
  bool single_precision = false;
};
void encode_word(const Unigram& model, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out);

struct WordLevel {
  TokenId unknown = kNoToken;  // kNoToken: unknown words vanish
};
void encode_word(const WordLevel& model, const Vocabulary& vocabulary, std::string_view word,
                 std::vector<TokenId>& out);

}  // namespace quire::tokenizer
