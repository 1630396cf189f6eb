#include "grammar/compile.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/compile_grammar.h"
#include "grammar/masks.h"
#include "grammar/parser.h"

namespace quire::grammar {
namespace {

// Masks whose walk visits fewer nodes are not kept: they are as quick to compute as to find.
constexpr size_t kMinVisitedToCache = 256;
// Limit of one forced text; the next call continues.
constexpr size_t kMaxForcedBytes = 4096;

// Without the bytes of a character that is not complete.
std::string_view without_partial_character(std::string_view text) {
  for (size_t partial = 0; partial < 4 && partial <= text.size(); ++partial) {
    const std::string_view whole = text.substr(0, text.size() - partial);
    if (is_valid_utf8(whole)) return whole;
  }
  return {};
}

Failure too_ambiguous(size_t max_items) {
  return invalid_argument("The grammar is too ambiguous: the output so far can be read in more than " +
                          std::to_string(max_items) + " ways.");
}

// Data that all states of a constraint share.
struct Constraint {
  CompiledGrammar grammar;
  std::shared_ptr<const TokenTable> tokens;
  Configuration start;
  std::vector<std::shared_ptr<const Closure>> start_owners;
  mutable ContentCache<Mask> masks;
};

// The state after a token. Immutable and shared by clones; each one refers to the state before its token, so
// that tokens can be removed again.
struct ParseNode {
  ParseNode() = default;
  ~ParseNode() {
    if (previous != nullptr) release_later(std::move(previous));
  }
  ParseNode(const ParseNode&) = delete;
  ParseNode& operator=(const ParseNode&) = delete;

  Configuration configuration;
  std::vector<std::shared_ptr<const Closure>> owners;  // owners of the configuration's return points
  bool ended = false;                                  // an end token was accepted
  std::shared_ptr<const ParseNode> previous;
};

class GrammarState final : public ConstraintState {
 public:
  GrammarState(std::shared_ptr<const Constraint> constraint, std::shared_ptr<const ParseNode> node)
      : constraint_(std::move(constraint)), node_(std::move(node)) {}

  Status fill(std::span<uint32_t> mask) override {
    std::ranges::fill(mask, 0);
    const TokenTable& tokens = *constraint_->tokens;
    // The model may have more logits than the table has tokens; fewer are a mistake of the caller.
    const size_t words = (tokens.vocab_size() + 31) / 32;
    if (mask.size() < words) return invalid_argument("The mask is shorter than the vocabulary.");
    if (!node_->ended) {
      if (Status status = fill_text(mask.first(words)); !status.ok()) return status;
    }
    if (complete()) {
      for (const TokenId token : tokens.end_tokens()) set_bit(mask, token);
    }
    return {};
  }

  bool accept(TokenId token) override {
    const TokenTable& tokens = *constraint_->tokens;
    if (token < 0 || static_cast<size_t>(token) >= tokens.vocab_size()) return false;
    auto next = std::make_shared<ParseNode>();
    if (tokens.is_end(token)) {
      if (!complete()) return false;
      next->ended = true;
    } else {
      if (node_->ended) return false;
      Parser parser(constraint_->grammar);
      if (!advance(parser, token, next->configuration)) return false;
      next->owners = owners_of(next->configuration);
    }
    next->previous = node_;
    node_ = std::move(next);
    return true;
  }

  void rollback(size_t count) override {
    for (; count > 0 && node_->previous != nullptr; --count) {
      std::shared_ptr<const ParseNode> previous = node_->previous;
      node_ = std::move(previous);
    }
  }

  std::unique_ptr<ConstraintState> clone() const override {
    return std::make_unique<GrammarState>(constraint_, node_);
  }

  bool complete() const override { return node_->ended || node_->configuration.complete; }
  bool finished() const override { return node_->ended || node_->configuration.threads.empty(); }

  std::string forced_bytes() const override {
    std::string text;
    Parser parser(constraint_->grammar);
    Configuration current = node_->configuration, next;
    while (!current.complete && !current.threads.empty() && text.size() < kMaxForcedBytes) {
      const int byte = only_byte(current);
      if (byte < 0) break;
      parser.advance(current, static_cast<uint8_t>(byte), next);
      if (parser.too_ambiguous() || next.empty()) break;
      text += static_cast<char>(byte);
      std::swap(current, next);
    }
    return text;
  }

  std::vector<TokenId> forced_tokens() const override {
    const std::string text = forced_bytes();
    if (text.size() < 2) return {};
    std::vector<TokenId> tokens = constraint_->tokens->encode(without_partial_character(text));
    if (!tokens.empty()) tokens.pop_back();
    // A token that the grammar names is not text.
    const auto named = [&](TokenId token) {
      return std::ranges::binary_search(constraint_->grammar.tokens, token);
    };
    tokens.erase(std::ranges::find_if(tokens, named), tokens.end());
    return tokens;
  }

 private:
  Status fill_text(std::span<uint32_t> mask) {
    const CompiledGrammar& grammar = constraint_->grammar;
    const TokenTable& tokens = *constraint_->tokens;
    const Configuration& configuration = node_->configuration;
    // A token adds at most that many repetitions.
    const ContentHash key = hash_of(grammar, configuration, static_cast<uint32_t>(tokens.longest() + 1));
    if (const auto known = constraint_->masks.find(key)) {
      std::ranges::copy(*known, mask.begin());
      return {};
    }
    Parser parser(grammar);
    MaskWalk walk(parser, tokens, mask);
    walk.run(configuration);
    if (parser.too_ambiguous()) {
      std::ranges::fill(mask, 0);
      return too_ambiguous(grammar.max_items);
    }
    for (const TokenId token : grammar.tokens) clear_bit(mask, token);
    for (const Thread& thread : configuration.threads) {
      const auto& position = grammar.positions[static_cast<size_t>(thread.position)];
      if (position.kind != CompiledGrammar::Kind::kToken) continue;
      // The limit also holds for the state after the token.
      Configuration next;
      parser.advance_token(configuration, position.id, next);
      if (parser.too_ambiguous()) return too_ambiguous(grammar.max_items);
      set_bit(mask, position.id);
    }
    if (walk.visited() >= kMinVisitedToCache) {
      auto value = std::make_shared<const Mask>(mask.begin(), mask.end());
      constraint_->masks.insert(key, std::move(value), mask.size_bytes() + 128);
    }
    return {};
  }

  // Fills `result` and returns true if the token is possible.
  bool advance(Parser& parser, TokenId token, Configuration& result) const {
    const CompiledGrammar& grammar = constraint_->grammar;
    if (std::ranges::binary_search(grammar.tokens, token)) {
      parser.advance_token(node_->configuration, token, result);
      return !result.empty() && !parser.too_ambiguous();
    }
    const std::string_view bytes = constraint_->tokens->bytes(token);
    if (bytes.empty()) return false;
    Configuration other;
    const Configuration* current = &node_->configuration;
    for (const char byte : bytes) {
      parser.advance(*current, static_cast<uint8_t>(byte), other);
      if (other.empty() || parser.too_ambiguous()) return false;
      std::swap(other, result);
      current = &result;
    }
    return true;
  }

  // The byte that all threads have next; -1 if there is a choice.
  int only_byte(const Configuration& configuration) const {
    const CompiledGrammar& grammar = constraint_->grammar;
    int result = -1;
    for (const Thread& thread : configuration.threads) {
      if (grammar.positions[static_cast<size_t>(thread.position)].kind != CompiledGrammar::Kind::kLexeme)
        return -1;
      const Automaton& automaton = grammar.lexeme(thread.position);
      int byte = automaton.only_byte(thread.state);
      if (thread.state == automaton.counter().loop) byte = only_byte_at_loop(automaton, thread);
      if (byte < 0 || byte == Automaton::kSeveral || (result >= 0 && byte != result)) return -1;
      result = byte;
    }
    return result;
  }

  // Here the count decides what follows.
  static int only_byte_at_loop(const Automaton& automaton, const Thread& thread) {
    int result = -1;
    for (int byte = 0; byte < 256; ++byte) {
      uint32_t count = thread.count;
      if (automaton.advance(thread.state, static_cast<uint8_t>(byte), &count) == Automaton::kDead) continue;
      if (result >= 0) return Automaton::kSeveral;
      result = byte;
    }
    return result;
  }

  std::shared_ptr<const Constraint> constraint_;
  std::shared_ptr<const ParseNode> node_;
};

class GrammarConstraint final : public OutputConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const Constraint> constraint, std::vector<std::string> ignored)
      : constraint_(std::move(constraint)) {
    ignored_ = std::move(ignored);
  }

  std::unique_ptr<ConstraintState> start() const override {
    auto node = std::make_shared<ParseNode>();
    node->configuration = constraint_->start;
    node->owners = constraint_->start_owners;
    return std::make_unique<GrammarState>(constraint_, std::move(node));
  }
  size_t memory() const override {
    return sizeof(Constraint) + constraint_->grammar.memory() + constraint_->masks.memory();
  }

 private:
  std::shared_ptr<const Constraint> constraint_;
};

}  // namespace

Result<std::shared_ptr<const OutputConstraint>> compile(const Grammar& grammar,
                                                        std::shared_ptr<const TokenTable> tokens,
                                                        const Limits& limits) {
  Result<CompiledGrammar> compiled = compile_grammar(grammar, *tokens, limits);
  if (!compiled.ok()) return compiled.failure();
  // Masks get what the automata leave, and at least enough for a few of them.
  const size_t used = compiled->memory();
  const size_t left = limits.memory_bytes > used ? limits.memory_bytes - used : 0;
  const auto constraint = std::shared_ptr<Constraint>(
      new Constraint{std::move(*compiled), std::move(tokens), {}, {}, ContentCache<Mask>(left)});
  Parser parser(constraint->grammar);
  constraint->start = parser.start();
  if (parser.too_ambiguous()) return too_ambiguous(limits.items);
  constraint->start_owners = owners_of(constraint->start);
  prepare_lexeme_masks(constraint->grammar, *constraint->tokens);
  return std::shared_ptr<const OutputConstraint>(
      std::make_shared<GrammarConstraint>(constraint, grammar.ignored));
}

}  // namespace quire::grammar
