#include "exec/disk_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/strings.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "kv-";
constexpr const char* kHeadsFile = "heads";
constexpr const char* kBlocksFile = "blocks";
constexpr const char* kSeedFile = "seed";
constexpr size_t kSeedDigits = 16;

std::optional<uint64_t> read_seed(int folder) {
  const FileHandle file(::openat(folder, kSeedFile, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return std::nullopt;
  std::array<char, kSeedDigits + 1> text{};
  if (::read(file.fd(), text.data(), kSeedDigits) != static_cast<ssize_t>(kSeedDigits)) return std::nullopt;
  char* end = nullptr;
  const uint64_t seed = std::strtoull(text.data(), &end, 16);
  return end == text.data() + kSeedDigits ? std::optional(seed) : std::nullopt;
}

// A new seed, which is there whole or not at all.
std::optional<uint64_t> make_seed(int folder) {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) return std::nullopt;
  std::array<char, kSeedDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(seed));
  constexpr const char* kNew = "seed.new";
  const FileHandle file(
      ::openat(folder, kNew, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file || ::write(file.fd(), text.data(), kSeedDigits) != static_cast<ssize_t>(kSeedDigits) ||
      ::fsync(file.fd()) != 0 || ::renameat(folder, kNew, folder, kSeedFile) != 0) {
    return std::nullopt;
  }
  return seed;
}

struct OtherFolder {
  fs::path path;
  timespec used = {};
  int64_t bytes = 0;
};

bool older(const OtherFolder& a, const OtherFolder& b) {
  return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
}

// Caches of other models: folders of our naming with a file of blocks in them.
std::vector<OtherFolder> other_folders(const fs::path& own) {
  std::vector<OtherFolder> others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(own.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kPrefix, 0) != 0 || entry.path().filename() == own.filename()) continue;
    struct stat info = {};
    if (::lstat(entry.path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    if (::lstat((entry.path() / kBlocksFile).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    others.push_back({entry.path(), info.st_mtim, int64_t{info.st_blocks} * 512});
  }
  return others;
}

}  // namespace

std::unique_ptr<DiskFolder> DiskFolder::open(const fs::path& parent, const std::string& fingerprint) {
  const auto refuse = [&parent](std::string_view what, int error) {
    log_warning("--kv-disk-cache ", parent.string(), ": ", what, error != 0 ? ": " : "",
                error != 0 ? std::strerror(error) : "", "; running without the disk cache");
    return nullptr;
  };
  std::unique_ptr<DiskFolder> folder(new DiskFolder);
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) return refuse("cannot create the directory", error.value());
  folder->path_ = fs::absolute(parent, error) / cat(kPrefix, fingerprint);
  if (::mkdir(folder->path_.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return refuse("cannot create the model's directory", errno);
  folder->lock_ = FileHandle(::open(folder->path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder->lock_) return refuse("the model's folder cannot be opened", errno);
  if (::flock(folder->lock_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return refuse("another process uses it for this model", 0);
    return refuse("the model's folder cannot be locked", errno);
  }
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  folder->heads_ = FileHandle(::openat(folder->lock_.fd(), kHeadsFile, kFlags, S_IRUSR | S_IWUSR));
  folder->blocks_ = FileHandle(::openat(folder->lock_.fd(), kBlocksFile, kFlags, S_IRUSR | S_IWUSR));
  if (!folder->heads_ || !folder->blocks_) return refuse("its files cannot be opened", errno);
  std::optional<uint64_t> seed = read_seed(folder->lock_.fd());
  if (!seed) {
    // Blocks that were hashed with a lost seed are never found again.
    if (::ftruncate(folder->heads_.fd(), 0) != 0 || ::ftruncate(folder->blocks_.fd(), 0) != 0)
      return refuse("its files cannot be emptied", errno);
    seed = make_seed(folder->lock_.fd());
    if (!seed) return refuse("the seed cannot be written", errno);
  }
  folder->seed_ = *seed;
  ::futimens(folder->blocks_.fd(), nullptr);  // used
  return folder;
}

int64_t DiskFolder::bytes_of_others() const {
  int64_t bytes = 0;
  for (const OtherFolder& other : other_folders(path_)) bytes += other.bytes;
  return bytes;
}

bool DiskFolder::remove_oldest_other() {
  std::vector<OtherFolder> others = other_folders(path_);
  while (!others.empty()) {
    const auto oldest = std::min_element(others.begin(), others.end(), older);
    const FileHandle lock(::open(oldest->path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (lock && ::flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) {
      std::error_code error;
      fs::remove_all(oldest->path, error);
      if (!error) {
        log_info("removed the KV disk cache of another model, ", oldest->path.string(), " (",
                 oldest->bytes >> 20, " MiB), to stay below --kv-disk-cache-size");
        return true;
      }
    }
    others.erase(oldest);
  }
  return false;
}

}  // namespace quire
