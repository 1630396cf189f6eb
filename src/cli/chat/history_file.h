// The file with the messages of earlier conversations.
#pragma once

#include <string>
#include <vector>

namespace quire::cli {

// Returns the path of a state file of quire: in $XDG_STATE_HOME/quire, or in ~/.local/state/quire. Empty if
// neither variable is set.
std::string state_file(const std::string& name);

// One JSON string per line, oldest first. Several processes may append at the same time. The file is readable
// by its owner only. Not thread-safe.
class HistoryFile {
 public:
  // `path` may be empty: then nothing is read or written.
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}

  // Returns the last `max_entries` messages and removes the older ones from a file with more than twice as
  // many. Lines that are not JSON strings are ignored.
  std::vector<std::string> load(size_t max_entries);
  // Creates the file and its directory if necessary. Logs a warning once if it cannot be written.
  void append(const std::string& message);

 private:
  std::string path_;
  bool warned_ = false;
};

}  // namespace quire::cli
