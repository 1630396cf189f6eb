// The terminal while `quire top` draws to it.
#pragma once

#include <termios.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

// The first columns of a line that may contain styles ("\x1b[...m"). Styles end with the line.
std::string first_columns(std::string_view line, int columns);

// Takes over the terminal: alternate screen, no echo, and keys and signals as file descriptors. The
// destructor restores it. One per process; the main thread only.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws the lines that fit.
  void draw(const std::vector<std::string>& lines) const;

  enum class Event { kTime, kResize, kQuit };
  // Waits for a key, a signal, or until the monotonic time `end`.
  Event wait(double end) const;

 private:
  termios original_{};
  sigset_t signals_{};
  int signal_fd_ = -1;
};

}  // namespace quire::cli
