// Reading a GGUF file's metadata into fields of config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_arch.h"

namespace quire {

inline constexpr int64_t kMaxGgufSize = int64_t{1} << 24;
// Maximum number of layers: tensors of each layer are looked up.
inline constexpr int64_t kMaxGgufLayers = 16384;

// "<architecture>.<key>".
std::string gguf_key(const GgufModel& model, std::string_view key);
// GgufValue::decimal().
std::optional<double> gguf_number(const GgufModel& model, std::string_view key);
// Copied keys have an effect if the architecture reads the field; other functions read keys that have one.
void copy_integer(const GgufModel& model, std::string_view key, nlohmann::json& config, const char* field);
void copy_number(const GgufModel& model, std::string_view key, nlohmann::json& config, const char* field);
// Same as copy_number(), but 0 counts as absent.
void copy_positive(const GgufModel& model, std::string_view key, nlohmann::json& config, const char* field);
// For a key that repeats what the model does in any case; another value is named in a warning.
void expect_value(const GgufModel& model, std::string_view key, double value);
bool gguf_flag(const GgufModel& model, std::string_view key, bool fallback);
bool has_tensor(const GgufModel& model, std::string_view name);
// name: without "blk.{}."; i is the layer.
bool has_tensor(const GgufModel& model, int64_t layer, std::string_view name);
// Whether any layer has the tensor.
bool some_layer_has(const GgufModel& model, std::string_view name);
// Reads a tensor that must be a float32 vector.
std::vector<float> gguf_vector(const GgufModel& model, std::string_view name);

// A key without its architecture, and the corresponding field of config.json.
struct GgufField {
  std::string_view key;
  const char* field;
};
// Copies the fields whose keys the file has, as integers, floats or booleans according to their types.
void copy_fields(const GgufModel& model, nlohmann::json& config, std::span<const GgufField> fields);

// Returns the number of layers without those for multi-token prediction.
int64_t gguf_layers(const GgufModel& model);
int64_t gguf_head_dim(const GgufModel& model);
// Input features of the first down projection, which are more reliable than the metadata.
int64_t gguf_intermediate_size(const GgufModel& model);
// Copies sizes to the given field names.
void copy_sizes(const GgufModel& model, nlohmann::json& config, const char* hidden, const char* layers,
                const char* heads, const char* positions);
// rope_theta and rope_scaling.
void copy_rope(const GgufModel& model, nlohmann::json& config);
// Sets partial_rotary_factor if only a part of each head is rotated.
void copy_rotated_part(const GgufModel& model, nlohmann::json& config, const char* field);
// For each layer `attention` if it has queries, otherwise `other`.
nlohmann::json gguf_mixers(const GgufModel& model, const char* attention, const char* other);

}  // namespace quire
