// A GGUF model as a Checkpoint: its metadata as config.json, its tensors under their Hugging Face names.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace quire {

// A file, or any of the files "NAME-00001-of-00003.gguf" of a split model. Throws Error that names the file
// and the key or tensor at fault.
std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& file);
// A whole file in memory, which must outlive the Checkpoint. `name` stands in errors where the path would.
// weight_files: what the Checkpoint says of them.
std::unique_ptr<Checkpoint> gguf_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                             std::vector<FileIdentity> weight_files = {});

// The GGUF model of a directory: its only *.gguf file, or the first of those of its only split model. Empty
// where there is none; throws Error where there are several.
std::filesystem::path find_gguf(const std::filesystem::path& dir);

// The first of the files of a split model that this is one of; another file is itself.
std::filesystem::path first_gguf_file(const std::filesystem::path& file);

// "model-Q4_K_M" of ".../model-Q4_K_M-00001-of-00003.gguf".
std::string gguf_model_name(const std::filesystem::path& file);

}  // namespace quire
