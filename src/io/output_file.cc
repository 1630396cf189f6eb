#include "io/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot be made", errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void OutputFile::fail(std::string_view doing, int error) const {
  throw Error(cat(path_.string(), ": ", doing, ": ", std::strerror(error)));
}

void OutputFile::resize(int64_t bytes) {
  if (bytes == 0) return;
  const int error = ::posix_fallocate(fd_, 0, bytes);
  if (error == 0) return;
  // Some file systems cannot take space ahead.
  if (error != EOPNOTSUPP && error != EINVAL) fail(cat("there is no room for ", format_bytes(bytes)), error);
  if (::ftruncate(fd_, bytes) != 0) fail("cannot be made longer", errno);
}

void OutputFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written", errno);
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += done;
  }
}

void OutputFile::close() {
  const int fd = std::exchange(fd_, -1);
  if (::fsync(fd) != 0 && errno != EINVAL) {
    const int error = errno;
    ::close(fd);
    fail("cannot be written", error);
  }
  if (::close(fd) != 0) fail("cannot be written", errno);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(0, text);
  file.close();
}

}  // namespace quire
