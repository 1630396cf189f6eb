#include "io/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

std::string_view file_type(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "a special file";
}

void require_regular(const std::filesystem::path& path, mode_t mode) {
  if (!S_ISREG(mode)) throw Error(cat(path.string(), " is not a regular file but ", file_type(mode)));
}

}  // namespace

void fail_to(std::string_view action, const std::filesystem::path& path, int code) {
  throw Error(cat("cannot ", action, " ", path.string(), ": ", std::strerror(code)));
}

FileHandle open_regular_file(const std::filesystem::path& path) {
  struct stat status = {};
  // Before open(), which can have effects on a device.
  if (::stat(path.c_str(), &status) != 0) fail_to("open", path, errno);
  require_regular(path, status.st_mode);
  // The path may have been replaced meanwhile: with O_NONBLOCK, open() does not wait for the writer of a
  // pipe.
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file || ::fstat(file.fd(), &status) != 0) fail_to("open", path, errno);
  require_regular(path, status.st_mode);
  return file;
}

std::string read_regular_file(const std::filesystem::path& path, int64_t max_bytes) {
  const FileHandle file = open_regular_file(path);
  struct stat status = {};
  if (::fstat(file.fd(), &status) != 0) fail_to("read", path, errno);
  if (status.st_size > max_bytes) {
    throw Error(
        cat(path.string(), " has ", int64_t{status.st_size}, " bytes, at most ", max_bytes, " are allowed"));
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(file.fd(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to("read", path, errno);
    if (count == 0) throw Error(cat(path.string(), " was truncated while it was read"));
    done += static_cast<size_t>(count);
  }
  return text;
}

}  // namespace quire
