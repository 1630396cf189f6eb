#include "cli/chat/attachments.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/strings.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(expand_home(path), ignored);
  return fs::exists(status) && !fs::is_directory(status);
}

// The fence of a code block that contains `text`: longer than any run of backticks in it.
std::string fence_for(std::string_view text) {
  size_t longest = 0;
  size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return std::string(std::max<size_t>(3, longest + 1), '`');
}

}  // namespace

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || !path.starts_with("~/")) return path;
  return home + path.substr(1);
}

Attachment read_attachment(const std::string& path) {
  const std::string name = expand_home(path);
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (!fs::exists(status)) throw Error(cat("cannot read ", path, ": no such file"));
  if (!fs::is_regular_file(status)) throw Error(cat("cannot read ", path, ": not a regular file"));
  std::ifstream file(name, std::ios::binary);
  if (!file) throw Error(cat("cannot read ", path, ": ", std::strerror(errno)));
  std::string content(kMaxAttachmentBytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  if (content.size() > kMaxAttachmentBytes) {
    throw Error(cat("cannot attach ", path, ": the file is larger than ", format_bytes(kMaxAttachmentBytes)));
  }
  if (!is_valid_utf8(content) || content.find('\0') != std::string::npos)
    throw Error(cat("cannot attach ", path, ": not a UTF-8 text file"));
  return {path, std::move(content)};
}

std::vector<Attachment> read_mentions(std::string_view message) {
  std::vector<Attachment> files;
  const auto add = [&files](const std::string& path) {
    const auto same = [&path](const Attachment& file) { return file.path == path; };
    if (std::ranges::none_of(files, same)) files.push_back(read_attachment(path));
  };
  for (size_t pos = message.find('@'); pos != std::string_view::npos; pos = message.find('@', pos + 1)) {
    if (pos > 0 && !is_space(message[pos - 1])) continue;
    const size_t begin = pos + 1;
    if (begin < message.size() && message[begin] == '"') {
      const size_t end = message.find('"', begin + 1);
      if (end == std::string_view::npos) continue;
      const std::string path(message.substr(begin + 1, end - begin - 1));
      if (is_file(path)) add(path);
      continue;
    }
    std::string path(message.substr(begin, message.find_first_of(" \t\n", begin) - begin));
    while (!path.empty() && !is_file(path) && std::strchr(".,;:!?)\"'", path.back()) != nullptr)
      path.pop_back();
    if (!path.empty() && is_file(path)) add(path);
  }
  return files;
}

std::string with_attachments(const std::string& message, const std::vector<Attachment>& files) {
  std::string out = message;
  for (const Attachment& file : files) {
    const std::string fence = fence_for(file.content);
    const bool ends_line = file.content.empty() || file.content.back() == '\n';
    out += cat(out.empty() ? "" : "\n\n", "File ", file.path, ":\n", fence, "\n", file.content,
               ends_line ? "" : "\n", fence);
  }
  return out;
}

size_t mention_at_end(std::string_view text) {
  size_t found = std::string_view::npos;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_word = i == 0 || is_space(text[i - 1]);
    if (found == std::string_view::npos && text[i] == '@' && starts_word) {
      quoted = i + 1 < text.size() && text[i + 1] == '"';
      found = quoted ? i + 2 : i + 1;
      if (quoted) ++i;
    } else if (found != std::string_view::npos && (quoted ? text[i] == '"' : is_space(text[i]))) {
      found = std::string_view::npos;
    }
  }
  return found;
}

std::vector<std::string> complete_path(const std::string& prefix) {
  const size_t slash = prefix.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : prefix.substr(0, slash + 1);
  const std::string name = prefix.substr(directory.size());
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator entries(directory.empty() ? "." : expand_home(directory), error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string entry = entries->path().filename().string();
    if (!entry.starts_with(name) || (entry[0] == '.' && name.empty())) continue;
    std::error_code ignored;
    found.push_back(directory + entry + (entries->is_directory(ignored) ? "/" : ""));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace quire::cli
