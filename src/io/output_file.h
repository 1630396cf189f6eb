// A new file that is written in any order. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace quire {

class OutputFile {
 public:
  // Throws Error with the path if the file exists or cannot be created.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Sets the size of the file and allocates the disk space. Throws Error if there is not enough.
  void resize(int64_t bytes);
  void write(int64_t offset, std::span<const std::byte> bytes);
  // Writes the parts contiguously, in as few calls as possible: data written in large calls is stored in
  // large folios of the page cache, which are faster to read.
  void write(int64_t offset, std::span<const std::span<const std::byte>> parts);
  void write(int64_t offset, std::string_view text) { write(offset, std::as_bytes(std::span(text))); }
  // Flushes everything to disk; throws Error on failure. Nothing may be written afterwards.
  void close();

 private:
  [[noreturn]] void fail(std::string_view doing, int error) const;

  std::filesystem::path path_;
  int fd_ = -1;
};

// A whole file. Throws Error.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace quire
