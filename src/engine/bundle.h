// A model's files in one contiguous payload that can be appended to an executable: the embedded model and
// `quire bundle`.
//
//   [executable] payload: file, file, ... (each at a multiple of 64 bytes) | index (JSON) | trailer (32
//   bytes) trailer: payload bytes before the index, index bytes, version, magic; little-endian 64-bit each
//
// The payload starts at a file offset that is a multiple of 4096, so weights are mapped in place, not copied.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Views into bytes that outlive it (the program's image or a mapping).
struct Bundle {
  struct File {
    std::string name;  // relative to the model's directory
    std::string_view bytes;
  };
  std::string model_name;
  std::vector<File> files;

  // Empty if the bundle has no such file.
  std::string_view file(std::string_view name) const;
};

// The bundle at the end of `image`; nullopt if it has none. Throws Error if the bundle is damaged.
std::optional<Bundle> find_bundle(std::string_view image, const std::string& origin);
// Size of `image` in bytes without the bundle at its end.
size_t size_without_bundle(std::string_view image, const std::string& origin);

// The files needed to run a model: those of its directory, or its GGUF file. Throws Error if there are none
// or a GGUF model is split.
std::vector<std::filesystem::path> bundle_files(const std::filesystem::path& model);

// The files in the folders that a model's modules.json names (the layers after an embedding model), relative
// to its directory. Empty without that file.
std::vector<std::string> module_files(const std::filesystem::path& model);

// Writes `executable` (empty = only the payload), then the files, whose names are relative to the folder of
// the first. Throws Error that names the file at fault, and leaves no partial output.
void write_bundle(const std::filesystem::path& output, std::string_view executable,
                  const std::string& model_name, const std::vector<std::filesystem::path>& files);

}  // namespace quire
