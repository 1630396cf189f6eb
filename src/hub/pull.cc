#include "hub/pull.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "hub/blob_download.h"
#include "hub/cache.h"
#include "hub/file_lock.h"
#include "hub/file_selection.h"
#include "hub/hub_client.h"
#include "hub/weight_header.h"

namespace quire::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxIndex = 256 << 20;
constexpr uint64_t kFirstHeaderRead = 256 << 10;
constexpr std::array<std::string_view, 7> kTokenizerFiles = {
    "tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model",
    "qwen.tiktoken",  "vocab.json",      "vocab.txt"};

bool is_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".gguf");
}

bool has_tokenizer(const std::vector<std::string>& files) {
  return std::ranges::any_of(
      kTokenizerFiles, [&](std::string_view name) { return std::ranges::find(files, name) != files.end(); });
}

std::string read_index(const fs::path& path) {
  std::error_code error;
  if (fs::file_size(path, error) > kMaxIndex || error) throw Error(cat(path.string(), ": cannot be read"));
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A directory that is removed with its content.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "quire-check-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(cat("cannot create a directory in ", fs::temp_directory_path().string(), ": ",
                      std::strerror(errno)));
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A file of this size that has only its first bytes.
void write_prefix(const fs::path& path, std::string_view prefix, uint64_t size) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(prefix.data(), static_cast<std::streamsize>(prefix.size()));
  std::error_code error;
  fs::resize_file(path, size, error);
  if (error) throw Error(cat("cannot write ", path.string(), ": ", error.message()));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// One pull. Small files are fetched first, then the headers of the weights are checked, then the weights are
// fetched; the branch is updated last.
class Pull {
 public:
  Pull(const Settings& settings, const ModelName& name, const PullOptions& options,
       const PullCallbacks& callbacks)
      : settings_(settings),
        name_(name),
        options_(options),
        callbacks_(callbacks),
        cache_(settings.cache, name.repo),
        transport_(std::make_shared<HttpTransport>(settings)),
        client_(settings, transport_) {}

  PulledModel run() {
    const RepoInfo info = client_.repo_info(name_.repo, options_.revision);
    FileSelection selection = select_files(name_, info.files);
    commit_ = info.commit;
    cache_.create_directories();
    if (options_.text_only) std::erase_if(selection.small, is_weights);
    std::vector<RemoteFile> missing = missing_files(selection.small);
    fetch(missing);
    if (!selection.index.empty() && !options_.text_only)
      selection.weights = files_of_index(read_index(cache_.snapshot(commit_) / selection.index), info.files);
    if (!options_.text_only || !selection.gguf.empty()) {
      missing = missing_files(selection.weights);
      if (!missing.empty()) {
        require_space(cache_.path(), needed_bytes(missing));
        check(selection, missing);
        announce(missing);
        fetch(missing);
      }
    }
    cache_.set_ref(options_.revision, commit_);
    const fs::path directory = cache_.snapshot(commit_);
    return {selection.gguf.empty() ? directory : directory / selection.gguf, commit_, downloaded_};
  }

 private:
  // Files that the snapshot does not have, with their metadata. Blobs that exist are linked.
  std::vector<RemoteFile> missing_files(const std::vector<std::string>& names) {
    std::vector<RemoteFile> missing;
    std::error_code error;
    for (const std::string& file : names) {
      if (fs::is_regular_file(cache_.snapshot(commit_) / file, error)) continue;
      RemoteFile remote = client_.file_info(name_.repo, commit_, file);
      if (fs::exists(cache_.blob(remote.etag), error)) {
        cache_.link(commit_, file, remote.etag);
      } else {
        missing.push_back(std::move(remote));
      }
      report({file, bytes_, total_, false});
    }
    return missing;
  }

  // Bytes of an earlier download of this file.
  uint64_t existing_bytes(const RemoteFile& file) const {
    std::error_code error;
    const uint64_t size = fs::file_size(cache_.incomplete(file.etag), error);
    return error || size > file.size ? 0 : size;
  }

  void announce(const std::vector<RemoteFile>& files) const {
    uint64_t size = 0;
    for (const RemoteFile& file : files) size += file.size;
    log_info("Downloading ", name_.text(), ": ", files.size(),
             files.size() == 1 ? " weight file, " : " weight files, ",
             format_bytes(static_cast<int64_t>(size)), ", to ", cache_.path().string());
  }

  // Bytes that remain to be downloaded.
  uint64_t needed_bytes(const std::vector<RemoteFile>& files) const {
    uint64_t needed = 0;
    std::set<std::string> blobs;
    for (const RemoteFile& file : files) {
      if (blobs.insert(file.etag).second) needed += file.size - existing_bytes(file);
    }
    return needed;
  }

  void fetch(const std::vector<RemoteFile>& files) {
    require_space(cache_.path(), needed_bytes(files));
    total_ = bytes_;
    for (const RemoteFile& file : files) total_ += file.size;
    for (const RemoteFile& file : files) fetch(file);
  }

  void fetch(const RemoteFile& file) {
    const fs::path blob = cache_.blob(file.etag);
    const FileLock lock(cache_.lock(file.etag), [&] {
      report({file.name, bytes_ + existing_bytes(file), total_, true});
    });
    std::error_code error;
    if (!fs::exists(blob, error)) {
      fs::path incomplete = cache_.incomplete(file.etag);
      if (!lock.locked()) incomplete = cache_.incomplete(cat(file.etag, ".", ::getpid()));
      const uint64_t before = existing_bytes(file);
      download_blob(settings_, transport_, file, {incomplete, blob}, [&](uint64_t done) {
        report({file.name, bytes_ + done, total_, false});
      });
      downloaded_ += file.size - before;
    }
    cache_.link(commit_, file.name, file.etag);
    bytes_ = std::min(total_, bytes_ + file.size);
    report({file.name, bytes_, total_, false});
  }

  // The first bytes of a weight file, up to the end of its header.
  std::string read_header(RemoteFile& file) {
    std::string prefix;
    uint64_t wanted = std::min(file.size, kFirstHeaderRead);
    while (prefix.size() < wanted) {
      client_.read_range(file, prefix.size(), wanted, [&](std::string_view piece) { prefix += piece; }, {});
      wanted = std::min(file.size, header_size(prefix));
    }
    return prefix;
  }

  // Lets the caller check a copy of the model without the content of its tensors.
  void check(const FileSelection& selection, std::vector<RemoteFile>& missing) {
    if (!callbacks_.check) return;
    const TemporaryDirectory directory;
    const fs::path snapshot = cache_.snapshot(commit_);
    for (const std::vector<std::string>* names : {&selection.small, &selection.weights}) {
      for (const std::string& file : *names) {
        if (!fs::exists(snapshot / file)) continue;
        fs::create_directories((directory.path() / file).parent_path());
        fs::create_symlink(snapshot / file, directory.path() / file);
      }
    }
    for (RemoteFile& file : missing) {
      report({file.name, bytes_, total_, false});
      try {
        write_prefix(directory.path() / file.name, read_header(file), file.size);
      } catch (const RangeIgnored&) {
        return;  // the model is checked when it is loaded
      }
    }
    try {
      callbacks_.check(selection.gguf.empty() ? directory.path() : directory.path() / selection.gguf);
    } catch (const Error& error) {
      const std::string message = replaced(error.what(), directory.path().string(), name_.repo);
      throw Error(message.starts_with(name_.repo) ? message : cat(name_.repo, ": ", message));
    }
  }

  void report(const PullProgress& progress) const {
    if (callbacks_.progress) callbacks_.progress(progress);
  }

  const Settings& settings_;
  const ModelName& name_;
  const PullOptions& options_;
  const PullCallbacks& callbacks_;
  RepoCache cache_;
  std::shared_ptr<const HttpTransport> transport_;
  HubClient client_;
  std::string commit_;
  uint64_t bytes_ = 0;
  uint64_t total_ = 0;
  uint64_t downloaded_ = 0;
};

}  // namespace

std::optional<PulledModel> find_cached(const Settings& settings, const ModelName& name,
                                       const PullOptions& options) {
  const RepoCache cache(settings.cache, name.repo);
  const auto commit = cache.commit_of(options.revision);
  if (!commit) return std::nullopt;
  const fs::path directory = cache.snapshot(*commit);
  const std::vector<std::string> files = cache.files(*commit);
  if (options.text_only && name.tag.empty() && name.file.empty() && has_tokenizer(files))
    return PulledModel{directory, *commit, 0};
  try {
    const FileSelection selection = select_files(name, files);
    if (!selection.index.empty()) files_of_index(read_index(directory / selection.index), files);
    if (!selection.gguf.empty()) return PulledModel{directory / selection.gguf, *commit, 0};
    return PulledModel{directory, *commit, 0};
  } catch (const Error&) {
    return std::nullopt;  // files are missing
  }
}

PulledModel pull(const Settings& settings, const ModelName& name, const PullOptions& options,
                 const PullCallbacks& callbacks) {
  if (!is_revision(options.revision))
    throw Error(
        cat("--revision: '", escape_log_text(options.revision), "' is not a valid branch, tag or commit"));
  const auto cached = find_cached(settings, name, options);
  if (cached && !options.update) {
    // A directory without a tokenizer may have been downloaded in part by another program.
    const bool sure = fs::is_regular_file(cached->path) ||
                      has_tokenizer(RepoCache(settings.cache, name.repo).files(cached->commit));
    if (sure || settings.offline) return *cached;
  }
  if (settings.offline)
    throw ModelNotFound(cat(name.text(), ": is not in the cache ", settings.cache.string(),
                            ", and HF_HUB_OFFLINE is set; unset it to download the model"));
  try {
    return Pull(settings, name, options, callbacks).run();
  } catch (const Error& error) {
    if (!cached || options.update) throw;
    log_warning(error.what(), "; using the files in the cache");
    return *cached;
  }
}

}  // namespace quire::hub
