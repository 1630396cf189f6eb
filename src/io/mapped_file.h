// A read-only memory mapping of a file. Owns the mapping; thread-safe for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace quire {

// Identifies the contents of a file: if any field differs, the contents may differ.
struct FileIdentity {
  std::string name;  // without directories
  int64_t bytes = 0;
  int64_t inode = 0;
  int64_t modified_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

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
