// What GGUF files call architectures, fields and tensors, and what Hugging Face's checkpoints call them.
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

// A GGUF model's files looked at as one: its metadata are those of the first file.
class GgufModel {
 public:
  virtual ~GgufModel() = default;
  virtual const GgufFile& file() const = 0;
  virtual const GgufTensor* tensor(std::string_view name) const = 0;  // of all files; null: there is none
  virtual std::span<const std::byte> data(std::string_view name) const = 0;  // of a tensor that is there
};

// What a file does to the values or the shape of a tensor.
enum class GgufChange : uint8_t {
  kNone,
  kRow,        // a matrix of one row, stored as a vector
  kVector,     // a vector, stored in several dimensions
  kMatrices,   // a matrix, stored as several that follow each other
  kTaps,       // [channels, 1, taps], stored without the dimension of size one
  kRate,       // logarithms, stored as -exp of them
  kPlainNorm,  // stored without 1 added where other norms have it (GgufStyle::kNormsPlusOne)
};

// A module of the file and what Hugging Face calls it, or a whole tensor of both ("blk.{}.ssm_a"). "{}" is
// the layer's number, "{e}" the expert's: the tensor then holds the matrices of all experts.
struct GgufName {
  std::string_view gguf;  // without ".weight" and ".bias"
  std::string_view name;
  GgufChange change = GgufChange::kNone;
};

// How a file's tensors differ from the original's throughout.
enum class GgufStyle : uint8_t {
  kPlain,
  kPairs,  // rows of queries and keys are stored as pairs of neighbours turn; undone, halves of a head turn
  kNormsPlusOne,  // weights of norms are stored with 1 added
};

struct GgufArch {
  std::string_view gguf;        // general.architecture
  std::string_view name;        // as config.json's `architectures` has it
  std::string_view model_type;  // as config.json has it
  std::span<const GgufName> names;
  // Writes the fields of config.json.
  void (*configure)(const GgufModel& model, nlohmann::json& config) = nullptr;
  GgufStyle style = GgufStyle::kPlain;
  // Metadata with a number for each layer, and the tensors of one number that they are in the original.
  std::span<const GgufName> numbers = {};
};

// The row of a file's general.architecture. Throws Error naming those that are supported.
const GgufArch& find_gguf_arch(const GgufModel& model);
// The row of one of config.json's `architectures`; null: there is none.
const GgufArch* find_gguf_arch(std::string_view architecture);
// Where the file has a module by its Hugging Face name without ".weight" or ".bias".
struct GgufModule {
  std::string name;     // empty: the architecture has no such module
  int64_t expert = -1;  // which of the matrices in its tensor; -1: it is all of it
};
GgufModule find_gguf_module(const GgufArch& arch, std::string_view module);
// Row i of a matrix of `heads` heads in which pairs of neighbours turn is row [i] of this of the matrix in
// which halves of a head turn.
std::vector<int32_t> gguf_pair_rows(int64_t rows, int64_t heads);

// config.json as the model's Hugging Face checkpoint would have it, and generation_config.json.
nlohmann::json gguf_config(const GgufModel& model, const GgufArch& arch);
nlohmann::json gguf_generation_config(const GgufModel& model);
// What sentence-transformers would write beside it, by the files' names; empty where the model's vectors are
// not pooled.
std::map<std::string, std::string, std::less<>> gguf_pooling_files(const GgufModel& model);

// "<architecture>.<key>" of the metadata: one number, or one for each layer: the same, or 0 for a layer that
// has no such thing.
std::optional<int64_t> gguf_integer(const GgufModel& model, std::string_view key);
int64_t gguf_require(const GgufModel& model, std::string_view key, int64_t low, int64_t high);

}  // namespace quire
