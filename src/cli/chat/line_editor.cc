#include "cli/chat/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include "base/error.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr int kHistorySize = 1000;
// Sequences that no key sends: functions of this file call editing functions of the library through them.
constexpr const char* kAccept = "\x1b[9001~";
constexpr const char* kOlder = "\x1b[9002~";
constexpr const char* kNewer = "\x1b[9003~";

// The library converts between bytes and characters by the locale.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

std::string_view before_cursor(EditLine* editor) {
  const LineInfo* line = el_line(editor);
  return {line->buffer, static_cast<size_t>(line->cursor - line->buffer)};
}
std::string_view after_cursor(EditLine* editor) {
  const LineInfo* line = el_line(editor);
  return {line->cursor, static_cast<size_t>(line->lastchar - line->cursor)};
}

// Number of characters (code points).
int count_characters(std::string_view text) {
  return static_cast<int>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string common_prefix(const std::vector<std::string>& texts) {
  std::string prefix = texts.front();
  for (const std::string& text : texts) {
    const auto [end, ignored] = std::ranges::mismatch(prefix, text);
    prefix.erase(end, prefix.end());
  }
  // Not in the middle of a character.
  while (!prefix.empty() && std::ranges::any_of(texts, [&](const std::string& text) {
    return text.size() > prefix.size() && (static_cast<unsigned char>(text[prefix.size()]) & 0xC0U) == 0x80U;
  }))
    prefix.pop_back();
  return prefix;
}

}  // namespace

struct LineEditor::Impl {
  termios original_terminal{};
  std::string prompt;
  Completer completer;
  EditLine* editor = nullptr;
  History* history = nullptr;
  TerminalSize window = terminal_size(STDIN_FILENO);
  bool discarded = false;  // Ctrl-C ended the line

  static Impl& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Impl*>(data);
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }

  // Sets the terminal up for editing, and with it bracketed paste.
  static void enter_terminal(EditLine* editor) {
    el_set(editor, EL_PREP_TERM, 1);
    std::fputs("\x1b[?2004h", stdout);
    std::fflush(stdout);
  }
  static void leave_terminal(EditLine* editor) {
    el_set(editor, EL_PREP_TERM, 0);
    std::fputs("\x1b[?2004l", stdout);
    std::fflush(stdout);
  }

  // Draws the line again if the size of the window has changed.
  void follow_window_size() {
    const TerminalSize size = terminal_size(STDIN_FILENO);
    if (size.columns == window.columns && size.rows == window.rows) return;
    window = size;
    el_resize(editor);
    el_set(editor, EL_REFRESH);
  }

  // Reads the next character. The library's own function does not notice changes of the window size.
  static int read_character(EditLine* editor, wchar_t* character) {
    std::mbstate_t state{};
    while (true) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      const int ready = poll(&input, 1, -1);
      const int error = errno;
      of(editor).follow_window_size();
      if (ready < 0 && error != EINTR) return -1;
      if (ready <= 0) continue;
      char byte = 0;
      const ssize_t length = ::read(STDIN_FILENO, &byte, 1);
      if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (length <= 0) return static_cast<int>(length);
      const size_t used = std::mbrtowc(character, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue;  // the first bytes of a character
      if (used == static_cast<size_t>(-1)) *character = L'\uFFFD';
      return 1;
    }
  }

  static unsigned char insert_newline(EditLine* editor, int /*key*/) {
    return el_insertstr(editor, "\n") == 0 ? CC_REFRESH : CC_ERROR;
  }
  static unsigned char enter(EditLine* editor, int key) {
    if (before_cursor(editor).ends_with('\\') && after_cursor(editor).empty()) {
      el_deletestr(editor, 1);
      return insert_newline(editor, key);
    }
    el_push(editor, kAccept);
    return CC_NORM;
  }
  static unsigned char discard(EditLine* editor, int /*key*/) {
    of(editor).discarded = true;
    el_push(editor, kAccept);
    return CC_NORM;
  }
  // Stops the process group like Ctrl-Z in other programs; continues when it is resumed.
  static unsigned char suspend(EditLine* editor, int /*key*/) {
    termios between{};
    leave_terminal(editor);
    tcgetattr(STDIN_FILENO, &between);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &of(editor).original_terminal);
    struct sigaction default_action {};
    struct sigaction stop_action {};
    struct sigaction continue_action {};
    default_action.sa_handler = SIG_DFL;
    sigaction(SIGTSTP, &default_action, &stop_action);
    sigaction(SIGCONT, &default_action, &continue_action);
    kill(0, SIGTSTP);
    sigaction(SIGTSTP, &stop_action, nullptr);
    sigaction(SIGCONT, &continue_action, nullptr);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &between);
    enter_terminal(editor);
    return CC_REDISPLAY;
  }
  static unsigned char up(EditLine* editor, int /*key*/) {
    const std::string_view before = before_cursor(editor);
    const size_t newline = before.rfind('\n');
    if (newline == std::string_view::npos) {
      el_push(editor, kOlder);
      return CC_NORM;
    }
    const int column = count_characters(before.substr(newline + 1));
    const std::string_view earlier = before.substr(0, newline);
    const size_t start = earlier.rfind('\n') + 1;  // npos + 1 = 0
    const int length = count_characters(earlier.substr(start));
    el_cursor(editor, -(column + 1 + std::max(0, length - column)));
    return CC_CURSOR;
  }
  static unsigned char down(EditLine* editor, int /*key*/) {
    const std::string_view before = before_cursor(editor);
    const std::string_view after = after_cursor(editor);
    const size_t newline = after.find('\n');
    if (newline == std::string_view::npos) {
      el_push(editor, kNewer);
      return CC_NORM;
    }
    const int column = count_characters(before.substr(before.rfind('\n') + 1));
    const std::string_view next = after.substr(newline + 1);
    const int length = count_characters(next.substr(0, next.find('\n')));
    el_cursor(editor, count_characters(after.substr(0, newline)) + 1 + std::min(column, length));
    return CC_CURSOR;
  }
  // Inserts what the terminal sends between the marks of bracketed paste.
  static unsigned char paste(EditLine* editor, int /*key*/) {
    static constexpr std::string_view kEnd = "\x1b[201~";
    std::string text;
    wchar_t character = 0;
    while (!text.ends_with(kEnd)) {
      if (el_wgetc(editor, &character) != 1) return CC_EOF;
      char bytes[16];
      const int length = std::wctomb(bytes, character);
      if (length > 0) text.append(bytes, static_cast<size_t>(length));
    }
    text.resize(text.size() - kEnd.size());
    std::ranges::replace(text, '\r', '\n');
    text = without_controls(text);
    return el_insertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }
  static unsigned char complete(EditLine* editor, int /*key*/) {
    const std::string text(before_cursor(editor));
    const Completions found = of(editor).completer(text);
    if (found.texts.empty()) return CC_ERROR;
    const std::string_view typed = std::string_view(text).substr(found.begin);
    std::string prefix = common_prefix(found.texts);
    const bool unique = found.texts.size() == 1;
    if (unique && !prefix.ends_with('/')) prefix += ' ';
    if (prefix.size() > typed.size()) {
      el_deletestr(editor, count_characters(typed));
      return el_insertstr(editor, prefix.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    }
    if (unique) return CC_ERROR;
    list(found.texts);
    return CC_REDISPLAY;
  }
  // Prints the last parts of paths, or commands, in columns below the input.
  static void list(const std::vector<std::string>& texts) {
    std::vector<std::string> names;
    int width = 0;
    for (const std::string& text : texts) {
      const size_t slash = text.size() < 2 ? std::string::npos : text.rfind('/', text.size() - 2);
      names.push_back(
          without_controls(slash == std::string::npos || slash == 0 ? text : text.substr(slash + 1)));
      width = std::max(width, display_width(names.back()) + 2);
    }
    const int per_line = std::max(1, terminal_size(STDOUT_FILENO).columns / width);
    std::string out = "\n";
    for (size_t i = 0; i < names.size(); ++i) {
      const bool last = i + 1 == names.size() || (i + 1) % static_cast<size_t>(per_line) == 0;
      const int room = last ? 0 : width - display_width(names[i]);
      out += names[i] + std::string(static_cast<size_t>(room), ' ') + (last ? "\n" : "");
    }
    std::fputs(out.c_str(), stdout);
    std::fflush(stdout);
  }
};

LineEditor::LineEditor(const std::string& prompt, Completer completer) : impl_(std::make_unique<Impl>()) {
  use_utf8_locale();
  tcgetattr(STDIN_FILENO, &impl_->original_terminal);
  impl_->prompt = prompt;
  impl_->completer = std::move(completer);
  impl_->history = history_init();
  impl_->editor = el_init("quire", stdin, stdout, stderr);
  if (impl_->editor == nullptr || impl_->history == nullptr)
    throw Error("the terminal cannot be used for editing");
  EditLine* e = impl_->editor;
  HistEvent event;
  history(impl_->history, &event, H_SETSIZE, kHistorySize);
  history(impl_->history, &event, H_SETUNIQUE, 1);
  el_set(e, EL_CLIENTDATA, impl_.get());
  el_set(e, EL_HIST, history, impl_->history);
  el_set(e, EL_GETCFN, &Impl::read_character);
  el_set(e, EL_PROMPT, &Impl::prompt_of);
  el_set(e, EL_SIGNAL, 1);  // redraws after a change of the window size and after suspension
  el_set(e, EL_EDITOR, "emacs");
  el_source(e, nullptr);
  // While a line is edited, Ctrl-C and Ctrl-Z are keys, and Enter (CR) differs from Ctrl-J (LF).
  el_set(e, EL_SETTY, "-d", "-isig", "-icrnl", "-inlcr", nullptr);
  // Between two lines, what is typed is not shown, and it is kept as it is for the next line.
  el_set(e, EL_SETTY, "-x", "-echo", "-icrnl", nullptr);

  using Function = unsigned char (*)(EditLine*, int);
  const auto bind = [e](const char* name, Function function, std::initializer_list<const char*> keys) {
    el_set(e, EL_ADDFN, name, name, function);
    for (const char* key : keys) el_set(e, EL_BIND, key, name, nullptr);
  };
  bind("quire-enter", Impl::enter, {"^M"});
  bind("quire-newline", Impl::insert_newline, {"^J", "\\e^M", "\\e^J"});
  bind("quire-discard", Impl::discard, {"^C"});
  bind("quire-suspend", Impl::suspend, {"^Z"});
  bind("quire-up", Impl::up, {"\\e[A", "\\eOA"});
  bind("quire-down", Impl::down, {"\\e[B", "\\eOB"});
  bind("quire-paste", Impl::paste, {"\\e[200~"});
  bind("quire-complete", Impl::complete, {"^I"});
  el_set(e, EL_BIND, kAccept, "ed-newline", nullptr);
  el_set(e, EL_BIND, kOlder, "ed-prev-history", nullptr);
  el_set(e, EL_BIND, kNewer, "ed-next-history", nullptr);
  el_set(e, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_set(e, EL_BIND, "^S", "em-inc-search-next", nullptr);
}

LineEditor::~LineEditor() {
  if (impl_->editor != nullptr) el_end(impl_->editor);
  if (impl_->history != nullptr) history_end(impl_->history);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &impl_->original_terminal);
}

std::optional<std::string> LineEditor::read() {
  impl_->discarded = false;
  int length = 0;
  Impl::enter_terminal(impl_->editor);  // before the prompt appears, so that nothing that is typed is echoed
  const char* line = el_gets(impl_->editor, &length);
  Impl::leave_terminal(impl_->editor);
  if (line == nullptr || length <= 0) return std::nullopt;
  if (impl_->discarded) return "";
  std::string message(line, std::strlen(line));
  if (message.ends_with('\n')) message.pop_back();
  return message;
}

void LineEditor::add_to_history(const std::string& message) {
  HistEvent event;
  history(impl_->history, &event, H_ENTER, message.c_str());
}

}  // namespace quire::cli
