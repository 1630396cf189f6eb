// One reader for each quant_method: which weights of the checkpoint are codes, and how these are stored.
// Throw Error that names the tensor or the field at fault. Formats: docs/weight-formats.md.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/quantized/module_reader.h"

namespace quire {

std::vector<QuantizedModule> read_gptq(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_auto_round(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_awq(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_compressed_tensors(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_fp8(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_modelopt(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_bitsandbytes(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_bitnet(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_mxfp4(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_squeezellm(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_torchao(const Checkpoint& files, const nlohmann::json& config);
std::vector<QuantizedModule> read_quark(const Checkpoint& files, const nlohmann::json& config);

// One module of GPTQ's, which its configuration describes.
QuantizedModule read_gptq_module(ModuleReader& reader, const nlohmann::json& config);

// Codes of 4 bits, eight in an int32, along the outputs: [k, n / 8], as AWQ packs them.
struct PackedOutputs {
  std::string_view codes = ".qweight";
  std::string_view scales = ".scales";  // [groups, n]
  std::string_view zeros = ".qzeros";   // [groups, n / 8], packed as the codes are
  int64_t group_size = 0;
  bool group_zeros = true;  // false: in the middle, whatever is stored
  bool interleaved = true;  // places 0 .. 7 of a word have the outputs 0, 2, 4, 6, 1, 3, 5, 7
  bool with_signs = false;  // codes of -8 .. 7
};
QuantizedModule read_packed_outputs(ModuleReader& reader, const PackedOutputs& at);

// Whole numbers of 8 bits, with or without signs: [n, k].
struct ByteCodes {
  std::string_view codes = ".weight";
  std::string_view scales = ".weight_scale";      // one, [n], [n, groups]
  std::string_view zeros = ".weight_zero_point";  // as the scales, of the codes' type; may be missing
  int64_t group_size = 0;
  bool transposed = false;  // [k, n], scales and zeros [groups, n]
  int32_t bits = 8;         // codes with signs use so many of them
};
QuantizedModule read_byte_codes(ModuleReader& reader, const ByteCodes& at);

// A block of a matrix that has one scale; 0 columns: nobody says how many.
struct BlockSize {
  int64_t rows = 1;
  int64_t columns = 0;
};

// Weights of 4-bit floats, two in a byte, the lower column in the low half: [n, k / 2].
QuantizedModule read_float4(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            float block_scale, int64_t group_size, std::span<const float> scale_table);
// Those of 6 bits, in a stream of bits along k: [n, 3 k / 4], with powers of two for 32 columns.
QuantizedModule read_float6(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            std::span<const float> table);
// Weights of fp8 e4m3 with a scale for all, for each row, or for blocks; or with powers of two for blocks
// (uint8, e8m0).
QuantizedModule read_float8(ModuleReader& reader, std::string_view scales, BlockSize block,
                            std::string_view codes = ".weight");

// The field, or null where there is none, or nothing that has fields.
const nlohmann::json& config_field(const nlohmann::json& config, std::string_view field);
// Fields of quantization_config; the fallback where there is none. Error where it is of another type.
int64_t config_integer(const nlohmann::json& config, std::string_view field, int64_t fallback);
bool config_flag(const nlohmann::json& config, std::string_view field, bool fallback);
std::string config_text(const nlohmann::json& config, std::string_view field, std::string_view fallback);
// Two positive whole numbers, rows and columns; none: it is anything else.
std::optional<BlockSize> block_size_of(const nlohmann::json& value);

}  // namespace quire
