// A file that is made and written at any place. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace quire {

class OutputFile {
 public:
  // Throws Error naming the path where there is one already or it cannot be made.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Makes the file this long and takes the space on the disk. Throws Error where there is too little.
  void resize(int64_t bytes);
  void write(int64_t offset, std::span<const std::byte> bytes);
  // The parts one behind the other. In as few calls as it takes: what is written at once lies in large pages
  // of the system's memory, and is read faster out of them.
  void write(int64_t offset, std::span<const std::span<const std::byte>> parts);
  void write(int64_t offset, std::string_view text) { write(offset, std::as_bytes(std::span(text))); }
  // Everything is on the disk, or Error. Nothing may be written afterwards.
  void close();

 private:
  [[noreturn]] void fail(std::string_view doing, int error) const;

  std::filesystem::path path_;
  int fd_ = -1;
};

// A whole file. Throws Error.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace quire
