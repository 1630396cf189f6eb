// A model's weights and configuration, independent of the storage format. Load-time only; used by one thread.
// Views stay valid as long as the Checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/config_origin.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "quant/quantized_matrix.h"
#include "quant/weight_format.h"
#include "tensor/tensor.h"

namespace quire {

// A model in memory, for example inside the executable. The bytes must outlive the Checkpoint.
struct CheckpointBytes {
  std::string name;                                            // used in errors instead of a path
  std::string_view config;                                     // config.json
  std::string_view generation_config;                          // generation_config.json; empty = none
  std::span<const std::byte> safetensors;                      // one safetensors file
  std::vector<std::span<const std::byte>> more_safetensors;    // the other shards
  std::map<std::string, std::string_view, std::less<>> files;  // returned by Checkpoint::file()
  std::vector<FileIdentity> weight_files;                      // returned by Checkpoint::weight_files()
};

class Checkpoint {
 public:
  // Opens a Hugging Face model directory (config.json and model.safetensors, or shards with or without
  // model.safetensors.index.json), a GGUF file, or a directory with one GGUF model. Throws Error with the
  // file, and the tensor if there is one.
  static std::unique_ptr<Checkpoint> open(const std::filesystem::path& dir);
  static std::unique_ptr<Checkpoint> from_memory(const CheckpointBytes& files);
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& path() const = 0;  // the directory, or CheckpointBytes::name
  virtual const nlohmann::json& config() const = 0;
  virtual ConfigOrigin config_origin() const { return {}; }
  virtual std::optional<nlohmann::json> generation_config() const = 0;  // nullopt if there is none

  // Another file of the model, by its path within the directory ("modules.json"); nullopt if it does not
  // exist.
  virtual std::optional<std::string> file(std::string_view name) const;

  // Settings in the files that quire does not follow, one sentence each.
  virtual std::vector<std::string> warnings() const { return {}; }

  // The files that contain the weights; empty if they are in memory and their origin is unknown.
  virtual std::vector<FileIdentity> weight_files() const { return {}; }

  // An entry of `__metadata__` in the headers of safetensors files; nullopt if it does not exist.
  virtual std::optional<std::string> metadata(std::string_view) const { return std::nullopt; }

  virtual std::vector<std::string> names() const = 0;                         // sorted
  virtual const TensorInfo* find(std::string_view name) const = 0;            // null if it does not exist
  virtual std::span<const std::byte> bytes(std::string_view name) const = 0;  // the tensor must exist
  // The matrix of a tensor that is `quantized`: [out, in] like any other, with codes in its rows. Null for
  // other tensors.
  virtual const QuantizedMatrix* quantized(std::string_view name) const;
  // Activation format for products with quantized weights, unless the user chooses one.
  virtual ActivationFormat default_activations() const { return ActivationFormat::kFloat; }
  // WeightFormat::outlier_threshold of the quantized weights.
  virtual float outlier_threshold() const { return 0.0F; }
  // WeightFormat::token_scales of the quantized weights with int8 activations.
  virtual bool token_activation_scales() const { return false; }
  virtual int64_t total_bytes() const = 0;  // sum over all tensors
  // Releases the pages of a tensor that has been read. It may still be read again.
  virtual void release(std::string_view name) = 0;

  // A view of the tensor in place. Throws Error if it does not exist, has more than four dimensions, or is
  // not aligned to its element size (see aligned(); copy bytes() in this case).
  TensorView view(std::string_view name) const;
  bool aligned(std::string_view name) const;
};

}  // namespace quire
