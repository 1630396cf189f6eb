// Models that look up words: WordPiece, Unigram and WordLevel.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/scratch.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

// Greedy: the longest token that is a prefix of the word, then the longest one that continues it.
struct WordPiece {
  ByteTrie trie;                  // all tokens
  ByteTrie::Node continuing = 0;  // start of tokens with the continuing prefix
  bool has_continuing = false;
  TokenId unknown = kNoToken;
  size_t max_characters = 100;  // longer words are unknown
};
void encode_word(const WordPiece& model, std::string_view word, Scratch& scratch, std::vector<TokenId>& out);

// The segmentation with the highest sum of scores (Viterbi).
struct Unigram {
  ByteTrie trie;               // tokens for segmentation
  std::vector<double> scores;  // [vocabulary size]
  double unknown_score = 0;    // score of an unknown character: lowest score - 10
  TokenId unknown = kNoToken;  // kNoToken: unknown characters are dropped
  bool byte_fallback = false;
  std::array<TokenId, 256> fallback_bytes{};
  // SentencePiece sums in single precision, which affects ties.
  bool single_precision = false;
};
void encode_word(const Unigram& model, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out);

struct WordLevel {
  TokenId unknown = kNoToken;  // kNoToken: unknown words are dropped
};
void encode_word(const WordLevel& model, const Vocabulary& vocabulary, std::string_view word,
                 std::vector<TokenId>& out);

}  // namespace quire::tokenizer
