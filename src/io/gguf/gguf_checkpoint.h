// A GGUF model as a Checkpoint: its metadata as config.json, its tensors under their Hugging Face names.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace quire {

// Opens a GGUF file, or any of the files "NAME-00001-of-00003.gguf" of a split model. Throws Error with the
// file and the key or tensor.
std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& file);
// Opens a file in memory, which must outlive the Checkpoint. `name` is used in errors instead of a path.
// weight_files: returned by Checkpoint::weight_files().
std::unique_ptr<Checkpoint> gguf_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                             std::vector<FileIdentity> weight_files = {});

// The GGUF model of a directory: its only *.gguf file, or the first file of its only split model. Empty if
// there is none; throws Error if there are several.
std::filesystem::path find_gguf(const std::filesystem::path& dir);

// The first file of the split model that `file` belongs to. Other files are returned unchanged.
std::filesystem::path first_gguf_file(const std::filesystem::path& file);

// "model-Q4_K_M" of ".../model-Q4_K_M-00001-of-00003.gguf".
std::string gguf_model_name(const std::filesystem::path& file);

}  // namespace quire
