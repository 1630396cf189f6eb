// The vocabulary as the masks of constrained output see it: the bytes of each token, and a trie of all tokens
// that are text. Built once per model; immutable except for a cache with a lock, so any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/ids.h"
#include "grammar/masks_cache.h"

namespace quire {
class Tokenizer;
}

namespace quire::grammar {

class TokenTable {
 public:
  // A node of the trie. Nodes are in preorder, so a node's subtree are the nodes from the next one to `end`.
  struct Node {
    int32_t end = 0;     // one past the subtree
    int32_t token = -1;  // a token with the bytes of the path; -1 = none
    uint16_t depth = 0;  // length of the path in bytes
    uint8_t byte = 0;    // the last byte of the path
  };
  // The tokens of a text, without special ones. Any thread.
  using Encoder = std::function<std::vector<TokenId>(std::string_view text)>;
  // Longer tokens match no text.
  static constexpr size_t kMaxTokenBytes = 4096;
  // Of lexeme_masks().
  static constexpr size_t kMaxSharedBytes = size_t{64} << 20;

  // The bytes are those that a token adds after other text (Tokenizer::token_bytes): an output follows a
  // prompt, so the detokenizer keeps the space of its first token, and "▁a" is always " a". WordPiece joins
  // tokens without "##" by spaces, so those begin with one, also if its decoder would remove the space again
  // (before punctuation). Special tokens, the unknown token and end tokens
  // have no bytes. vocab_size: the number of logits; the tokenizer may have more or fewer tokens. The
  // tokenizer must outlive the table.
  static std::shared_ptr<const TokenTable> from_tokenizer(const Tokenizer& tokenizer, size_t vocab_size,
                                                          std::span<const TokenId> end_tokens);
  // `texts`: the bytes of all tokens by id; an empty one is a special token. encoder: for encode(), or empty.
  static std::shared_ptr<const TokenTable> from_texts(std::vector<std::string> texts,
                                                      std::span<const TokenId> end_tokens,
                                                      Encoder encoder = {});

  size_t vocab_size() const { return begins_.size() - 1; }
  // "" for special tokens, end tokens and ids out of range.
  std::string_view bytes(TokenId token) const;
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  bool is_end(TokenId token) const;
  // The tokenizer's tokens for a text that follows other text. Empty if there are none with exactly these
  // bytes.
  std::vector<TokenId> encode(std::string_view text) const;

  std::span<const Node> nodes() const { return nodes_; }
  // The next token with the same bytes as this one; -1 = none.
  TokenId next_same(TokenId token) const { return same_.empty() ? -1 : same_[static_cast<size_t>(token)]; }
  // The nodes whose byte this is, in preorder.
  std::span<const int32_t> nodes_with(uint8_t byte) const {
    return std::span(nodes_by_byte_).subspan(by_byte_[byte], by_byte_[size_t{byte} + 1] - by_byte_[byte]);
  }
  // The node above; -1 at the top.
  int32_t parent(int32_t node) const { return parents_[static_cast<size_t>(node)]; }
  // Masks of lexemes that constraints share.
  ContentCache<LexemeMask>& lexeme_masks() const { return lexeme_masks_; }
  // Bytes of the longest token.
  size_t longest() const { return longest_; }
  // Whether some token has the byte.
  bool has_byte(uint8_t byte) const { return has_byte_[byte]; }
  size_t memory() const;

 private:
  TokenTable() = default;
  void build(std::vector<std::string> texts, std::span<const TokenId> end_tokens);
  void build_trie();
  void index_nodes();

  std::string text_;              // the bytes of all tokens
  std::vector<uint32_t> begins_;  // [vocab_size + 1] into text_
  std::vector<TokenId> end_tokens_;
  Encoder encoder_;
  std::vector<Node> nodes_;
  std::vector<int32_t> parents_;        // [nodes]
  std::vector<int32_t> nodes_by_byte_;  // [nodes]
  std::vector<uint32_t> by_byte_;       // [257] into nodes_by_byte_
  std::vector<TokenId> same_;           // [vocab_size], or empty if no two tokens have the same bytes
  size_t longest_ = 0;
  std::vector<bool> has_byte_ = std::vector<bool>(256);
  mutable ContentCache<LexemeMask> lexeme_masks_{kMaxSharedBytes};
};

}  // namespace quire::grammar
