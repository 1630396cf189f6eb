// Input of messages in a terminal: editing over several lines, history, completion.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

// Possible texts for the part of the input that starts at byte `begin` and ends at the cursor.
struct Completions {
  size_t begin = 0;
  std::vector<std::string> texts;
};
using Completer = std::function<Completions(std::string_view text_before_cursor)>;

// Keys are those of Emacs, or as in ~/.editrc. Enter ends a message. Alt-Enter, Ctrl-J and Enter after a
// backslash start a new line, and pasted text may have several lines. Up and Down move between the lines and
// then through the history; Ctrl-R searches it; Tab completes; Ctrl-C discards the message. One per process;
// all members are called by the main thread.
class LineEditor {
 public:
  LineEditor(const std::string& prompt, Completer completer);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Returns the next message without the newline at its end; nullopt at the end of the input. Messages can be
  // empty.
  std::optional<std::string> read();
  void add_to_history(const std::string& message);

  struct Impl;  // for the callbacks of the library

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::cli
