// Downloads one file with several connections. The unfinished file is always a prefix of the content, so that
// this program or huggingface_hub can resume it after any interruption.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "hub/hub_client.h"

namespace quire::hub {

struct BlobPaths {
  std::filesystem::path incomplete;
  std::filesystem::path blob;
};

// Downloads what `incomplete` does not have yet, verifies the hash and renames it to `blob`. `progress`
// receives the number of bytes of the file that have arrived, on the calling thread and at least every 100
// ms; an exception from it ends the download. The caller holds the lock of the blob.
void download_blob(const Settings& settings, const std::shared_ptr<const HttpTransport>& transport,
                   const RemoteFile& file, const BlobPaths& paths,
                   const std::function<void(uint64_t)>& progress);

}  // namespace quire::hub
