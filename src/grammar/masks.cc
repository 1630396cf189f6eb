#include "grammar/masks.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace quire::grammar {
namespace {

constexpr uint32_t kUncounted = UINT32_MAX;
// States that allow at least that many bytes take long to walk; their results are shared. Bytes within
// characters do not count: few tokens begin with them.
constexpr int kManyBytes = 24;
// From this number of places on where a lexeme can end, those are looked up by the byte that follows.
constexpr size_t kManyExits = 4096;

bool allows_many_bytes(const Automaton& automaton, int32_t state) {
  int count = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte >= 0x80 && byte < 0xC0) continue;
    count += automaton.next(state, static_cast<uint8_t>(byte)) != Automaton::kDead ? 1 : 0;
  }
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

// Walks over the tokens from one state of an automaton.
class LexemeMaskBuilder {
 public:
  LexemeMaskBuilder(const Automaton& automaton, int32_t start, const TokenTable& tokens)
      : automaton_(automaton),
        tokens_(tokens),
        start_in_tail_(automaton.after_loop(start)),
        path_(tokens.longest() + 1) {
    path_[0] = {start, 0};
  }

  std::shared_ptr<const LexemeMask> run() {
    const size_t levels = automaton_.counts() && !start_in_tail_ ? LexemeMask::kMaxLevel + 1 : 1;
    result_->levels.assign(levels, Mask((tokens_.vocab_size() + 31) / 32));
    walk(0, tokens_.nodes().size());
    for (size_t i = 1; i < levels; ++i) add_mask(result_->levels[i], result_->levels[i - 1]);
    return result_;
  }

  // The same for a state that differs from the one of `base` after some first bytes only. Nothing is counted.
  std::shared_ptr<const LexemeMask> run_from(const LexemeMask& base, const std::bitset<256>& differing,
                                             size_t* visited) {
    result_->levels = base.levels;
    const auto nodes = tokens_.nodes();
    size_t next_exit = 0;
    for (size_t top = 0; top < nodes.size(); top = static_cast<size_t>(nodes[top].end)) {
      const auto end = static_cast<size_t>(nodes[top].end);
      const bool differs = differing.test(nodes[top].byte);
      for (; next_exit < base.exits.size() && static_cast<size_t>(base.exits[next_exit].node) < end;
           ++next_exit) {
        if (!differs) result_->exits.push_back(base.exits[next_exit]);
      }
      if (!differs) continue;
      *visited += end - top;
      for (size_t i = top; i < end; ++i) {
        for (TokenId token = nodes[i].token; token >= 0; token = tokens_.next_same(token))
          clear_bit(result_->levels[0], token);
      }
      walk(top, end);
    }
    return result_;
  }

 private:
  void walk(size_t begin, size_t end) {
    const auto nodes = tokens_.nodes();
    const int32_t loop = automaton_.counter().loop;
    for (size_t i = begin; i < end;) {
      const TokenTable::Node& node = nodes[i];
      const auto [before, begun] = path_[node.depth - size_t{1}];
      const int32_t state = automaton_.next(before, node.byte);
      if (state == Automaton::kDead) {
        i = static_cast<size_t>(node.end);
        continue;
      }
      const bool begins = loop >= 0 && before == loop && !automaton_.after_loop(state);
      const uint32_t repetitions = begun + (begins ? 1 : 0);
      path_[node.depth] = {state, repetitions};
      for (TokenId token = node.token; token >= 0; token = tokens_.next_same(token))
        add(token, repetitions, automaton_.after_loop(state) && !start_in_tail_);
      if (automaton_.accepting(state) && i + 1 < static_cast<size_t>(node.end))
        result_->exits.push_back({static_cast<int32_t>(i), repetitions});
      ++i;
    }
  }

  void add(TokenId token, uint32_t repetitions, bool in_tail) {
    if (in_tail) return result_->tail_tokens.push_back({token, repetitions});
    const uint32_t level = std::min<uint32_t>(repetitions, static_cast<uint32_t>(result_->levels.size()) - 1);
    set_bit(result_->levels[level], token);
    if (repetitions >= LexemeMask::kMaxLevel) result_->long_tokens.push_back({token, repetitions});
  }

  const Automaton& automaton_;
  const TokenTable& tokens_;
  bool start_in_tail_;
  std::vector<std::pair<int32_t, uint32_t>> path_;  // [depth] state, repetitions
  std::shared_ptr<LexemeMask> result_ = std::make_shared<LexemeMask>();
};

// The same for states of different automata that accept the same strings in the same way, if few states
// follow: the inside of a JSON string is the same in most lexemes that have one.
ContentHash key_of_state(const Automaton& automaton, int32_t start) {
  constexpr size_t kMaxStates = 64;
  std::vector<int32_t> states = {start};
  ContentHash key;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states.size() > kMaxStates) {
      key = automaton.hash();
      key.add(static_cast<uint32_t>(start));
      return key;
    }
    const int32_t state = states[i];
    key.add((automaton.accepting(state) ? 1u : 0u) | (automaton.repeating(state) ? 2u : 0u) |
            (automaton.after_loop(state) ? 4u : 0u) | (automaton.counter().loop == state ? 8u : 0u));
    int32_t last = Automaton::kDead;
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t next = automaton.next(state, static_cast<uint8_t>(byte));
      if (next == last) continue;
      last = next;
      size_t index = kMaxStates * 4;
      if (next != Automaton::kDead) {
        index = static_cast<size_t>(std::ranges::find(states, next) - states.begin());
        if (index == states.size()) states.push_back(next);
      }
      key.add((static_cast<uint64_t>(byte) << 32) | index);
    }
    key.add(uint64_t{1} << 40);
  }
  return key;
}

// The state to which most bytes lead.
int32_t common_successor(const Automaton& automaton, int32_t state) {
  int32_t candidate = Automaton::kDead;
  int votes = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t next = automaton.next(state, static_cast<uint8_t>(byte));
    if (next == Automaton::kDead) continue;
    if (votes == 0) candidate = next;
    votes += next == candidate ? 1 : -1;
  }
  return candidate;
}

std::shared_ptr<const LexemeMask> lexeme_mask(const Automaton& automaton, int32_t state,
                                              const TokenTable& tokens, size_t* visited) {
  const ContentHash key = key_of_state(automaton, state);
  if (auto known = tokens.lexeme_masks().find(key)) return known;
  std::shared_ptr<const LexemeMask> result;
  // In a string that must not be one of some keys, the start of a key differs from other text only in the
  // bytes that continue the key.
  const int32_t common = common_successor(automaton, state);
  if (!automaton.counts() && common != state && common_successor(automaton, common) == common) {
    constexpr size_t kMaxDiffering = 48;
    std::bitset<256> differing;
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<uint8_t>(byte);
      if (automaton.next(state, b) != automaton.next(common, b)) differing.set(byte);
    }
    if (differing.count() <= kMaxDiffering) {
      const auto base = lexeme_mask(automaton, common, tokens, visited);
      result = LexemeMaskBuilder(automaton, state, tokens).run_from(*base, differing, visited);
    }
  }
  if (result == nullptr) {
    result = LexemeMaskBuilder(automaton, state, tokens).run();
    *visited += tokens.nodes().size();
  }
  tokens.lexeme_masks().insert(key, result, result->memory());
  return result;
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
  uint32_t min = 0, max = kUncounted;
  if (automaton.counts() && !automaton.after_loop(thread.state)) {
    const Automaton::Counter& counter = automaton.counter();
    const uint32_t count = thread.count + (automaton.repeating(thread.state) ? 1 : 0);
    if (counter.max != RegularNode::kUnlimited) max = counter.max - count;
    min = counter.min > count ? counter.min - count : 0;
  }
  if (lexeme->levels.size() == 1 || max == kUncounted) {
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

void prepare_lexeme_masks(const CompiledGrammar& grammar, const TokenTable& tokens) {
  constexpr size_t kMaxWalks = 4, kMaxStates = 64;
  size_t visited = 0;
  for (const Automaton& automaton : grammar.lexemes) {
    const auto states = static_cast<int32_t>(std::min(automaton.num_states(), kMaxStates));
    for (int32_t state = 0; state < states; ++state) {
      if (visited >= kMaxWalks * tokens.nodes().size()) return;
      if (automaton.only_byte(state) == Automaton::kSeveral && allows_many_bytes(automaton, state))
        lexeme_mask(automaton, state, tokens, &visited);
    }
  }
}

}  // namespace quire::grammar
