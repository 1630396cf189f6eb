// The checkpoints of tests/golden. Their weights are not stored: they are drawn by a seeded generator, as
// weights.json of each describes. tools/golden_weights.py has the format and writes the same files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace quire::test {

// tests/golden in the source tree.
std::filesystem::path golden_root();

// The directory of a checkpoint, for example "models/llama", with its weights. The first call of a process
// writes the checkpoint to a temporary directory, which is removed when the process ends; checkpoints that
// are stored completely are used in the source tree. Throws Error if the description is invalid or a file
// has another CRC-32 than the description. May be called from any thread.
std::filesystem::path golden_checkpoint(const std::string& name);

// The names of a set ("models", "quantized", "pooling"), sorted.
std::vector<std::string> golden_names(const std::string& set);

// A safetensors file with the tensors of a description: {name: [dtype, shape, distribution, parameters...]}.
std::string golden_weights_file(uint64_t seed, const nlohmann::json& tensors);

// The names that a name with ranges, {first..last}, stands for.
std::vector<std::string> expand_ranges(const std::string& pattern);

}  // namespace quire::test
