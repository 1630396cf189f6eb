// A read-only memory mapping of a file. Owns the mapping; thread-safe for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "io/open_file.h"

namespace quire {

class MappedFile {
 public:
  // Throws Error with the path if the file cannot be opened, is not a regular file or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const FileIdentity& identity() const { return identity_; }  // when the file was mapped
  // Announces random access for a long time; the system may use huge pages.
  void expect_long_use() const;
  // Lets the system drop the pages in [offset, offset + size) from this process's resident memory. They can
  // be read again, at the cost of a page fault.
  void release(size_t offset, size_t size) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileIdentity identity_;
};

}  // namespace quire
