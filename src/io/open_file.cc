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

FileIdentity identity_of(const FileHandle& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(file.fd(), &status) != 0) fail_to("examine", path, errno);
  constexpr int64_t kSecond = 1'000'000'000;
  return {path.filename().string(), int64_t{status.st_size}, static_cast<int64_t>(status.st_ino),
          int64_t{status.st_mtim.tv_sec} * kSecond + int64_t{status.st_mtim.tv_nsec}};
}

void read_at(const FileHandle& file, const std::filesystem::path& path, size_t offset,
             std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(file.fd(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to("read", path, errno);
    if (count == 0) throw Error(cat(path.string(), " was truncated while it was read"));
    done += static_cast<size_t>(count);
  }
}

std::string read_regular_file(const std::filesystem::path& path, int64_t max_bytes) {
  const FileHandle file = open_regular_file(path);
  const int64_t bytes = identity_of(file, path).bytes;
  if (bytes > max_bytes)
    throw Error(cat(path.string(), " has ", bytes, " bytes, at most ", max_bytes, " are allowed"));
  std::string text(static_cast<size_t>(bytes), '\0');
  read_at(file, path, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace quire
