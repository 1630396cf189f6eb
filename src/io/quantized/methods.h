// One reader for each quant_method: which weights of the checkpoint are codes, and how these are stored.
// Throw Error that names the tensor or the field at fault. Formats: docs/weight-formats.md.
#pragma once

#include <nlohmann/json.hpp>
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

// One module of GPTQ's, which its configuration describes.
QuantizedModule read_gptq_module(ModuleReader& reader, const nlohmann::json& config);

// Fields of quantization_config; the fallback where there is none. Error where it is of another type.
int64_t config_integer(const nlohmann::json& config, std::string_view field, int64_t fallback);
bool config_flag(const nlohmann::json& config, std::string_view field, bool fallback);
std::string config_text(const nlohmann::json& config, std::string_view field, std::string_view fallback);

// Weights of 4-bit floats, two in a byte, the lower column in the low half: [n, k / 2].
QuantizedModule read_float4(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            float block_scale, int64_t group_size, std::span<const float> scale_table);
// Weights of fp8 e4m3 with a scale for all, for each row, or for groups of columns and blocks of rows.
QuantizedModule read_float8(ModuleReader& reader, std::string_view scales, int64_t rows_in_block,
                            int64_t group_size);

}  // namespace quire
