// Gets the files of a model into the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "hub/model_name.h"
#include "hub/settings.h"

namespace quire::hub {

struct PullOptions {
  std::string revision = "main";  // branch, tag or commit
  bool text_only = false;         // configuration, tokenizer and templates; the whole file of a GGUF model
  bool update = false;            // ask the hub for a newer commit although the files are in the cache
};

struct PullProgress {
  std::string file;    // that is downloaded at the moment
  uint64_t bytes = 0;  // total size of the files
  uint64_t total = 0;
  bool waiting = false;  // another process downloads the file
};

struct PullCallbacks {
  // Called on the calling thread, several times per second. An exception from it ends the pull; what has been
  // downloaded is kept.
  std::function<void(const PullProgress&)> progress;
  // Called before weights are downloaded, with a temporary directory that has the small files and, for each
  // weight file, its header; the rest of the weight files are holes. Throws Error if the model cannot be run.
  // Paths of the directory in the message are replaced by the name of the repository.
  std::function<void(const std::filesystem::path&)> check;
};

struct PulledModel {
  std::filesystem::path path;  // the snapshot's directory, or the (first) GGUF file
  std::string commit;
  uint64_t downloaded = 0;  // bytes
};

// The model in the cache, without any network access; nullopt if files are missing.
std::optional<PulledModel> find_cached(const Settings& settings, const ModelName& name,
                                       const PullOptions& options);

// Downloads what the cache does not have. Without `update`, a complete model in the cache needs no network
// access. Throws Error with advice.
PulledModel pull(const Settings& settings, const ModelName& name, const PullOptions& options,
                 const PullCallbacks& callbacks);

}  // namespace quire::hub
