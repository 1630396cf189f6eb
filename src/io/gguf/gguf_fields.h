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
// Layers, for each of which tensors are looked for.
inline constexpr int64_t kMaxGgufLayers = 16384;

// "<architecture>.<key>".
std::string gguf_key(const GgufModel& model, std::string_view key);
// A number as who wrote the file wrote it: float32 0.00001 is 1e-05, not 9.99999975e-06.
std::optional<double> gguf_number(const GgufModel& model, std::string_view key);
void copy_integer(const GgufModel& model, std::string_view key, nlohmann::json& config, const char* field);
void copy_number(const GgufModel& model, std::string_view key, nlohmann::json& config, const char* field);
bool gguf_flag(const GgufModel& model, std::string_view key, bool fallback);
bool has_tensor(const GgufModel& model, std::string_view name);
// Of layer i, by its name without "blk.{}.".
bool has_tensor(const GgufModel& model, int64_t layer, std::string_view name);
// Of any layer.
bool some_layer_has(const GgufModel& model, std::string_view name);
// A tensor that must be a vector of float32 numbers.
std::vector<float> gguf_vector(const GgufModel& model, std::string_view name);

// A key without its architecture and the field of config.json that says the same.
struct GgufField {
  std::string_view key;
  const char* field;
};
// The fields whose keys the file has: whole numbers, other numbers, truth values, by their types.
void copy_fields(const GgufModel& model, nlohmann::json& config, std::span<const GgufField> fields);

// What stays of the layers when those that only draft further tokens are left out.
int64_t gguf_layers(const GgufModel& model);
int64_t gguf_head_dim(const GgufModel& model);
// Input features of the first down projection there is, which files say more reliably than their metadata.
int64_t gguf_intermediate_size(const GgufModel& model);
// Sizes under these names.
void copy_sizes(const GgufModel& model, nlohmann::json& config, const char* hidden, const char* layers,
                const char* heads, const char* positions);
// rope_theta and rope_scaling.
void copy_rope(const GgufModel& model, nlohmann::json& config);
// What part of a head turns, where that is not all of it.
void copy_rotated_part(const GgufModel& model, nlohmann::json& config, const char* field);
// For each layer `attention` where it has queries, `other` where it has not.
nlohmann::json gguf_mixers(const GgufModel& model, const char* attention, const char* other);

}  // namespace quire
