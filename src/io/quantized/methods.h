// One reader per quant_method: finds the quantized weights of a checkpoint and their storage. `config` is the
// quantization_config. They throw Error with the tensor or the field. Formats: docs/weight-formats.md.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/config_reader.h"
#include "io/quantized/module_reader.h"

namespace quire {

std::vector<QuantizedModule> read_gptq(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_auto_round(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_awq(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_compressed_tensors(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_fp8(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_modelopt(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_bitsandbytes(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_bitnet(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_mxfp4(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_squeezellm(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_torchao(const Checkpoint& files, const ConfigReader& config);
std::vector<QuantizedModule> read_quark(const Checkpoint& files, const ConfigReader& config);

// One GPTQ module with the given configuration.
QuantizedModule read_gptq_module(ModuleReader& reader, const ConfigReader& config);

// 4-bit values, eight per int32 along the outputs: [k, n / 8], as packed by AWQ.
struct PackedOutputs {
  std::string_view codes = ".qweight";
  std::string_view scales = ".scales";       // [groups, n]
  std::string_view zero_points = ".qzeros";  // [groups, n / 8], packed like the values
  int64_t group_size = 0;
  bool group_zero_points = true;  // false = in the middle, regardless of what is stored
  bool interleaved = true;        // fields 0 to 7 of a word are the outputs 0, 2, 4, 6, 1, 3, 5, 7
  bool with_signs = false;        // signed values, -8 to 7
};
QuantizedModule read_packed_outputs(ModuleReader& reader, const PackedOutputs& at);

// 8-bit integers, signed or unsigned: [n, k].
struct ByteCodes {
  std::string_view codes = ".weight";
  std::string_view scales = ".weight_scale";  // one, [n], [n, groups]
  std::string_view zero_points =
      ".weight_zero_point";  // same shape as the scales, same type as the values; optional
  int64_t group_size = 0;
  bool transposed = false;  // [k, n], scales and zero points [groups, n]
  int32_t bits = 8;         // number of bits used by signed values
};
QuantizedModule read_byte_codes(ModuleReader& reader, const ByteCodes& at);

// A block of a matrix that shares a scale. columns: 0 = unknown.
struct BlockSize {
  int64_t rows = 1;
  int64_t columns = 0;
};

// 4-bit float weights, two per byte, the lower column in the low half: [n, k / 2].
QuantizedModule read_float4(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            float block_scale, int64_t group_size, std::span<const float> scale_table);
// 6-bit float weights in a bit stream along K: [n, 3 k / 4], with power-of-two scales per 32 columns.
QuantizedModule read_float6(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            std::span<const float> table);
// fp8 e4m3 weights with one scale, or scales per row or per block; block scales may be powers of two (uint8,
// e8m0).
QuantizedModule read_float8(ModuleReader& reader, std::string_view scales, BlockSize block,
                            std::string_view codes = ".weight");

// The field, or null if it does not exist or `config` is not an object.
const nlohmann::json& config_field(const nlohmann::json& config, std::string_view field);
// Two positive integers, rows and columns; nullopt for anything else.
std::optional<BlockSize> block_size_of(const nlohmann::json& value);

}  // namespace quire
