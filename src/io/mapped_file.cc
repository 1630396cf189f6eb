#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what, int code) {
  throw Error(cat(path.string(), ": ", what, ": ", std::strerror(code)));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be opened", errno);
  struct stat status = {};
  if (fstat(fd, &status) != 0) {
    const int code = errno;
    close(fd);
    fail(path, "cannot be examined", code);
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd);
    throw Error(cat(path.string(), ": not a regular file"));
  }
  size_ = static_cast<size_t>(status.st_size);
  constexpr int64_t kSecond = 1'000'000'000;
  identity_ = {path.filename().string(), int64_t{status.st_size}, static_cast<int64_t>(status.st_ino),
               int64_t{status.st_mtim.tv_sec} * kSecond + int64_t{status.st_mtim.tv_nsec}};
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int code = errno;
    if (p == MAP_FAILED) {
      close(fd);
      fail(path, "cannot be mapped into memory", code);
    }
    data_ = static_cast<const std::byte*>(p);
  }
  close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      identity_(std::move(other.identity_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(identity_, other.identity_);
  return *this;
}

void MappedFile::expect_long_use() const {
  if (size_ > 0) madvise(const_cast<std::byte*>(data_), size_, MADV_HUGEPAGE);
}

void MappedFile::release(size_t offset, size_t size) const {
  if (offset >= size_ || size == 0) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // Outwards to whole pages: a neighbour's bytes on them come back from the file when they are read.
  const size_t begin = offset / page * page;
  const size_t end = std::min(size_, offset + std::min(size, size_ - offset));
  madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace quire
