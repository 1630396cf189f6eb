// One face for a model's weights and configuration, however they are stored. Load-time only; used by one
// thread. Views stay valid as long as the Checkpoint.
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

#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "quant/coded_matrix.h"
#include "quant/weight_format.h"
#include "tensor/tensor.h"

namespace quire {

// A model that lies in memory, for example inside the executable. The bytes must outlive the Checkpoint.
struct CheckpointBytes {
  std::string name;                        // stands in errors where a directory's path would
  std::string_view config;                 // config.json
  std::string_view generation_config;      // generation_config.json, empty where there is none
  std::span<const std::byte> safetensors;  // one safetensors file
  std::vector<std::span<const std::byte>> more_safetensors;    // the other shards of a checkpoint of several
  std::map<std::string, std::string_view, std::less<>> files;  // what Checkpoint::file() gives
  std::vector<FileIdentity> weight_files;                      // what Checkpoint::weight_files() gives
};

class Checkpoint {
 public:
  // A Hugging Face model directory: config.json and model.safetensors, or model.safetensors.index.json with
  // its shards. Or a GGUF file, or a directory with one GGUF model in it. Throws Error that names the file
  // (and tensor) at fault.
  static std::unique_ptr<Checkpoint> open(const std::filesystem::path& dir);
  static std::unique_ptr<Checkpoint> from_memory(const CheckpointBytes& files);
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& path() const = 0;  // the directory, or CheckpointBytes::name
  virtual const nlohmann::json& config() const = 0;
  virtual std::optional<nlohmann::json> generation_config() const = 0;  // none: the checkpoint has none

  // Another file that belongs to the model, by its path within the directory ("modules.json"); none: there is
  // no such file.
  virtual std::optional<std::string> file(std::string_view name) const;

  // The files that the weights lie in; none: they lie in memory, and nobody knows where they come from.
  virtual std::vector<FileIdentity> weight_files() const { return {}; }

  // What the headers of safetensors files have under this name beside their tensors; none: they have nothing.
  virtual std::optional<std::string> metadata(std::string_view) const { return std::nullopt; }

  virtual std::vector<std::string> names() const = 0;                         // sorted
  virtual const TensorInfo* find(std::string_view name) const = 0;            // null: no such tensor
  virtual std::span<const std::byte> bytes(std::string_view name) const = 0;  // of a tensor that find() knows
  // The matrix of a tensor that find() says is `coded`: [out, in] like any other, its rows as codes. Null
  // otherwise.
  virtual const CodedMatrix* coded(std::string_view name) const;
  // What products with its codes take their activations as where nobody says.
  virtual ActivationFormat usual_activations() const { return ActivationFormat::kFloat; }
  // What WeightFormat::outlier_threshold of its codes is.
  virtual float outlier_threshold() const { return 0.0F; }
  virtual int64_t total_bytes() const = 0;  // of all tensors
  // The tensor has been read: its pages need not stay in memory. It may still be read again.
  virtual void release(std::string_view name) = 0;

  // The tensor where it lies. Throws Error where there is none of this name, it has more than four
  // dimensions, or it does not lie at a multiple of its element's size (aligned() tells; copy bytes() then).
  TensorView view(std::string_view name) const;
  bool aligned(std::string_view name) const;
};

}  // namespace quire
