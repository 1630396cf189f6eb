// The directory of one model's disk cache, DIR/kv-<fingerprint>/: locked for this process, with the seed of
// the block hashes and the two files of the slots. Directories of other models in DIR are removed, least
// recently used first, when the size limit would be exceeded. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "io/file_handle.h"

namespace quire {

class DiskFolder {
 public:
  // Creates missing files (readable by the owner only) and takes the lock. Returns null, with a warning that
  // gives the reason, if another process has the lock or the system refuses.
  static std::unique_ptr<DiskFolder> open(const std::filesystem::path& parent,
                                          const std::string& fingerprint);

  const std::filesystem::path& path() const { return path_; }
  uint64_t seed() const { return seed_; }  // random, constant for the directory's lifetime
  int heads_fd() const { return heads_.fd(); }
  int blocks_fd() const { return blocks_.fd(); }

  // Bytes of other models' caches in the same parent directory.
  int64_t bytes_of_others() const;
  // Removes the least recently used of them that no process has open. Returns false if there is none.
  bool remove_oldest_other();

 private:
  DiskFolder() = default;

  std::filesystem::path path_;
  FileHandle lock_;  // the directory
  FileHandle heads_;
  FileHandle blocks_;
  uint64_t seed_ = 0;
};

}  // namespace quire
