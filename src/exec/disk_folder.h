// The folder of one model's disk cache, DIR/kv-<fingerprint>/: locked for this process, with the seed of the
// prefix cache's names and the two files of the slots. Folders of other models beside it give way when the
// size limit would be exceeded, least recently used first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "io/file_handle.h"

namespace quire {

class DiskFolder {
 public:
  // Makes what is missing (readable by the owner only) and takes the lock. Null, with a warning that says
  // why, when another process has it or the system refuses.
  static std::unique_ptr<DiskFolder> open(const std::filesystem::path& parent,
                                          const std::string& fingerprint);

  const std::filesystem::path& path() const { return path_; }
  uint64_t seed() const { return seed_; }  // random, the same for the folder's life
  int heads_fd() const { return heads_.fd(); }
  int blocks_fd() const { return blocks_.fd(); }

  // Bytes of the other models' caches beside this one.
  int64_t bytes_of_others() const;
  // Removes the least recently used of them that no process has open. False when there is none.
  bool remove_oldest_other();

 private:
  DiskFolder() = default;

  std::filesystem::path path_;
  FileHandle lock_;  // the folder itself
  FileHandle heads_;
  FileHandle blocks_;
  uint64_t seed_ = 0;
};

}  // namespace quire
