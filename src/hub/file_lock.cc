#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/strings.h"

namespace quire::hub {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(100);

// Whether the descriptor is still the file at this path. Some versions of filelock remove the file on
// release.
bool is_current(int fd, const std::filesystem::path& file) {
  struct stat mine {};
  struct stat there {};
  return ::fstat(fd, &mine) == 0 && ::stat(file.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, const std::function<void()>& waiting) {
  while (true) {
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd_ < 0) throw Error(cat("cannot create the lock file ", file.string(), ": ", std::strerror(errno)));
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      if (is_current(fd_, file)) {
        locked_ = true;
        return;
      }
    } else if (errno != EWOULDBLOCK && errno != EACCES && errno != EINTR) {
      return;  // no locks on this file system
    } else {
      try {
        waiting();
      } catch (...) {
        ::close(fd_);
        throw;
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    ::close(fd_);
    fd_ = -1;
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);  // releases the lock
}

}  // namespace quire::hub
