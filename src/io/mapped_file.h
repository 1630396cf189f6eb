// A file mapped into memory, read only. Owns the mapping; may be read by any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace quire {

class MappedFile {
 public:
  // Throws Error naming the path where it cannot be opened, is not a regular file or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Lets the system drop the pages that lie within [offset, offset + size) of the file from this process's
  // resident memory. Reading them again is right and costs a page fault.
  void release(size_t offset, size_t size) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quire
