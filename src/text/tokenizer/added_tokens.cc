#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

bool is_space_only(std::string_view text) {
  size_t length = 0;
  for (size_t i = 0; i < text.size(); i += length) {
    if (!unicode::is_space(unicode::decode(text.data() + i, &length))) return false;
  }
  return true;
}

}  // namespace

void AddedTokenMatcher::build(const std::vector<const AddedToken*>& tokens,
                              const std::vector<std::string>& spellings) {
  tokens_.clear();
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens_.push_back(*tokens[i]);
    tokens_.back().space_only = is_space_only(spellings[i]);
    if (spellings[i].empty()) continue;
    keys.emplace_back(spellings[i], static_cast<int32_t>(i));
    starts_[static_cast<uint8_t>(spellings[i][0])] = true;
  }
  // If two tokens have the same spelling, the first one is used.
  std::reverse(keys.begin(), keys.end());
  trie_.build(keys);
  if (std::count(starts_.begin(), starts_.end(), true) == 1) {
    only_start_ = static_cast<int>(std::find(starts_.begin(), starts_.end(), true) - starts_.begin());
  }
}

bool AddedTokenMatcher::find(std::string_view text, size_t from, Match* match) const {
  for (size_t i = from; i < text.size(); ++i) {
    if (only_start_ >= 0) {
      const void* found = std::memchr(text.data() + i, only_start_, text.size() - i);
      if (found == nullptr) return false;
      i = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    } else if (!starts_[static_cast<uint8_t>(text[i])]) {
      continue;
    }
    ByteTrie::Node node = ByteTrie::kRoot;
    const AddedToken* best = nullptr;
    size_t end = i;
    for (size_t j = i; j < text.size() && trie_.step(node, static_cast<uint8_t>(text[j])); ++j) {
      if (trie_.value(node) < 0) continue;
      best = &tokens_[static_cast<size_t>(trie_.value(node))];
      end = j + 1;
    }
    if (best != nullptr) {
      *match = {i, end, best};
      return true;
    }
  }
  return false;
}

bool AddedTokenMatcher::settle(std::string_view text, size_t done, Match* match) {
  size_t length = 0;
  if (match->token->single_word) {
    if (match->begin > 0 && unicode::is_word(unicode::decode_before(text, match->begin, &length)))
      return false;
    if (match->end < text.size() && unicode::is_word(unicode::decode(text.data() + match->end, &length)))
      return false;
  }
  if (match->token->lstrip) {
    while (match->begin > done && unicode::is_space(unicode::decode_before(text, match->begin, &length))) {
      match->begin -= length;
    }
  }
  if (match->token->rstrip) {
    while (match->end < text.size() &&
           unicode::is_space(unicode::decode(text.data() + match->end, &length))) {
      match->end += length;
    }
  }
  return true;
}

}  // namespace quire::tokenizer
