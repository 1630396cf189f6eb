// The parser of constrained output: which bytes can follow, for a grammar whose lexemes are automata. It
// reads one byte at a time and keeps every possibility: a thread is a place within a lexeme of a rule, and a
// configuration is the set of threads. Where a rule begins, a return point describes what follows it; equal
// return points are shared, so left recursion, right recursion and ambiguity take no extra work per byte.
// Closures and return points are immutable and shared by all sequences and threads of the process that
// reach them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "contract/ids.h"
#include "grammar/automaton.h"

namespace quire::grammar {

// A grammar without parts that derive nothing. Immutable.
struct CompiledGrammar {
  enum class Kind : uint8_t { kEnd, kLexeme, kRule, kToken };
  // The symbols of all alternatives one after another, each alternative followed by kEnd.
  struct Position {
    Kind kind = Kind::kEnd;
    bool nullable = false;  // the symbol can be the empty text
    int32_t id = 0;         // id of the lexeme, rule or token
  };
  struct RuleStart {
    bool nullable = false;
    // Where text of the rule can begin: the first symbols of its alternatives, and those after parts that can
    // be empty.
    std::vector<int32_t> positions;
  };

  std::vector<Automaton> lexemes;
  std::vector<Position> positions;
  std::vector<RuleStart> rules;
  std::vector<TokenId> tokens;  // special tokens of kToken, sorted
  int32_t start = 0;            // position of the start rule
  size_t max_items = 0;

  const Automaton& lexeme(int32_t position) const {
    return lexemes[static_cast<size_t>(positions[static_cast<size_t>(position)].id)];
  }
  size_t memory() const;
};

class Closure;
struct ReturnPoint;

// The place where parsing continues after a symbol.
struct Frame {
  int32_t position = 0;
  const ReturnPoint* then = nullptr;  // after the alternative of `position`
};

// The text that follows a rule that began at one place.
struct ReturnPoint {
  ContentHash hash;
  const Closure* owner = nullptr;  // null = the output ends
  std::vector<Frame> frames;
};

// A place within a lexeme, or before a special token.
struct Thread {
  int32_t position = 0;
  int32_t state = 0;   // state of the automaton; unused for a token
  uint32_t count = 0;  // finished repetitions, if the automaton counts
  const ReturnPoint* then = nullptr;
};

// Threads are sorted and differ. Return points are kept alive by closures that the owner of the configuration
// holds.
struct Configuration {
  std::vector<Thread> threads;
  bool complete = false;  // the output may end here
  bool empty() const { return threads.empty() && !complete; }
};

// Everything that can begin at one place, after the symbols that end there.
class Closure : public std::enable_shared_from_this<Closure> {
 public:
  Closure() = default;
  ~Closure();
  Closure(const Closure&) = delete;
  Closure& operator=(const Closure&) = delete;

  Configuration starts;
  std::vector<ReturnPoint> returns;
  std::vector<std::shared_ptr<const Closure>> parents;  // owners of the return points that this one uses
};

// Destroys long chains of shared objects without recursion: objects that are released while another one is
// destroyed are destroyed after it.
void release_later(std::shared_ptr<const void> object);

// Advances configurations. Remembers closures until it is destroyed, and so keeps the return points of its
// results alive. Used by one thread.
class Parser {
 public:
  explicit Parser(const CompiledGrammar& grammar) : grammar_(&grammar) {}

  const CompiledGrammar& grammar() const { return *grammar_; }
  // Whether there were more items than the limit. Results are incomplete then.
  bool too_ambiguous() const { return too_ambiguous_; }

  Configuration start();
  // The configuration after the lexeme of a thread. Valid as long as the parser; null if it is too ambiguous.
  const Configuration* after(const Thread& thread);
  // Sets `to` to the configuration after a byte; empty if the byte is not possible.
  void advance(const Configuration& from, uint8_t byte, Configuration& to);
  // Same, for a special token.
  void advance_token(const Configuration& from, TokenId token, Configuration& to);

 private:
  void finish(Configuration& to);
  const Closure* closure_of_kernel();
  std::shared_ptr<const Closure> build(const std::vector<Frame>& items);

  const CompiledGrammar* grammar_;
  bool too_ambiguous_ = false;
  std::vector<Frame> kernel_;  // items that a byte has completed
  std::unordered_map<ContentHash, std::shared_ptr<const Closure>, HashOfContentHash> closures_;
  Frame last_;  // the last kernel of one item, and its closure
  const Closure* last_closure_ = nullptr;
};

// Equal if and only if the same outputs follow in the same way. Counts above `distance` repetitions from
// their limits are the same: they allow the same strings up to that many bytes.
ContentHash hash_of(const CompiledGrammar& grammar, const Configuration& configuration, uint32_t distance);
// The closures that own the return points of a configuration.
std::vector<std::shared_ptr<const Closure>> owners_of(const Configuration& configuration);

}  // namespace quire::grammar
