// A model's files as one run of bytes, so that an executable can carry them: the embedded model and `quire
// bundle`.
//
//   [executable] payload: file, file, ... (each at a multiple of 64 bytes) | index (JSON) | trailer (32
//   bytes) trailer: payload bytes before the index, index bytes, version, magic; little-endian 64-bit each
//
// The payload starts at a multiple of 4096 of the file, so that weights are mapped in place and never copied.
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

  // Empty where there is no such file.
  std::string_view file(std::string_view name) const;
};

// The bundle at the end of `image`, or none where the image carries none. Throws Error where it carries a
// broken one.
std::optional<Bundle> find_bundle(std::string_view image, const std::string& origin);
// Bytes of `image` without the bundle at its end.
size_t size_without_bundle(std::string_view image, const std::string& origin);

// The files that a program needs to run a model: of its directory, or its GGUF file alone. Throws Error where
// there is none, or where a GGUF model is split.
std::vector<std::filesystem::path> bundle_files(const std::filesystem::path& model);

// The files of the folders that a model's modules.json names, relative to its directory: what stands behind
// the model of an embedding. None where there is no such file.
std::vector<std::string> module_files(const std::filesystem::path& model);

// Writes `executable` (may be empty: the payload alone), then the files, whose names are relative to the
// folder of the first. Throws Error naming the file at
// fault; leaves no half-written output behind.
void write_bundle(const std::filesystem::path& output, std::string_view executable,
                  const std::string& model_name, const std::vector<std::filesystem::path>& files);

}  // namespace quire
