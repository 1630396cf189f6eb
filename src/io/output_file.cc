#include "io/output_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot create the file", errno);
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
  // Some file systems cannot allocate space in advance.
  if (error != EOPNOTSUPP && error != EINVAL) fail(cat("no space left for ", format_bytes(bytes)), error);
  if (::ftruncate(fd_, bytes) != 0) fail("cannot extend the file", errno);
}

void OutputFile::write(int64_t offset, std::span<const std::byte> bytes) {
  write(offset, std::span<const std::span<const std::byte>>(&bytes, 1));
}

void OutputFile::write(int64_t offset, std::span<const std::span<const std::byte>> parts) {
  std::vector<iovec> left;
  for (const auto part : parts) left.push_back({const_cast<std::byte*>(part.data()), part.size()});
  for (size_t at = 0; at < left.size();) {
    const size_t count = std::min<size_t>(left.size() - at, IOV_MAX);
    const ssize_t written = ::pwritev(fd_, &left[at], static_cast<int>(count), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write the file", errno);
    offset += written;
    auto done = static_cast<size_t>(written);
    for (; at < left.size() && done >= left[at].iov_len; ++at) done -= left[at].iov_len;
    if (done == 0) continue;
    left[at].iov_base = static_cast<std::byte*>(left[at].iov_base) + done;
    left[at].iov_len -= done;
  }
}

void OutputFile::close() {
  const int fd = std::exchange(fd_, -1);
  if (::fsync(fd) != 0 && errno != EINVAL) {
    const int error = errno;
    ::close(fd);
    fail("cannot write the file", error);
  }
  if (::close(fd) != 0) fail("cannot write the file", errno);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(0, text);
  file.close();
}

}  // namespace quire
