// An advisory lock on a file, compatible with the lock files of huggingface_hub (flock).
#pragma once

#include <filesystem>
#include <functional>

namespace quire::hub {

// Holds the lock while it exists. The lock file is kept.
class FileLock {
 public:
  // Waits until no other process has the lock and calls `waiting` every 100 ms until then; an exception from
  // it ends the wait. Throws Error if the file cannot be created.
  FileLock(const std::filesystem::path& file, const std::function<void()>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // False if the file system does not support locks.
  bool locked() const { return locked_; }

 private:
  int fd_ = -1;
  bool locked_ = false;
};

}  // namespace quire::hub
