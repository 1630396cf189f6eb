// Limits on the cost of a constraint, so that no specification can occupy the server. A specification beyond
// a limit is refused with the part of it that grew.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grammar/progress.h"

namespace quire::grammar {

struct Limits {
  size_t specification_bytes = size_t{1} << 20;
  int nesting = 100;
  size_t rules_and_lexemes = 100'000;
  size_t states_of_lexeme = 50'000;  // states of its automaton
  size_t states = 500'000;           // states of all automata of a constraint
  // A bounded repetition that would take about this many states is counted instead, if its ends are certain.
  size_t unrolled_states = 300;
  size_t memory_bytes = size_t{64} << 20;
  size_t items = 1'000;  // parser items in one state
  // Steps of compiling, which stand for time and do not depend on the machine: states, transitions and
  // expressions that are looked at. 2 s or less on a processor of today.
  size_t steps = 20'000'000;
  // Called several times per millisecond of compiling; null = never.
  ProgressCallback on_progress = nullptr;
};

}  // namespace quire::grammar
