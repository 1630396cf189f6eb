// The quantized formats that are written, a row each: what tensors a matrix becomes, their bytes, and what
// config.json says of them. Formats: docs/weight-formats.md. Plain data and free functions; any thread.
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

// What the caller may choose; none: the format's own.
struct TargetOptions {
  std::optional<int32_t> bits;
  std::optional<int64_t> group_size;  // columns that share a scale; 0: the whole row
  std::optional<bool> zeros;          // groups have zeros of their own
  bool nested_scales = true;          // of 4-bit tables: scales are rounded too
};

// A format with everything chosen.
struct Target {
  const TargetFormat* format = nullptr;
  int32_t bits = 4;
  int64_t group_size = 128;  // 0: the whole row
  bool zeros = false;
  bool act_order = false;  // columns of a group need not stand side by side
  bool nested_scales = false;
  DType float_type = DType::kBF16;  // what the model's floats are

  // Weights become whole numbers: any method can choose them.
  bool whole_numbers() const;
  IntRounding rounding() const;
  // Written in the words of compressed-tensors.
  bool compressed_tensors() const;
};

// How a format stores a matrix.
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
  std::string_view summary;  // for people
  Packing packing;
  int32_t bits;
  std::array<int32_t, 3> other_bits = {};  // that may be chosen; 0: none
  int64_t group_size = 0;                  // 0: whole rows
  bool may_group = false;                  // the size may be chosen
  bool zeros = false;
  bool may_have_zeros = false;
  bool int8_activations = false;
  std::string_view table = {};  // kTable: "nf4" or "fp4"
};

std::span<const TargetFormat> target_formats();
// Throws Error that names the formats, or the option that the format does not have.
Target make_target(std::string_view name, const TargetOptions& options);

// The tensors that the matrix [n, k] of a module ("model.layers.0.mlp.up_proj") becomes: names, types and
// shapes. Throws Error where the format has no such matrices.
std::vector<TensorInfo> target_tensors(const Target& target, const std::string& module, int64_t n, int64_t k);
using TensorBytes = std::vector<std::vector<std::byte>>;
// Their bytes, in that order; of whole numbers, and of weights [n, k] for formats of small floats.
TensorBytes pack_ints(const Target& target, const IntMatrix& matrix);
TensorBytes pack_floats(const Target& target, ThreadPool& pool, std::span<const float> w, int64_t n,
                        int64_t k);

// config.json's quantization_config. ignored: modules whose matrices stay floats. kv_scales: there are scales
// of keys and values.
nlohmann::ordered_json quantization_config(const Target& target, const std::vector<std::string>& ignored,
                                           bool kv_scales = false);

}  // namespace quire
