#include "cli/chat/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

// Appends `text` with one call, so that lines of several processes are not interleaved. Returns an errno.
int append_to_file(const std::string& path, int flags, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, S_IRUSR | S_IWUSR);
  if (fd < 0) return errno;
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = written < 0 ? errno : written == static_cast<ssize_t>(text.size()) ? 0 : ENOSPC;
  close(fd);
  return error;
}

std::string line_of(const std::string& message) {
  using nlohmann::json;
  return json(message).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string state_file(const std::string& name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  // The specification says that relative paths are to be ignored.
  if (state != nullptr && *state == '/') return std::string(state) + "/quire/" + name;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return std::string(home) + "/.local/state/quire/" + name;
}

std::vector<std::string> HistoryFile::load(size_t max_entries) {
  std::vector<std::string> messages;
  std::ifstream file(path_);
  std::string line;
  while (std::getline(file, line)) {
    const auto value = nlohmann::json::parse(line, nullptr, false);
    if (value.is_string()) messages.push_back(value.get<std::string>());
  }
  file.close();
  const size_t num_stored = messages.size();
  if (num_stored > max_entries)
    messages.erase(messages.begin(), messages.end() - static_cast<std::ptrdiff_t>(max_entries));
  if (num_stored > 2 * max_entries) {
    std::string text;
    for (const std::string& message : messages) text += line_of(message);
    const std::string temporary = path_ + "." + std::to_string(getpid());
    // The history is only shortened: if this fails, the old file remains.
    if (append_to_file(temporary, O_TRUNC, text) != 0 || std::rename(temporary.c_str(), path_.c_str()) != 0)
      unlink(temporary.c_str());
  }
  return messages;
}

void HistoryFile::append(const std::string& message) {
  if (path_.empty()) return;
  std::error_code ignored;  // open() reports that the directory is missing
  const fs::path directory = fs::path(path_).parent_path();
  if (fs::create_directories(directory, ignored)) fs::permissions(directory, fs::perms::owner_all, ignored);
  const int error = append_to_file(path_, O_APPEND, line_of(message));
  if (error != 0 && !warned_) {
    warned_ = true;
    log_warning("cannot write ", path_, ": ", std::strerror(error), "; messages are not stored");
  }
}

}  // namespace quire::cli
