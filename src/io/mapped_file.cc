#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/mapped_region.h"

namespace quire {
MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileHandle file = open_regular_file(path);
  identity_ = identity_of(file, path);
  size_ = static_cast<size_t>(identity_.bytes);
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
    if (p == MAP_FAILED) fail_to("map", path, errno);
    data_ = static_cast<const std::byte*>(p);
    try {
      register_mapping(bytes(), path.string());
    } catch (...) {
      munmap(p, size_);
      throw;
    }
  }
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unregister_mapping(data_);
  munmap(const_cast<std::byte*>(data_), size_);
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
  // Rounded outwards to full pages: adjacent bytes on these pages are read from the file again when needed.
  const size_t begin = offset / page * page;
  const size_t end = std::min(size_, offset + std::min(size, size_ - offset));
  madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace quire
