#include "engine/word_tokenizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

constexpr size_t kMaxKept = 4;         // sets of sequence breakers
constexpr size_t kMaxRestTokens = 20;  // tokens of the rest of a split breaker, as in llama.cpp

// How a token overlaps a text: it contains the text, or it ends with the first `begun` bytes of it.
struct Overlap {
  bool contains = false;
  std::vector<size_t> begun;
};

Overlap overlap(std::string_view token, std::string_view text) {
  Overlap found;
  for (size_t at = token.find(text.front()); at != std::string_view::npos;
       at = token.find(text.front(), at + 1)) {
    const std::string_view rest = token.substr(at);
    if (rest.starts_with(text)) {
      found.contains = true;
      return found;
    }
    if (text.starts_with(rest)) found.begun.push_back(rest.size());
  }
  return found;
}

}  // namespace

Result<SharedSamplingWords> WordTokenizer::tokenize(const SamplingParams& params) {
  const bool has_dry = params.dry_multiplier > 0.0F && !params.dry_sequence_breakers.empty();
  if (params.bad_words.empty() && (!has_dry || tokenizer_ == nullptr)) return SharedSamplingWords();
  if (tokenizer_ == nullptr) {
    return invalid_argument(
        "bad_words needs a tokenizer, and this model has none: its outputs are token ids.", "bad_words");
  }
  auto words = std::make_shared<SamplingWords>();
  for (const std::string& word : params.bad_words) {
    if (Status added = add_bad_word(word, words->bad_words); !added.ok()) return added.failure();
  }
  if (has_dry) words->breakers = breakers(params.dry_sequence_breakers);
  return SharedSamplingWords(std::move(words));
}

// The word as it begins a text and as it follows a blank. The second is left out if the blank only adds a
// token: the first covers it. (vLLM also leaves it out if the numbers of tokens differ.)
Status WordTokenizer::add_bad_word(const std::string& word, std::vector<std::vector<TokenId>>& words) const {
  const size_t first = word.find_first_not_of(" \t\r\n\v\f");
  if (first == std::string::npos) {
    return invalid_argument("bad_words must contain words, but one is white space only.", "bad_words");
  }
  const std::string text = word.substr(first);
  std::vector<TokenId> plain = tokenizer_->encode(text, false);
  std::vector<TokenId> spaced = tokenizer_->encode(" " + text, false);
  const bool covered =
      spaced.size() >= plain.size() && std::equal(plain.rbegin(), plain.rend(), spaced.rbegin());
  if (!covered) words.push_back(std::move(spaced));
  if (!plain.empty()) words.push_back(std::move(plain));
  return {};
}

WordTokenizer::SharedBreakers WordTokenizer::breakers(const std::vector<std::string>& texts) {
  {
    const std::lock_guard lock(mutex_);
    const auto known =
        std::find_if(last_.begin(), last_.end(), [&](const auto& entry) { return entry.first == texts; });
    if (known != last_.end()) {
      last_.splice(last_.begin(), last_, known);
      return last_.front().second;
    }
  }
  auto found = std::make_shared<const SequenceBreakers>(find_breakers(texts));
  const std::lock_guard lock(mutex_);
  last_.emplace_front(texts, found);
  if (last_.size() > kMaxKept) last_.pop_back();
  return found;
}

SequenceBreakers WordTokenizer::find_breakers(const std::vector<std::string>& texts) const {
  std::map<std::string, std::vector<TokenId>> rests;
  const auto encode = [&](const std::string& rest) -> const std::vector<TokenId>& {
    const auto [entry, is_new] = rests.try_emplace(rest);
    if (is_new) {
      entry->second = tokenizer_->encode(rest, false);
      if (entry->second.size() > kMaxRestTokens) entry->second.resize(kMaxRestTokens);
    }
    return entry->second;
  };
  SequenceBreakers breakers;
  std::set<std::string> begun;  // the rests of the breakers that the token begins
  for (TokenId token = 0; token < vocab_size_; ++token) {
    const std::string bytes = tokenizer_->token_bytes(token);
    bool contains = false;
    begun.clear();
    for (const std::string& text : texts) {
      const Overlap found = overlap(bytes, text);
      contains = contains || found.contains;
      for (const size_t length : found.begun) begun.insert(text.substr(length));
    }
    if (contains) breakers.tokens.push_back(token);
    for (const std::string& rest : begun) {
      if (!encode(rest).empty()) breakers.splits.push_back({token, encode(rest)});
    }
  }
  return breakers;
}

}  // namespace quire
