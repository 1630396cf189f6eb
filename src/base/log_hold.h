// Holds back log lines while other output is written to the same terminal.
#pragma once

#include <cstddef>

namespace quire {

inline constexpr size_t kMaxHeldLogLines = 200;

// While one of these lives, log lines of all threads wait. They are written in their order by release() and
// at the end. Of more than kMaxHeldLogLines, the later ones are dropped and counted. May be used by any
// thread.
class LogHold {
 public:
  LogHold() noexcept;
  ~LogHold();
  LogHold(const LogHold&) = delete;
  LogHold& operator=(const LogHold&) = delete;

  // Writes the lines that wait; later ones wait again.
  void release() noexcept;
};

}  // namespace quire
