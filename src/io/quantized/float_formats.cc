// 4-, 6- and 8-bit float weights, and the methods fp8 and modelopt, which use only these.
#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"
#include "quant/code_tables.h"

namespace quire {

namespace {

void read_group_scales(const ScaleGrid& scales, int64_t row, const QuantizedRow& out) {
  for (size_t g = 0; g < out.group_scales.size(); ++g)
    out.group_scales[g] = static_cast<int8_t>(scales.byte_at(row, static_cast<int64_t>(g)));
}

// The codes and the scales are stored row by row.
QuantizedModule finish_float4(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                              int64_t n, int64_t k, float block_scale, int64_t group_size,
                              std::span<const float> scale_table) {
  QuantFormat format;
  format.code_bits = 4;
  format.group_size = group_size;
  format.block_size = 0;
  format.values = CodeValues::kTable;
  format.table = e2m1_values();
  format.group_scale_table = scale_table;
  const auto bytes = reader.bytes(codes);
  const ScaleGrid scales(DType::kU8, reader.bytes(group_scales), (k + group_size - 1) / group_size, 1);
  return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
    for (size_t i = 0; i < out.codes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(row * k / 2) + i / 2]);
      out.codes[i] = i % 2 == 0 ? byte & 15 : byte >> 4;
    }
    read_group_scales(scales, row, out);
    out.block_scales[0] = block_scale;
  });
}

}  // namespace

QuantizedModule read_float4(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            float block_scale, int64_t group_size, std::span<const float> scale_table) {
  const TensorInfo& weight = reader.need(codes, {DType::kU8, DType::kI8}, {-1, -1});
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1] * 2;
  const int64_t groups = (k + group_size - 1) / group_size;
  reader.need(group_scales, {DType::kU8, DType::kF8E4M3}, {n, groups});
  return finish_float4(reader, codes, group_scales, n, k, block_scale, group_size, scale_table);
}

QuantizedModule read_float6(ModuleReader& reader, std::string_view codes, std::string_view group_scales,
                            std::span<const float> table) {
  constexpr int64_t kGroup = 32;
  constexpr int64_t kGroupBytes = kGroup * 6 / 8;
  const TensorInfo& weight = reader.need(codes, {DType::kU8}, {-1, -1});
  const int64_t n = weight.shape[0];
  const int64_t groups = weight.shape[1] / kGroupBytes;
  if (groups * kGroupBytes != weight.shape[1])
    reader.fail(codes, cat("is ", weight.shape_text(), ", which is not a multiple of 32 codes of 6 bits"));
  reader.need(group_scales, {DType::kU8}, {n, groups});
  QuantFormat format;
  format.code_bits = 6;
  format.group_size = kGroup;
  format.block_size = 0;
  format.values = CodeValues::kTable;
  format.table = table;
  format.group_scale_table = e8m0_values();
  const auto bytes = reader.bytes(codes);
  const ScaleGrid scales(DType::kU8, reader.bytes(group_scales), groups, 1);
  return reader.finish(format, n, groups * kGroup, [=](int64_t row, const QuantizedRow& out) {
    const auto stream = BitStreams::row(bytes, row, groups * kGroupBytes / 4, 6);
    for (size_t i = 0; i < out.codes.size(); ++i) out.codes[i] = stream.code(0, static_cast<int64_t>(i));
    read_group_scales(scales, row, out);
    out.block_scales[0] = 1.0F;
  });
}

QuantizedModule read_float8(ModuleReader& reader, std::string_view scales, BlockSize block,
                            std::string_view codes) {
  const TensorInfo& weight = reader.need(codes, {DType::kF8E4M3}, {-1, -1});
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1];
  QuantFormat format;
  format.code_bits = 8;
  format.values = CodeValues::kTable;
  format.table = e4m3_values();
  const auto bytes = reader.bytes(codes);
  const TensorInfo* stored = reader.find(scales);
  if (stored == nullptr || stored->dtype != DType::kU8) {
    const ScaleGrid grid = reader.scales(scales, n, k, block.columns, format, false, block.rows);
    return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
      std::memcpy(out.codes.data(), bytes.data() + row * k, out.codes.size());
      grid.read(row, out.block_scales);
    });
  }
  const int64_t columns = block.columns > 0 ? block.columns : 32;
  const int64_t groups = (k + columns - 1) / columns;
  reader.need(scales, {DType::kU8}, {(n + block.rows - 1) / block.rows, groups});
  format.group_size = columns;
  format.block_size = 0;
  format.group_scale_table = e8m0_values();
  const ScaleGrid powers(DType::kU8, reader.bytes(scales), groups, 1, block.rows);
  return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
    std::memcpy(out.codes.data(), bytes.data() + row * k, out.codes.size());
    out.block_scales[0] = 1.0F;
    read_group_scales(powers, row, out);
  });
}

// One scale per block of rows and columns, weight_scale_inv, which multiplies; or weight_scale. DeepSeek-V4
// names it scale, and also contains 4-bit floats, two per byte, with scales per group of 32.
std::vector<QuantizedModule> read_fp8(const Checkpoint& files, const ConfigReader& config) {
  std::vector<QuantizedModule> modules;
  BlockSize block;
  if (const nlohmann::json* size = config.find("weight_block_size")) {
    const auto said = block_size_of(*size);
    if (!said) config.fail("weight_block_size", "must be two positive integers");
    block = *said;
  }
  read_each(files, ".weight_scale_inv", modules,
            [&](ModuleReader& reader) { return read_float8(reader, ".weight_scale_inv", block); });
  read_each(files, ".weight_scale", modules,
            [](ModuleReader& reader) { return read_float8(reader, ".weight_scale", {}); });
  for (const std::string& name : modules_with(files, ".scale")) {
    const TensorInfo* weight = files.find(name + ".weight");
    if (weight == nullptr) continue;  // a scale of another tensor
    ModuleReader reader(files, name);
    modules.push_back(weight->dtype == DType::kF8E4M3
                          ? read_float8(reader, ".scale", block)
                          : read_float4(reader, ".weight", ".scale", 1.0F, 32, e8m0_values()));
  }
  return modules;
}

// fp8 with one scale, or 4-bit floats (nvfp4): an e4m3 scale per 16 columns, multiplied by weight_scale_2.
std::vector<QuantizedModule> read_modelopt(const Checkpoint& files, const ConfigReader&) {
  std::vector<QuantizedModule> modules;
  read_each(files, ".weight_scale", modules, [](ModuleReader& reader) {
    const TensorInfo& weight = reader.need(".weight", {DType::kU8, DType::kF8E4M3});
    if (weight.dtype != DType::kU8) return read_float8(reader, ".weight_scale", {});
    const float scale = reader.number(".weight_scale_2");
    return read_float4(reader, ".weight", ".weight_scale", scale, 16, e4m3_values());
  });
  return modules;
}

// The experts of gpt-oss in one tensor: X_blocks uint8 [experts, out, in / 32, 16], two codes per byte, the
// lower column in the low half; X_scales uint8 [experts, out, in / 32], powers of two.
std::vector<QuantizedModule> read_mxfp4(const Checkpoint& files, const ConfigReader&) {
  constexpr int64_t kGroup = 32;
  std::vector<QuantizedModule> modules;
  read_each(files, "_blocks", modules, [](ModuleReader& reader) {
    const TensorInfo& blocks = reader.need("_blocks", {DType::kU8}, {-1, -1, -1, kGroup / 2});
    const std::vector<int64_t> shape = {blocks.shape[0], blocks.shape[1], blocks.shape[2] * kGroup};
    reader.need("_scales", {DType::kU8}, {shape[0], shape[1], blocks.shape[2]});
    QuantizedModule module = finish_float4(reader, "_blocks", "_scales", shape[0] * shape[1], shape[2], 1.0F,
                                           kGroup, e8m0_values());
    // These tensors have no module.
    module.name.resize(module.name.size() - std::string_view(".weight").size());
    module.shape = shape;
    return module;
  });
  return modules;
}

}  // namespace quire
