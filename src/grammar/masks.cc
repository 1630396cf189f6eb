#include "grammar/masks.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace quire::grammar {
namespace {

constexpr uint32_t kNoLimit = UINT32_MAX;
// States that allow at least that many bytes take long to walk; their results are shared. The second and
// later bytes of characters are 64.
constexpr int kManyBytes = 80;
// From this number of places on where a lexeme can end, those are looked up by the byte that follows.
constexpr size_t kManyExits = 4096;

bool allows_many_bytes(const Automaton& automaton, int32_t state) {
  int count = 0;
  for (int byte = 0; byte < 256; ++byte)
    count += automaton.next(state, static_cast<uint8_t>(byte)) != Automaton::kDead ? 1 : 0;
  return count >= kManyBytes;
}

std::bitset<256> next_bytes(const CompiledGrammar& grammar, const Configuration& configuration) {
  std::bitset<256> result;
  for (const Thread& thread : configuration.threads) {
    const auto& position = grammar.positions[static_cast<size_t>(thread.position)];
    if (position.kind != CompiledGrammar::Kind::kLexeme) continue;
    const Automaton& automaton = grammar.lexeme(thread.position);
    for (size_t byte = 0; byte < 256; ++byte) {
      if (automaton.next(thread.state, static_cast<uint8_t>(byte)) != Automaton::kDead) result.set(byte);
    }
  }
  return result;
}

void add_mask(std::span<uint32_t> mask, const Mask& other) {
  for (size_t i = 0; i < other.size(); ++i) mask[i] |= other[i];
}

// Walks over all tokens from one state of an automaton.
class LexemeMaskBuilder {
 public:
  LexemeMaskBuilder(const Automaton& automaton, const TokenTable& tokens)
      : automaton_(automaton), tokens_(tokens) {}

  std::shared_ptr<const LexemeMask> run(int32_t start) {
    const size_t words = (tokens_.vocab_size() + 31) / 32;
    const size_t levels =
        automaton_.counts() && !automaton_.after_loop(start) ? LexemeMask::kMaxLevel + 1 : 1;
    result_->levels.assign(levels, Mask(words));
    std::vector<std::pair<int32_t, uint32_t>> path(tokens_.longest() + 1);  // [depth] state, repetitions
    path[0] = {start, 0};
    const auto nodes = tokens_.nodes();
    const int32_t loop = automaton_.counter().loop;
    for (size_t i = 0; i < nodes.size();) {
      const TokenTable::Node& node = nodes[i];
      const auto [before, begun] = path[node.depth - size_t{1}];
      const int32_t state = automaton_.next(before, node.byte);
      if (state == Automaton::kDead) {
        i = static_cast<size_t>(node.end);
        continue;
      }
      const bool begins = loop >= 0 && before == loop && !automaton_.after_loop(state);
      const uint32_t repetitions = begun + (begins ? 1 : 0);
      path[node.depth] = {state, repetitions};
      for (TokenId token = node.token; token >= 0; token = tokens_.next_same(token))
        add(token, repetitions, automaton_.after_loop(state) && !automaton_.after_loop(start));
      if (automaton_.accepting(state) && i + 1 < static_cast<size_t>(node.end))
        result_->exits.push_back({static_cast<int32_t>(i), repetitions});
      ++i;
    }
    for (size_t i = 1; i < levels; ++i) add_mask(result_->levels[i], result_->levels[i - 1]);
    return result_;
  }

 private:
  void add(TokenId token, uint32_t repetitions, bool in_tail) {
    if (in_tail) return result_->tail_tokens.push_back({token, repetitions});
    const uint32_t level = std::min<uint32_t>(repetitions, static_cast<uint32_t>(result_->levels.size()) - 1);
    set_bit(result_->levels[level], token);
    if (repetitions >= LexemeMask::kMaxLevel) result_->long_tokens.push_back({token, repetitions});
  }

  const Automaton& automaton_;
  const TokenTable& tokens_;
  std::shared_ptr<LexemeMask> result_ = std::make_shared<LexemeMask>();
};

std::shared_ptr<const LexemeMask> lexeme_mask(const Automaton& automaton, int32_t state,
                                              const TokenTable& tokens, size_t* visited) {
  ContentHash key = automaton.hash();
  key.add(static_cast<uint32_t>(state));
  if (auto known = tokens.lexeme_masks().find(key)) return known;
  auto built = LexemeMaskBuilder(automaton, tokens).run(state);
  *visited += tokens.nodes().size();
  tokens.lexeme_masks().insert(key, built, built->memory());
  return built;
}

}  // namespace

void MaskWalk::allow(const TokenTable::Node& node) {
  for (TokenId token = node.token; token >= 0; token = tokens_.next_same(token)) set_bit(mask_, token);
}

Configuration& MaskWalk::level(size_t depth) {
  while (levels_.size() <= depth) levels_.push_back(std::make_unique<Configuration>());
  return *levels_[depth];
}

void MaskWalk::run(const Configuration& configuration) {
  states_.resize(tokens_.longest() + 1);
  // A token is possible if any thread can read it, so each thread that allows many tokens is looked up for
  // itself.
  Configuration rest;
  for (const Thread& thread : configuration.threads) {
    const auto& position = parser_.grammar().positions[static_cast<size_t>(thread.position)];
    if (position.kind != CompiledGrammar::Kind::kLexeme) continue;
    if (allows_many_bytes(parser_.grammar().lexeme(thread.position), thread.state)) {
      add_lexeme(thread);
    } else {
      rest.threads.push_back(thread);
    }
  }
  walk(rest, 0, tokens_.nodes().size());
}

void MaskWalk::add_lexeme(const Thread& thread) {
  const Automaton& automaton = parser_.grammar().lexeme(thread.position);
  const auto lexeme = lexeme_mask(automaton, thread.state, tokens_, &visited_);
  visited_ += mask_.size();
  // How many repetitions may, and how many have to begin within a token.
  uint32_t min = 0, max = kNoLimit;
  if (automaton.counts() && !automaton.after_loop(thread.state)) {
    const Automaton::Counter& counter = automaton.counter();
    const uint32_t count = thread.count + (automaton.repeating(thread.state) ? 1 : 0);
    if (counter.max != RegularNode::kUnlimited) max = counter.max - count;
    min = counter.min > count ? counter.min - count : 0;
  }
  if (lexeme->levels.size() == 1 || max == kNoLimit) {
    add_mask(mask_, lexeme->levels.back());
  } else if (max < LexemeMask::kMaxLevel) {
    add_mask(mask_, lexeme->levels[max]);
  } else {
    Mask mask = lexeme->levels.back();
    for (const LexemeMask::Counted& counted : lexeme->long_tokens) {
      if (counted.repetitions > max) clear_bit(mask, counted.token);
    }
    add_mask(mask_, mask);
  }
  for (const LexemeMask::Counted& counted : lexeme->tail_tokens) {
    if (counted.repetitions >= min && counted.repetitions <= max) set_bit(mask_, counted.token);
  }
  const Configuration* after = lexeme->exits.empty() ? nullptr : parser_.after(thread);
  if (after == nullptr || after->threads.empty()) return;
  if (lexeme->exits.size() < kManyExits) {
    add_exits(*lexeme, *after, min, max);
  } else {
    add_many_exits(*lexeme, *after, min, max);
  }
}

void MaskWalk::add_exits(const LexemeMask& lexeme, const Configuration& after, uint32_t min, uint32_t max) {
  const auto nodes = tokens_.nodes();
  for (const LexemeMask::Exit& exit : lexeme.exits) {
    ++visited_;
    if (exit.repetitions < min || exit.repetitions > max) continue;
    const auto node = static_cast<size_t>(exit.node);
    walk(after, node + 1, static_cast<size_t>(nodes[node].end));
  }
}

// Instead of all nodes after which the lexeme can end: those with a byte that can follow it.
void MaskWalk::add_many_exits(const LexemeMask& lexeme, const Configuration& after, uint32_t min,
                              uint32_t max) {
  const auto nodes = tokens_.nodes();
  const auto bytes = next_bytes(parser_.grammar(), after);
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!bytes.test(byte)) continue;
    Configuration next;
    parser_.advance(after, static_cast<uint8_t>(byte), next);
    if (next.empty()) continue;
    for (const int32_t index : tokens_.nodes_with(static_cast<uint8_t>(byte))) {
      ++visited_;
      const int32_t parent = tokens_.parent(index);
      const auto exit = std::lower_bound(
          lexeme.exits.begin(), lexeme.exits.end(), parent,
          [](const LexemeMask::Exit& candidate, int32_t node) { return candidate.node < node; });
      if (exit == lexeme.exits.end() || exit->node != parent) continue;
      if (exit->repetitions < min || exit->repetitions > max) continue;
      const TokenTable::Node& node = nodes[static_cast<size_t>(index)];
      allow(node);
      walk(next, static_cast<size_t>(index) + 1, static_cast<size_t>(node.end));
    }
  }
}

// The nodes of a subtree without its root: `configuration` is the state at the root.
void MaskWalk::walk(const Configuration& configuration, size_t begin, size_t end) {
  if (begin == end || parser_.too_ambiguous()) return;
  const auto& threads = configuration.threads;
  if (threads.empty()) return;
  const auto kind = parser_.grammar().positions[static_cast<size_t>(threads[0].position)].kind;
  if (threads.size() == 1 && kind == CompiledGrammar::Kind::kLexeme) {
    walk_thread(threads[0], begin, end);
  } else {
    walk_threads(configuration, begin, end);
  }
}

void MaskWalk::walk_threads(const Configuration& configuration, size_t begin, size_t end) {
  const auto nodes = tokens_.nodes();
  for (size_t i = begin; i < end && !parser_.too_ambiguous(); i = static_cast<size_t>(nodes[i].end)) {
    const TokenTable::Node& node = nodes[i];
    ++visited_;
    Configuration& next = level(node.depth);
    parser_.advance(configuration, node.byte, next);
    if (next.empty()) continue;
    allow(node);
    walk(next, i + 1, static_cast<size_t>(node.end));
  }
}

// A single thread needs only its automaton, until the lexeme can end.
void MaskWalk::walk_thread(Thread thread, size_t begin, size_t end) {
  const auto nodes = tokens_.nodes();
  const Automaton& automaton = parser_.grammar().lexeme(thread.position);
  states_[nodes[begin].depth - size_t{1}] = {thread.state, thread.count};
  for (size_t i = begin; i < end;) {
    const TokenTable::Node& node = nodes[i];
    ++visited_;
    auto [state, count] = states_[node.depth - size_t{1}];
    const Thread before{thread.position, state, count, thread.then};
    state = automaton.advance(state, node.byte, &count);
    if (state == Automaton::kDead) {
      i = static_cast<size_t>(node.end);
      continue;
    }
    allow(node);
    ++i;
    if (!automaton.accepts(state, count)) {
      states_[node.depth] = {state, count};
      continue;
    }
    if (i < static_cast<size_t>(node.end)) {
      Configuration& next = level(node.depth);
      single_.threads.assign(1, before);
      parser_.advance(single_, node.byte, next);
      if (parser_.too_ambiguous()) return;
      walk(next, i, static_cast<size_t>(node.end));
    }
    i = static_cast<size_t>(node.end);
  }
}

}  // namespace quire::grammar
