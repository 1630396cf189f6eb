// Names of architectures, fields and tensors in GGUF files, and in Hugging Face checkpoints.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_file.h"

namespace quire {

// All files of a GGUF model as one; the metadata are those of the first file.
class GgufModel {
 public:
  virtual ~GgufModel() = default;
  virtual const GgufFile& file() const = 0;
  virtual const GgufTensor* tensor(
      std::string_view name) const = 0;  // in any file; null if it does not exist
  virtual std::span<const std::byte> data(std::string_view name) const = 0;  // the tensor must exist

  // Notes the key of the metadata that a field of config.json is read from, for errors.
  void name_source(std::string field, std::string key) const {
    sources_.insert_or_assign(std::move(field), std::move(key));
  }
  const std::map<std::string, std::string, std::less<>>& sources() const { return sources_; }

 private:
  mutable std::map<std::string, std::string, std::less<>> sources_;
};

// Transformation that a file applies to the values or the shape of a tensor.
enum class GgufChange : uint8_t {
  kNone,
  kRow,         // a matrix with one row, stored as a vector
  kVector,      // a vector, stored with several dimensions
  kMatrices,    // a matrix, stored as several stacked matrices
  kConvKernel,  // [channels, 1, conv_kernel], stored without the dimension of size 1
  kALog,        // A_log, stored as -exp(A_log)
  kPlainNorm,   // stored without adding 1, unlike other norms of the file (GgufStyle::kNormsPlusOne)
};

// A module in the GGUF file and in the Hugging Face checkpoint, or a full tensor name in both
// ("blk.{}.ssm_a"). "{}" is the layer index, "{e}" the expert index; a tensor of the file then contains the
// matrices of all experts.
struct GgufName {
  std::string_view gguf;  // without ".weight" and ".bias"
  std::string_view name;
  GgufChange change = GgufChange::kNone;
};

// Differences to the original that apply to all tensors of a file.
enum class GgufStyle : uint8_t {
  kPlain,
  kPairs,         // rows of Q and K are stored in interleaved RoPE order; converted to NeoX order
  kNormsPlusOne,  // weights of norms are stored with 1 added
};

struct GgufArch {
  std::string_view gguf;        // general.architecture
  std::string_view name;        // as in `architectures` of config.json
  std::string_view model_type;  // as in config.json
  std::span<const GgufName> names;
  // Writes the fields of config.json.
  void (*configure)(const GgufModel& model, nlohmann::json& config) = nullptr;
  GgufStyle style = GgufStyle::kPlain;
  // Metadata with one value per layer, and the one-element tensors that contain these values in the original.
  std::span<const GgufName> numbers = {};
};

// The entry for a file's general.architecture. Throws Error with the supported ones.
const GgufArch& find_gguf_arch(const GgufModel& model);
// Returns the entry for an element of `architectures` in config.json; null if there is none.
const GgufArch* find_gguf_arch(std::string_view architecture);
// All entries for a general.architecture, of which a file is one; empty = it is not supported.
std::vector<const GgufArch*> gguf_archs(std::string_view gguf);
// Location of a module in the file, by its Hugging Face name without ".weight" or ".bias".
struct GgufModule {
  std::string name;     // empty = the architecture has no such module
  int64_t expert = -1;  // index of the matrix in the tensor; -1 = the whole tensor
};
GgufModule find_gguf_module(const GgufArch& arch, std::string_view module);
// The reverse: the Hugging Face name of a module of the file, with "{e}" for the number of the expert if its
// tensor has the matrices of all experts. Empty = the architecture has no such module.
std::string find_original_module(const GgufArch& arch, std::string_view gguf);
// Returns the permutation from interleaved RoPE order to NeoX order for a matrix with `heads` heads: row i of
// the interleaved order is row [i] of the NeoX order.
std::vector<int32_t> gguf_pair_rows(int64_t rows, int64_t heads);

// Reconstructs config.json of the Hugging Face checkpoint, and generation_config.json.
nlohmann::json gguf_config(const GgufModel& model, const GgufArch& arch);
nlohmann::json gguf_generation_config(const GgufModel& model);
// The files that sentence-transformers would write next to it, by name; empty if the model does not pool its
// outputs.
std::map<std::string, std::string, std::less<>> gguf_pooling_files(const GgufModel& model);

// "<architecture>.<key>" of the metadata: a single value, or one per layer, which must all be equal, except
// that layers without the feature have 0.
std::optional<int64_t> gguf_integer(const GgufModel& model, std::string_view key);
int64_t gguf_require(const GgufModel& model, std::string_view key, int64_t low, int64_t high);

}  // namespace quire
