#include "grammar/token_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "text/tokenizer/tokenizer.h"

namespace quire::grammar {

std::shared_ptr<const TokenTable> TokenTable::from_tokenizer(const Tokenizer& tokenizer, size_t vocab_size,
                                                             std::span<const TokenId> end_tokens) {
  std::vector<std::string> texts(vocab_size);
  for (size_t i = 0; i < std::min(vocab_size, tokenizer.vocab_size()); ++i) {
    const auto token = static_cast<TokenId>(i);
    // The unknown token is decoded to a placeholder, not to its spelling.
    const bool is_text = !tokenizer.is_special(token) && tokenizer.unk_id() != token;
    if (is_text) texts[i] = tokenizer.token_bytes(token);
  }
  return from_texts(std::move(texts), end_tokens,
                    [&tokenizer](std::string_view text) { return tokenizer.encode(text, false); });
}

std::shared_ptr<const TokenTable> TokenTable::from_texts(std::vector<std::string> texts,
                                                         std::span<const TokenId> end_tokens,
                                                         Encoder encoder) {
  const std::shared_ptr<TokenTable> table(new TokenTable());
  table->encoder_ = std::move(encoder);
  table->build(std::move(texts), end_tokens);
  table->build_trie();
  table->index_nodes();
  return table;
}

void TokenTable::build(std::vector<std::string> texts, std::span<const TokenId> end_tokens) {
  for (const TokenId token : end_tokens) {
    if (token < 0 || static_cast<size_t>(token) >= texts.size()) continue;
    end_tokens_.push_back(token);
    texts[static_cast<size_t>(token)].clear();
  }
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  begins_.reserve(texts.size() + 1);
  begins_.push_back(0);
  for (const std::string& text : texts) {
    if (text.size() <= kMaxTokenBytes) {
      text_ += text;
      longest_ = std::max(longest_, text.size());
      for (const char c : text) has_byte_[static_cast<uint8_t>(c)] = true;
    }
    begins_.push_back(static_cast<uint32_t>(text_.size()));
  }
}

void TokenTable::build_trie() {
  std::vector<TokenId> sorted(vocab_size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::erase_if(sorted, [&](TokenId token) { return bytes(token).empty(); });
  std::stable_sort(sorted.begin(), sorted.end(), [&](TokenId a, TokenId b) { return bytes(a) < bytes(b); });
  std::vector<int32_t> path;  // nodes of the previous token
  TokenId previous = -1;
  for (const TokenId token : sorted) {
    const std::string_view text = bytes(token);
    const std::string_view last = previous < 0 ? std::string_view() : bytes(previous);
    if (text == last) {
      if (same_.empty()) same_.assign(vocab_size(), -1);
      same_[static_cast<size_t>(previous)] = token;
      previous = token;
      continue;
    }
    size_t common = 0;
    while (common < text.size() && common < last.size() && text[common] == last[common]) ++common;
    const auto count = static_cast<int32_t>(nodes_.size());
    for (size_t i = common; i < path.size(); ++i) nodes_[static_cast<size_t>(path[i])].end = count;
    path.resize(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.end = 0,
                        .token = i + 1 == text.size() ? token : -1,
                        .depth = static_cast<uint16_t>(i + 1),
                        .byte = static_cast<uint8_t>(text[i])});
    }
    previous = token;
  }
  for (const int32_t node : path) nodes_[static_cast<size_t>(node)].end = static_cast<int32_t>(nodes_.size());
}

void TokenTable::index_nodes() {
  parents_.resize(nodes_.size());
  by_byte_.assign(257, 0);
  std::vector<int32_t> path(longest_ + 1, -1);  // the last node of each depth
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    parents_[i] = path[node.depth - size_t{1}];
    path[node.depth] = static_cast<int32_t>(i);
    ++by_byte_[size_t{node.byte} + 1];
  }
  std::partial_sum(by_byte_.begin(), by_byte_.end(), by_byte_.begin());
  std::vector<uint32_t> next(by_byte_.begin(), by_byte_.end() - 1);
  nodes_by_byte_.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) nodes_by_byte_[next[nodes_[i].byte]++] = static_cast<int32_t>(i);
}

std::string_view TokenTable::bytes(TokenId token) const {
  if (token < 0 || static_cast<size_t>(token) >= vocab_size()) return {};
  const uint32_t begin = begins_[static_cast<size_t>(token)];
  return std::string_view(text_).substr(begin, begins_[static_cast<size_t>(token) + 1] - begin);
}

std::vector<TokenId> TokenTable::encode(std::string_view text) const {
  if (!encoder_ || text.empty()) return {};
  // The last tokens whose bytes are the text; empty if there are none.
  const auto tokens_of_end = [&](std::vector<TokenId> tokens) {
    size_t left = text.size();
    auto first = tokens.end();
    while (left > 0 && first != tokens.begin()) {
      const std::string_view own = bytes(*(first - 1));
      if (own.empty() || !text.substr(0, left).ends_with(own)) return std::vector<TokenId>();
      left -= own.size();
      --first;
    }
    if (left > 0) return std::vector<TokenId>();
    tokens.erase(tokens.begin(), first);
    return tokens;
  };
  std::vector<TokenId> whole = encoder_(text);
  size_t size = 0;
  for (const TokenId token : whole) size += bytes(token).size();
  if (size == text.size()) return tokens_of_end(std::move(whole));
  // Some tokenizers put a space before the text. It is not there after other text, for which a line break
  // stands.
  return tokens_of_end(encoder_("\n" + std::string(text)));
}

bool TokenTable::is_end(TokenId token) const {
  return std::ranges::binary_search(end_tokens_, token);
}

size_t TokenTable::memory() const {
  return sizeof(*this) + text_.capacity() + begins_.capacity() * sizeof(uint32_t) +
         nodes_.capacity() * (sizeof(Node) + 2 * sizeof(int32_t)) + lexeme_masks_.memory() +
         same_.capacity() * sizeof(TokenId);
}

}  // namespace quire::grammar
