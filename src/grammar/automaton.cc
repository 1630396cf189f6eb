#include "grammar/automaton.h"

#include <algorithm>
#include <utility>

namespace quire::grammar {
namespace {

constexpr int32_t kDeadState = Automaton::kDead;

Failure automaton_failure(const Expressions& expressions, const Budget& budget, size_t states) {
  const Limits& limits = budget.limits();
  if (states > limits.states_of_lexeme)
    return invalid_argument("A part of the grammar needs more than " +
                            std::to_string(limits.states_of_lexeme) + " states; simplify it.");
  if (!budget.has_memory())
    return invalid_argument("The grammar needs more than " + std::to_string(limits.memory_bytes >> 20) +
                            " MiB of memory; simplify it.");
  if (!budget.has_steps())
    return invalid_argument("The grammar takes more than " + std::to_string(limits.steps) +
                            " steps to compile; simplify it.");
  if (expressions.failed()) return invalid_argument("The grammar is too large or nested too deep.");
  return invalid_argument("The grammar needs more than " + std::to_string(limits.states) +
                          " states; simplify it.");
}

// A table of transitions by derivatives, before it is trimmed.
struct StateTable {
  size_t num_classes = 1;
  std::vector<int32_t> next;       // [states, classes]
  std::vector<uint8_t> accepting;  // [states]
  size_t size() const { return accepting.size(); }
};

// Explores all derivatives, breadth first. Returns false if a limit is reached.
bool explore(Expressions& expressions, ExpressionId root, const ByteClasses& classes, Budget& budget,
             StateTable& table) {
  expressions.use_classes(classes);
  table.num_classes = classes.size();
  IdMap ids;
  std::vector<ExpressionId> states;
  const auto state_of = [&](ExpressionId id) {
    bool found = false;
    int32_t& state = ids.at(static_cast<uint64_t>(id), &found);
    if (!found) {
      state = static_cast<int32_t>(states.size());
      states.push_back(id);
    }
    return state;
  };
  if (root != Expressions::kNothing) state_of(root);
  for (size_t i = 0; i < states.size(); ++i) {
    const bool fits = budget.spend_state() && states.size() <= budget.limits().states_of_lexeme &&
                      budget.spend_memory(classes.size() * sizeof(int32_t)) &&
                      budget.spend_steps(classes.size());
    if (!fits || expressions.failed()) {
      table.accepting.resize(states.size());
      return false;
    }
    table.accepting.push_back(expressions.nullable(states[i]) ? 1 : 0);
    for (size_t c = 0; c < classes.size(); ++c) {
      const ExpressionId next = expressions.derivative(states[i], static_cast<uint8_t>(c));
      table.next.push_back(next == Expressions::kNothing ? kDeadState : state_of(next));
    }
  }
  return !expressions.failed();
}

// Removes the states from which no accepting state is reached. State 0 stays the start, unless the language
// is empty: then nothing is left.
void trim(StateTable& table) {
  const size_t classes = table.num_classes;
  std::vector<uint32_t> begin(table.size() + 1);
  for (const int32_t next : table.next) {
    if (next != kDeadState) ++begin[static_cast<size_t>(next)];
  }
  uint32_t sum = 0;
  for (uint32_t& count : begin) sum = (count += sum);
  std::vector<int32_t> sources(sum);
  for (size_t i = 0; i < table.next.size(); ++i) {
    if (table.next[i] != kDeadState)
      sources[--begin[static_cast<size_t>(table.next[i])]] = static_cast<int32_t>(i / classes);
  }
  std::vector<uint8_t> live = table.accepting;
  std::vector<int32_t> pending;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i] != 0) pending.push_back(static_cast<int32_t>(i));
  }
  while (!pending.empty()) {
    const auto state = static_cast<size_t>(pending.back());
    pending.pop_back();
    for (uint32_t i = begin[state]; i < begin[state + 1]; ++i) {
      if (std::exchange(live[static_cast<size_t>(sources[i])], 1) == 0) pending.push_back(sources[i]);
    }
  }
  std::vector<int32_t> renamed(table.size(), kDeadState);
  int32_t count = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i] != 0) renamed[i] = count++;
  }
  StateTable trimmed{.num_classes = classes, .next = {}, .accepting = {}};
  for (size_t i = 0; i < live.size() && live[0] != 0; ++i) {
    if (live[i] == 0) continue;
    trimmed.accepting.push_back(table.accepting[i]);
    for (size_t c = 0; c < classes; ++c) {
      const int32_t next = table.next[i * classes + c];
      trimmed.next.push_back(next == kDeadState ? kDeadState : renamed[static_cast<size_t>(next)]);
    }
  }
  table = std::move(trimmed);
}

// Whether an accepted string is the start of another one.
bool is_prefix_free(const StateTable& table) {
  for (size_t i = 0; i < table.next.size(); ++i) {
    if (table.next[i] != kDeadState && table.accepting[i / table.num_classes] != 0) return false;
  }
  return true;
}

bool enters_start(const StateTable& table) {
  return std::ranges::find(table.next, 0) != table.next.end();
}

// Whether a byte can start strings of both.
bool share_first_byte(const StateTable& a, const StateTable& b) {
  for (size_t c = 0; c < a.num_classes; ++c) {
    if (a.next[c] != kDeadState && b.next[c] != kDeadState) return true;
  }
  return false;
}

}  // namespace

void ContentHash::add(uint64_t value) {
  low = (low ^ value) * 0x9E3779B97F4A7C15u;
  low ^= low >> 32;
  low *= 0xD6E8FEB86659FD93u;
  low ^= low >> 29;
  high = (high + value + 0x632BE59BD9B4E019u) * 0xC2B2AE3D27D4EB4Fu;
  high ^= high >> 31;
  high *= 0x165667B19E3779F9u;
  high ^= high >> 33;
}

class AutomatonBuilder {
 public:
  static Automaton from(const StateTable& table, const ByteClasses& classes) {
    Automaton result;
    result.start_ = table.size() > 0 ? 0 : kDeadState;
    result.num_classes_ = table.num_classes;
    result.class_of_ = classes.of;
    result.table_ = table.next;
    for (const uint8_t accepting : table.accepting)
      result.flags_.push_back(accepting != 0 ? Automaton::kAccepting : 0);
    complete(result);
    return result;
  }

  // head, loop and tail have the same classes. The loop is the start of `part` and of `tail`; the ends of
  // `head` and of `part` become the loop.
  static Automaton join(const StateTable& head, const StateTable& part, const StateTable& tail,
                        const ByteClasses& classes, Automaton::Counter counter) {
    Automaton result;
    result.num_classes_ = classes.size();
    result.class_of_ = classes.of;
    counter.loop = 0;
    result.counter_ = counter;
    const bool tail_is_empty = tail.accepting[0] != 0;
    result.flags_.push_back(tail_is_empty ? Automaton::kAccepting : 0);
    result.table_.assign(classes.size(), kDeadState);
    add(head, result, true, 0);
    const int32_t first = result.flags_.size() > 1 ? 1 : 0;
    add(part, result, true, Automaton::kRepeating);
    add(tail, result, false, Automaton::kAfterLoop);
    result.start_ = head.accepting[0] != 0 ? 0 : first;
    complete(result);
    return result;
  }

 private:
  // Appends the states of a table. The start is merged with the loop unless it is the head's.
  static void add(const StateTable& table, Automaton& result, bool ends_at_loop, uint8_t flags) {
    const bool merges_start = flags != 0;
    std::vector<int32_t> renamed(table.size());
    auto count = static_cast<int32_t>(result.flags_.size());
    for (size_t i = 0; i < table.size(); ++i) {
      const bool is_loop = (merges_start && i == 0) || (ends_at_loop && table.accepting[i] != 0);
      renamed[i] = is_loop ? 0 : count++;
    }
    for (size_t i = 0; i < table.size(); ++i) {
      const bool is_end = ends_at_loop && table.accepting[i] != 0;
      if (is_end && !(merges_start && i == 0)) continue;
      if (renamed[i] != 0) {
        result.flags_.push_back(flags | (table.accepting[i] != 0 ? Automaton::kAccepting : 0));
        result.table_.resize(result.flags_.size() * table.num_classes, kDeadState);
      }
      for (size_t c = 0; c < table.num_classes; ++c) {
        const int32_t next = table.next[i * table.num_classes + c];
        if (next == kDeadState) continue;
        result.table_[static_cast<size_t>(renamed[i]) * table.num_classes + c] =
            renamed[static_cast<size_t>(next)];
      }
    }
  }

  static void mark_only_bytes(Automaton& automaton) {
    constexpr int16_t kSeveral = Automaton::kSeveral;
    std::vector<int16_t> byte_of(automaton.num_classes_, -1);
    for (size_t byte = 0; byte < 256; ++byte) {
      int16_t& only = byte_of[automaton.class_of_[byte]];
      only = only == -1 ? static_cast<int16_t>(byte) : kSeveral;
    }
    automaton.only_bytes_.assign(automaton.flags_.size(), -1);
    for (size_t i = 0; i < automaton.table_.size(); ++i) {
      if (automaton.table_[i] == kDeadState) continue;
      int16_t& only = automaton.only_bytes_[i / automaton.num_classes_];
      only = only == -1 ? byte_of[i % automaton.num_classes_] : kSeveral;
    }
  }

  // The tables that follow from the transitions.
  static void complete(Automaton& automaton) {
    for (size_t i = 0; i < automaton.table_.size(); ++i) {
      if (automaton.table_[i] != kDeadState)
        automaton.flags_[i / automaton.num_classes_] |= Automaton::kExtendable;
      automaton.hash_.add(static_cast<uint32_t>(automaton.table_[i]));
    }
    mark_only_bytes(automaton);
    for (const uint8_t flags : automaton.flags_) automaton.hash_.add(flags);
    for (const uint8_t byte_class : automaton.class_of_) automaton.hash_.add(byte_class);
    automaton.hash_.add(static_cast<uint32_t>(automaton.counter_.loop));
  }
};

int32_t Automaton::advance(int32_t state, uint8_t byte, uint32_t* count) const {
  const int32_t target = next(state, byte);
  if (target == kDeadState || counter_.loop < 0) return target;
  if (state == counter_.loop) {
    // A part of one byte leads from the loop to the loop.
    const bool repeats = target == counter_.loop || repeating(target);
    if (repeats ? *count >= counter_.max : *count < counter_.min) return kDeadState;
  }
  if (target == counter_.loop && (state == counter_.loop || repeating(state))) {
    const bool saturated = counter_.max == RegularNode::kUnlimited && *count >= counter_.min;
    if (!saturated) ++*count;
  }
  return target;
}

bool Automaton::continues(int32_t state, uint32_t count) const {
  if (!extendable(state)) return false;
  if (state != counter_.loop) return true;
  if (count < counter_.max) return true;
  for (size_t c = 0; c < num_classes_; ++c) {
    const int32_t target = table_[static_cast<size_t>(state) * num_classes_ + c];
    if (target != kDeadState && after_loop(target)) return count >= counter_.min;
  }
  return false;
}

size_t Automaton::memory() const {
  return sizeof(*this) + table_.capacity() * sizeof(int32_t) + flags_.capacity() * 3;
}

namespace {

// A chain of states, which needs no derivatives: most lexemes of most grammars are fixed texts.
void make_chain(const std::string& text, StateTable& table, ByteClasses& classes) {
  classes.example = {0};
  std::array<bool, 256> used{};
  for (const char c : text) used[static_cast<uint8_t>(c)] = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!used[byte] || classes.size() == 256) continue;
    classes.of[byte] = static_cast<uint8_t>(classes.size());
    classes.example.push_back(static_cast<uint8_t>(byte));
  }
  table.num_classes = classes.size();
  table.accepting.assign(text.size() + 1, 0);
  table.accepting.back() = 1;
  table.next.assign(table.size() * classes.size(), kDeadState);
  for (size_t i = 0; i < text.size(); ++i)
    table.next[i * classes.size() + classes.of[static_cast<uint8_t>(text[i])]] = static_cast<int32_t>(i) + 1;
}

}  // namespace

Result<Automaton> build_automaton(Expressions& expressions, ExpressionId expression, Budget& budget) {
  constexpr size_t kMaxChain = 1'000;
  std::string text;
  if (expressions.is_fixed_text(expression, &text) && text.size() <= kMaxChain) {
    StateTable chain;
    ByteClasses chain_classes;
    make_chain(text, chain, chain_classes);
    bool fits = budget.spend_steps(50 + chain.next.size() / 4) &&
                budget.spend_memory(chain.next.size() * sizeof(int32_t)) &&
                chain.size() <= budget.limits().states_of_lexeme;
    for (size_t i = 0; i < chain.size(); ++i) fits = budget.spend_state() && fits;
    if (!fits) return automaton_failure(expressions, budget, chain.size());
    return AutomatonBuilder::from(chain, chain_classes);
  }
  const ByteClasses classes = expressions.classes(expression);
  StateTable table;
  if (!explore(expressions, expression, classes, budget, table))
    return automaton_failure(expressions, budget, table.size());
  trim(table);
  return AutomatonBuilder::from(table, classes);
}

Result<Automaton> build_counted_automaton(Expressions& expressions, const CountedExpression& counted,
                                          Budget& budget) {
  // Only the classes of this expression matter.
  const ExpressionId whole = expressions.concat(
      counted.head, expressions.concat(expressions.repeat(counted.part, 0, 2), counted.tail));
  const ByteClasses classes = expressions.classes(whole);
  StateTable head, part, tail;
  for (auto& [table, id] : {std::pair{&head, counted.head}, {&part, counted.part}, {&tail, counted.tail}}) {
    if (!explore(expressions, id, classes, budget, *table))
      return automaton_failure(expressions, budget, table->size());
    trim(*table);
    if (table->size() == 0) return Automaton();
  }
  const bool tail_is_empty = counted.tail == Expressions::kEmpty;
  const bool clear = is_prefix_free(head) && part.accepting[0] == 0 && is_prefix_free(part) &&
                     !enters_start(part) && !enters_start(tail) &&
                     (tail_is_empty || (tail.accepting[0] == 0 && !share_first_byte(part, tail)));
  if (!clear) return Automaton();
  return AutomatonBuilder::join(head, part, tail, classes,
                                {.loop = 0, .min = counted.min, .max = counted.max});
}

namespace {

// Looks for a string, breadth first, without building a table.
Result<bool> is_empty_expression(Expressions& expressions, ExpressionId root, Budget& budget) {
  const ByteClasses classes = expressions.classes(root);
  expressions.use_classes(classes);
  IdMap seen;
  std::vector<ExpressionId> states = {root};
  for (size_t i = 0; i < states.size(); ++i) {
    if (expressions.failed() || states.size() > budget.limits().states_of_lexeme)
      return automaton_failure(expressions, budget, states.size());
    if (expressions.node(states[i]).has_string) return false;
    for (size_t c = 0; c < classes.size(); ++c) {
      const ExpressionId next = expressions.derivative(states[i], static_cast<uint8_t>(c));
      if (next == Expressions::kNothing) continue;
      bool found = false;
      seen.at(static_cast<uint64_t>(next), &found);
      if (!found) states.push_back(next);
    }
  }
  if (expressions.failed()) return automaton_failure(expressions, budget, states.size());
  return true;
}

}  // namespace

Result<bool> is_empty(const Regular& regular, const Limits& limits) {
  Budget budget(limits);
  Expressions expressions(budget);
  return is_empty_expression(expressions, expressions.add(regular), budget);
}

Result<bool> have_common_string(const Regular& a, const Regular& b, const Limits& limits) {
  Result<bool> empty = is_empty(all_of({a, b}), limits);
  if (empty.ok()) return !*empty;
  return empty;
}

Result<bool> matches(const Regular& regular, std::string_view text, const Limits& limits) {
  Budget budget(limits);
  Expressions expressions(budget);
  ExpressionId state = expressions.add(regular);
  const ByteClasses classes = expressions.classes(state);
  expressions.use_classes(classes);
  for (const char c : text) {
    if (state == Expressions::kNothing) break;
    state = expressions.derivative(state, classes.of[static_cast<uint8_t>(c)]);
  }
  if (expressions.failed()) return automaton_failure(expressions, budget, 0);
  return expressions.nullable(state);
}

Result<std::optional<std::vector<std::string>>> enumerate(const Regular& regular, size_t max,
                                                          const Limits& limits) {
  using Strings = std::optional<std::vector<std::string>>;
  Budget budget(limits);
  Expressions expressions(budget);
  Result<Automaton> built = build_automaton(expressions, expressions.add(regular), budget);
  if (!built.ok()) return built.failure();
  const Automaton& automaton = *built;
  std::vector<std::string> strings;
  if (automaton.start() == kDeadState) return Strings(std::move(strings));
  // All strings of one length that can continue. The automaton is trimmed, so each of them starts a string
  // of the language, and a longer level than `max` means too many.
  std::vector<std::pair<std::string, int32_t>> level = {{"", automaton.start()}};
  while (!level.empty()) {
    std::vector<std::pair<std::string, int32_t>> next_level;
    for (const auto& [prefix, state] : level) {
      if (automaton.accepting(state)) strings.push_back(prefix);
      for (int byte = 0; byte < 256; ++byte) {
        const int32_t next = automaton.next(state, static_cast<uint8_t>(byte));
        if (next == kDeadState) continue;
        next_level.emplace_back(prefix + static_cast<char>(byte), next);
        if (next_level.size() > max) return Strings();
      }
    }
    // A string as long as there are states repeats one of them.
    const bool endless = !next_level.empty() && next_level[0].first.size() > automaton.num_states();
    if (strings.size() > max || endless) return Strings();
    level = std::move(next_level);
  }
  return Strings(std::move(strings));
}

}  // namespace quire::grammar
