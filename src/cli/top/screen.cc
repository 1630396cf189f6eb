#include "cli/top/screen.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/clock.h"
#include "cli/terminal.h"

namespace quire::cli {

std::string first_columns(std::string_view line, int columns) {
  constexpr std::string_view kStyle = "\x1b[";
  std::string out;
  int column = 0;
  bool styled = false;
  while (!line.empty()) {
    const size_t style_end = line.starts_with(kStyle) ? line.find('m') : std::string_view::npos;
    const bool is_style = style_end != std::string_view::npos;
    const std::string_view part = line.substr(0, is_style ? style_end + 1 : character_bytes(line));
    if (!is_style) column += display_width(part);
    if (column > columns) break;
    styled = styled || is_style;
    out += part;
    line.remove_prefix(part.size());
  }
  if (styled) out += "\x1b[0m";
  if (column < columns) out += "\x1b[K";
  return out;
}

Screen::Screen() {
  tcgetattr(STDIN_FILENO, &original_);
  termios keys = original_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
  std::cout << "\x1b[?1049h\x1b[?25l" << std::flush;
}

Screen::~Screen() {
  std::cout << "\x1b[?25h\x1b[?1049l" << std::flush;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &original_);
  if (signal_fd_ >= 0) close(signal_fd_);
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

void Screen::draw(const std::vector<std::string>& lines) const {
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  std::string out = "\x1b[H";
  for (size_t i = 0; i < std::min(lines.size(), static_cast<size_t>(size.rows)); ++i) {
    if (i > 0) out += "\r\n";
    out += first_columns(lines[i], size.columns);
  }
  std::cout << out << "\x1b[J" << std::flush;
}

Screen::Event Screen::wait(double end) const {
  while (true) {
    const double left = end - monotonic_seconds();
    if (left <= 0.0) return Event::kTime;
    pollfd inputs[] = {{STDIN_FILENO, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
    if (poll(inputs, 2, static_cast<int>(std::ceil(1e3 * left))) <= 0) continue;
    if (inputs[0].revents != 0) {
      char key = 0;
      if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == '\x03') return Event::kQuit;
    }
    if (inputs[1].revents != 0) {
      signalfd_siginfo info{};
      if (read(signal_fd_, &info, sizeof info) != sizeof info) continue;
      return info.ssi_signo == SIGWINCH ? Event::kResize : Event::kQuit;
    }
  }
}

}  // namespace quire::cli
