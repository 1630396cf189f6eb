// Weights of 8-bit and 4-bit floats, and the methods fp8 and modelopt that have nothing else.
#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"
#include "quant/code_tables.h"

namespace quire {

QuantizedModule read_float4(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            float block_scale, int64_t group_size, std::span<const float> scale_table) {
  const TensorInfo& weight = reader.need(codes, {DType::kU8}, {-1, -1});
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1] * 2;
  const int64_t groups = (k + group_size - 1) / group_size;
  reader.need(group_scales, {DType::kU8, DType::kF8E4M3}, {n, groups});
  CodedFormat format;
  format.code_bits = 4;
  format.group_size = group_size;
  format.block_size = 0;
  format.values = CodeValues::kTable;
  format.table = e2m1_values();
  format.group_scale_table = scale_table;
  const auto bytes = reader.bytes(codes);
  const ScaleGrid scales(DType::kU8, reader.bytes(group_scales), groups, 1);
  return reader.finish(format, n, k, [=](int64_t row, const CodedRow& out) {
    for (size_t i = 0; i < out.codes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(row * k / 2) + i / 2]);
      out.codes[i] = i % 2 == 0 ? byte & 15 : byte >> 4;
    }
    for (size_t g = 0; g < out.group_scales.size(); ++g)
      out.group_scales[g] = static_cast<int8_t>(scales.byte_at(row, static_cast<int64_t>(g)));
    out.block_scales[0] = block_scale;
  });
}

QuantizedModule read_float8(ModuleReader& reader, std::string_view scales, int64_t rows_in_block,
                            int64_t group_size) {
  const TensorInfo& weight = reader.need(".weight", {DType::kF8E4M3}, {-1, -1});
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1];
  CodedFormat format;
  format.code_bits = 8;
  format.values = CodeValues::kTable;
  format.table = e4m3_values();
  const ScaleGrid grid = reader.scales(scales, n, k, group_size, format, false, rows_in_block);
  const auto bytes = reader.bytes(".weight");
  return reader.finish(format, n, k, [=](int64_t row, const CodedRow& out) {
    std::memcpy(out.codes.data(), bytes.data() + row * k, out.codes.size());
    grid.read(row, out.block_scales);
  });
}

// A scale for each block of rows and columns, weight_scale_inv, which multiplies; or weight_scale.
std::vector<QuantizedModule> read_fp8(const Checkpoint& files, const nlohmann::json& config) {
  std::vector<QuantizedModule> modules;
  int64_t rows_in_block = 1;
  int64_t group_size = 0;
  if (const auto size = config.find("weight_block_size"); size != config.end() && size->is_array()) {
    if (size->size() != 2 || !(*size)[0].is_number_integer() || !(*size)[1].is_number_integer() ||
        (*size)[0].get<int64_t>() < 1 || (*size)[1].get<int64_t>() < 1)
      throw Error(cat(files.path().string(),
                      ": 'quantization_config.weight_block_size' must be two positive whole numbers"));
    rows_in_block = (*size)[0].get<int64_t>();
    group_size = (*size)[1].get<int64_t>();
  }
  for (const std::string& name : modules_with(files, ".weight_scale_inv")) {
    ModuleReader reader(files, name);
    modules.push_back(read_float8(reader, ".weight_scale_inv", rows_in_block, group_size));
  }
  for (const std::string& name : modules_with(files, ".weight_scale")) {
    ModuleReader reader(files, name);
    modules.push_back(read_float8(reader, ".weight_scale", 1, 0));
  }
  return modules;
}

// fp8 with one scale, or 4-bit floats (nvfp4): a scale e4m3 for each 16 columns, times weight_scale_2.
std::vector<QuantizedModule> read_modelopt(const Checkpoint& files, const nlohmann::json&) {
  std::vector<QuantizedModule> modules;
  for (const std::string& name : modules_with(files, ".weight_scale")) {
    ModuleReader reader(files, name);
    const TensorInfo& weight = reader.need(".weight", {DType::kU8, DType::kF8E4M3});
    if (weight.dtype == DType::kU8) {
      const float scale = reader.number(".weight_scale_2");
      modules.push_back(read_float4(reader, ".weight", ".weight_scale", scale, 16, e4m3_values()));
    } else {
      modules.push_back(read_float8(reader, ".weight_scale", 1, 0));
    }
  }
  return modules;
}

}  // namespace quire
