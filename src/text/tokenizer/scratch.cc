#include "text/tokenizer/scratch.h"

#include <algorithm>

namespace quire::tokenizer {

namespace {

// A few multiplications, for eight bytes of the word at a time.
uint64_t word_hash(std::string_view word) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ull;
  uint64_t hash = word.size() * kFactor, part = 0;
  const char* p = word.data();
  size_t left = word.size();
  for (; left >= 8; left -= 8, p += 8) {
    std::memcpy(&part, p, 8);
    hash = (hash ^ part) * kFactor;
    hash ^= hash >> 29;
  }
  if (left != 0) {
    part = 0;
    std::memcpy(&part, p, left);
    hash = (hash ^ part) * kFactor;
  }
  return hash ^ hash >> 32;
}

}  // namespace

WordCache::Entry& WordCache::slot(std::string_view word) {
  if (entries_.empty()) entries_.resize(kSlots);
  return entries_[word_hash(word) & (kSlots - 1)];
}

void WordCache::fill(Entry& entry, std::string_view word, const TokenId* tokens, size_t num_tokens) {
  if (num_tokens == 0 || num_tokens > kMaxTokens) return;
  std::copy(word.begin(), word.end(), entry.word.begin());
  entry.word_size = static_cast<uint8_t>(word.size());
  entry.num_tokens = static_cast<uint8_t>(num_tokens);
  std::copy(tokens, tokens + num_tokens, entry.tokens.begin());
}

void Scratch::trim() {
  constexpr size_t kKeep = size_t{1} << 20;
  for (std::string* s : {&text, &other, &words, &other_words}) {
    if (s->capacity() > kKeep) std::string().swap(*s);
  }
  for (std::vector<Range>* v : {&pieces, &matches}) {
    if (v->capacity() > kKeep / sizeof(Range)) std::vector<Range>().swap(*v);
  }
}

}  // namespace quire::tokenizer
