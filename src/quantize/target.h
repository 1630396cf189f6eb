// The quantized formats that can be written, one row each: the tensors of a matrix, their bytes, and the
// quantization_config in config.json. Formats: docs/weight-formats.md. Plain data and free functions;
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "io/safetensors.h"
#include "quant/int_rounding.h"

namespace quire {

struct TargetFormat;

// Options of the caller; unset = default of the format.
struct TargetOptions {
  std::optional<int32_t> bits;
  std::optional<int64_t> group_size;  // columns that share a scale; 0 = full row
  std::optional<bool> zero_points;    // zero points per group
  bool nested_scales = true;          // 4-bit tables: quantize scales, too (double quantization)
};

// A format with all options resolved.
struct Target {
  const TargetFormat* format = nullptr;
  int32_t bits = 4;
  int64_t group_size = 128;  // 0 = full row
  bool zero_points = false;
  bool act_order = false;  // columns of a group need not be adjacent
  bool nested_scales = false;
  DType float_type = DType::kBF16;  // float type of the model

  // Weights are rounded to integers, which all methods support.
  bool is_integer() const;
  IntRounding rounding() const;
  // The format uses the configuration of compressed-tensors.
  bool compressed_tensors() const;
};

// Storage of a matrix in a format.
enum class Packing : uint8_t {
  kGptq,
  kAwq,
  kPackedInts,
  kInt8,
  kFloat8Rows,
  kFloat8Blocks,
  kNvFp4,
  kMxFp4,
  kTable
};

struct TargetFormat {
  std::string_view name;
  std::string_view summary;  // description for users
  Packing packing;
  int32_t bits;
  std::array<int32_t, 3> other_bits = {};  // other supported widths; 0 = unused
  int64_t group_size = 0;                  // 0 = full rows
  bool allows_group_size = false;          // whether the group size can be changed
  bool zero_points = false;
  bool allows_zero_points = false;
  bool int8_activations = false;
  std::string_view table = {};  // kTable: "nf4" or "fp4"
};

std::span<const TargetFormat> target_formats();
// Throws Error that lists the formats, or names the option that the format does not support.
Target make_target(std::string_view name, const TargetOptions& options);

// The tensors of a quantized matrix [n, k] of a module ("model.layers.0.mlp.up_proj"): names, types and
// shapes. Throws Error if the format does not support the shape.
std::vector<TensorInfo> target_tensors(const Target& target, const std::string& module, int64_t n, int64_t k);
using TensorBytes = std::vector<std::vector<std::byte>>;
// Their bytes, in that order: of integer matrices, and of weights [n, k] for small-float formats.
TensorBytes pack_ints(const Target& target, const IntMatrix& matrix);
TensorBytes pack_floats(const Target& target, ThreadPool& pool, std::span<const float> w, int64_t n,
                        int64_t k);

// quantization_config in config.json. ignored: modules whose matrices remain floats. kv_scales: whether there
// are scales of keys and values.
nlohmann::ordered_json quantization_config(const Target& target, const std::vector<std::string>& ignored,
                                           bool kv_scales = false);

}  // namespace quire
