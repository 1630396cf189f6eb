// A file mapped into memory, read only. Owns the mapping; may be read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace quire {

// Which file bytes were read from, and in which state. Another one of any of this has other bytes.
struct FileIdentity {
  std::string name;  // without directories
  int64_t bytes = 0;
  int64_t inode = 0;
  int64_t modified_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class MappedFile {
 public:
  // Throws Error naming the path where it cannot be opened, is not a regular file or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const FileIdentity& identity() const { return identity_; }  // as it was mapped
  // The file is read in no order and for long: the system may keep it in huge pages.
  void expect_long_use() const;
  // Lets the system drop the pages that lie within [offset, offset + size) of the file from this process's
  // resident memory. Reading them again is right and costs a page fault.
  void release(size_t offset, size_t size) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileIdentity identity_;
};

}  // namespace quire
