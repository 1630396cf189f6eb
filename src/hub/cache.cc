#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "hub/digest.h"
#include "hub/file_selection.h"
#include "hub/model_name.h"

namespace quire::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr uint64_t kSpaceReserve = 64 << 20;  // stays free for file system metadata and logs

std::string folder_of(const std::string& repo) {
  std::string folder(kPrefix);
  for (const char c : repo) {
    if (c == '/') {
      folder += "--";
    } else {
      folder += c;
    }
  }
  return folder;
}

// A name that no other thread or process uses.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<uint64_t> counter{0};
  return path.parent_path() / cat(".", path.filename().string(), ".", ::getpid(), ".", counter.fetch_add(1));
}

std::string read_ref(const fs::path& path) {
  std::ifstream in(path);
  std::string text;
  in >> text;
  return text;
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw Error(cat("cannot create ", path.string(), ": ", error.message(),
                    "; set HF_HOME or HF_HUB_CACHE to a directory that can be written"));
}

}  // namespace

RepoCache::RepoCache(const fs::path& cache, const std::string& repo)
    : cache_(cache), path_(cache / folder_of(repo)), locks_(cache / ".locks" / folder_of(repo)) {}

fs::path RepoCache::incomplete(std::string_view etag) const {
  return path_ / "blobs" / cat(etag, ".incomplete");
}

fs::path RepoCache::lock(std::string_view etag) const {
  return locks_ / cat(etag, ".lock");
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  std::string commit = is_commit(revision) ? revision : read_ref(path_ / "refs" / revision);
  std::error_code error;
  if (!is_commit(commit) || !fs::is_directory(snapshot(commit), error)) return std::nullopt;
  return commit;
}

std::vector<std::string> RepoCache::files(std::string_view commit) const {
  std::vector<std::string> names;
  const fs::path root = snapshot(commit);
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(root, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code missing;
    if (fs::is_regular_file(it->path(), missing))
      names.push_back(it->path().lexically_relative(root).string());
  }
  std::ranges::sort(names);
  return names;
}

void RepoCache::create_directories() const {
  make_directories(path_ / "blobs");
  make_directories(path_ / "snapshots");
  make_directories(locks_);
  std::error_code error;
  const fs::path tag = cache_ / "CACHEDIR.TAG";
  if (!fs::exists(tag, error)) {
    std::ofstream(tag) << "Signature: 8a477f597d28d172789f06886806bc55\n"
                          "# Backup programs may leave out this directory.\n";
  }
}

void RepoCache::link(std::string_view commit, const std::string& name, std::string_view etag) const {
  const fs::path pointer = snapshot(commit) / name;
  make_directories(pointer.parent_path());
  const fs::path target = blob(etag).lexically_relative(pointer.parent_path());
  std::error_code error;
  if (fs::is_symlink(pointer, error) && fs::read_symlink(pointer, error) == target) return;
  const fs::path temporary = temporary_name(pointer);
  fs::create_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, pointer, error);
  if (error) {
    const std::string reason = error.message();
    fs::remove(temporary, error);
    throw Error(cat("cannot create the link ", pointer.string(), ": ", reason));
  }
}

void RepoCache::set_ref(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const fs::path ref = path_ / "refs" / revision;
  if (read_ref(ref) == commit) return;
  make_directories(ref.parent_path());
  const fs::path temporary = temporary_name(ref);
  std::ofstream(temporary) << commit;
  std::error_code error;
  fs::rename(temporary, ref, error);
  if (error) throw Error(cat("cannot write ", ref.string(), ": ", error.message()));
}

namespace {

// Adds up sizes, and finds the newest modification, of files with several names or links.
class FileTotals {
 public:
  explicit FileTotals(CachedRepo& repo) : repo_(repo) {}
  void add(const fs::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0 || !counted_.emplace(status.st_dev, status.st_ino).second) return;
    repo_.bytes += status.st_size;
    if (file.extension() == ".incomplete") repo_.incomplete_bytes += status.st_size;
    repo_.modified = std::max(repo_.modified, static_cast<double>(status.st_mtime));
  }

 private:
  CachedRepo& repo_;
  std::set<std::pair<dev_t, ino_t>> counted_;
};

std::vector<std::string> snapshots_of(const RepoCache& paths) {
  std::vector<std::string> commits;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(paths.path() / "snapshots", error)) {
    if (is_commit(entry.path().filename().string())) commits.push_back(entry.path().filename().string());
  }
  return commits;
}

CachedRepo read_repo(const fs::path& cache, const std::string& name) {
  const RepoCache paths(cache, name);
  CachedRepo repo;
  repo.repo = name;
  FileTotals totals(repo);
  std::error_code error;
  for (const auto& blob : fs::directory_iterator(paths.path() / "blobs", error)) totals.add(blob.path());
  const fs::path refs = paths.path() / "refs";
  for (auto it = fs::recursive_directory_iterator(refs, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string revision = it->path().lexically_relative(refs).string();
    std::error_code skipped;
    if (it->is_regular_file(skipped) && paths.commit_of(revision)) repo.revisions.push_back(revision);
  }
  std::set<std::string> gguf;
  for (const std::string& commit : snapshots_of(paths)) {
    for (const std::string& file : paths.files(commit)) {
      totals.add(paths.snapshot(commit) / file);  // the file itself in a cache without links
      if (file.ends_with(".gguf")) gguf.insert(file);
    }
  }
  repo.gguf_files.assign(gguf.begin(), gguf.end());
  std::ranges::sort(repo.revisions);
  return repo;
}

void require_unlocked(const RepoCache& paths, const std::string& repo) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(paths.locks(), error)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool busy = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) ::close(fd);
    if (busy) throw Error(cat(repo, ": another process downloads it; stop that process first"));
  }
}

void remove_path(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw Error(cat("cannot remove ", path.string(), ": ", error.message()));
}

// Names of the blobs that the snapshots link to.
std::set<std::string> linked_blobs(const RepoCache& paths) {
  std::set<std::string> blobs;
  for (const std::string& commit : snapshots_of(paths)) {
    for (const std::string& file : paths.files(commit)) {
      std::error_code error;
      blobs.insert(fs::read_symlink(paths.snapshot(commit) / file, error).filename().string());
    }
  }
  return blobs;
}

// Removes the files of a GGUF model from all snapshots, and blobs that nothing else links to.
int64_t remove_gguf(const RepoCache& paths, const ModelName& name) {
  std::set<std::string> removed;
  int64_t freed = 0;
  for (const std::string& commit : snapshots_of(paths)) {
    const std::vector<std::string> files = paths.files(commit);
    std::vector<std::string> chosen;
    try {
      chosen = select_files(name, files).weights;
    } catch (const Error&) {
      continue;  // this snapshot does not have the model
    }
    for (const std::string& file : chosen) {
      const fs::path pointer = paths.snapshot(commit) / file;
      std::error_code error;
      struct stat status {};
      if (::lstat(pointer.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1)
        freed += status.st_size;  // in a cache without links
      removed.insert(fs::read_symlink(pointer, error).filename().string());
      remove_path(pointer);
    }
  }
  if (removed.empty()) throw Error(cat(name.text(), ": is not in the cache; quire list shows its models"));
  const std::set<std::string> linked = linked_blobs(paths);
  for (const std::string& blob : removed) {
    std::error_code error;
    if (linked.contains(blob) || hash_of_etag(blob).empty()) continue;
    const auto size = fs::file_size(paths.blob(blob), error);
    if (!error) freed += static_cast<int64_t>(size);
    remove_path(paths.blob(blob));
  }
  return freed;
}

}  // namespace

std::vector<CachedRepo> cached_repos(const fs::path& cache) {
  std::vector<CachedRepo> repos;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    name.erase(0, kPrefix.size());
    if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
    if (is_repo_id(name)) repos.push_back(read_repo(cache, name));
  }
  std::ranges::sort(repos, {}, &CachedRepo::repo);
  return repos;
}

int64_t remove_model(const fs::path& cache, const ModelName& name) {
  const RepoCache paths(cache, name.repo);
  std::error_code error;
  if (!fs::is_directory(paths.path(), error))
    throw Error(cat(name.repo, ": is not in the cache ", cache.string(), "; quire list shows its models"));
  require_unlocked(paths, name.repo);
  if (!name.tag.empty() || !name.file.empty()) return remove_gguf(paths, name);
  const int64_t freed = read_repo(cache, name.repo).bytes;
  remove_path(paths.path());
  remove_path(paths.locks());
  return freed;
}

void require_space(const fs::path& path, uint64_t bytes) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return;
  const uint64_t available = uint64_t{status.f_bavail} * status.f_frsize;
  if (bytes == 0 || bytes + kSpaceReserve <= available) return;
  throw Error(cat("not enough disk space in ", path.string(), ": the download needs ",
                  format_bytes(static_cast<int64_t>(bytes)), ", ",
                  format_bytes(static_cast<int64_t>(available)),
                  " are free; remove models with quire rm, or set HF_HOME to a directory on a larger disk"));
}

}  // namespace quire::hub
