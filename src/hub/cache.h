// The cache of huggingface_hub: models--ORG--NAME/{refs,blobs,snapshots} and .locks. Files of a snapshot are
// relative links to blobs, which are named by their hash. In a cache that was made or copied without links,
// the snapshots contain the files themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/model_name.h"

namespace quire::hub {

// Paths of one repository in the cache. Nothing is created until a member says so.
class RepoCache {
 public:
  // repo: "org/name", valid by is_repo_id().
  RepoCache(const std::filesystem::path& cache, const std::string& repo);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path snapshot(std::string_view commit) const { return path_ / "snapshots" / commit; }
  std::filesystem::path blob(std::string_view etag) const { return path_ / "blobs" / etag; }
  // A prefix of the blob while it is downloaded.
  std::filesystem::path incomplete(std::string_view etag) const;
  std::filesystem::path lock(std::string_view etag) const;
  std::filesystem::path locks() const { return locks_; }

  // The commit of a branch, tag or commit if its snapshot exists.
  std::optional<std::string> commit_of(const std::string& revision) const;
  // Paths of the files in a snapshot, relative to it. Links without a blob are left out.
  std::vector<std::string> files(std::string_view commit) const;

  void create_directories() const;
  // Makes `name` in the snapshot a link to a blob.
  void link(std::string_view commit, const std::string& name, std::string_view etag) const;
  // Stores the commit of a branch or tag; nothing for a commit.
  void set_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path cache_;
  std::filesystem::path path_;
  std::filesystem::path locks_;
};

// A repository in the cache.
struct CachedRepo {
  std::string repo;
  int64_t bytes = 0;                    // files, each counted once, with unfinished downloads
  int64_t incomplete_bytes = 0;         // unfinished downloads
  double modified = 0.0;                // seconds since 1970, the newest file
  std::vector<std::string> revisions;   // branches and tags that have a snapshot
  std::vector<std::string> gguf_files;  // in any snapshot
};

// All repositories in the cache, by name.
std::vector<CachedRepo> cached_repos(const std::filesystem::path& cache);

// Removes a repository and its lock files, or the files of a GGUF model from all its snapshots. Returns the
// number of freed bytes. Throws Error if the cache does not have the model or another process downloads it.
int64_t remove_model(const std::filesystem::path& cache, const ModelName& name);

// Throws Error with both numbers if the file system of `path` has less free space.
void require_space(const std::filesystem::path& path, uint64_t bytes);

}  // namespace quire::hub
