// torchao: the parts of a weight are separate tensors. The metadata of the safetensors header describe the
// weight under its name, as JSON: `_type`, and its fields in `_data`.
//   Int8Tensor, IntxUnpackedToInt8Tensor
//     X._weight_qdata int8 [n, k], scale and zero_point [n, groups]
//   Float8Tensor
//     qdata fp8 [n, k], scale: a single value, [n, 1] or per block
//   Int4Tensor
//     qdata int8 [n, k / 2], two signed values per byte, the lower column in the low half; scale and
//     zero_point floats [groups, n]
//   Int4TilePackedTo4dTensor
//     qdata int32 [n / 8, k / 128, 32, 4], in the order of m16n8k16 tensor cores;
//     scale_and_zero bfloat16 [groups, n, 2]
// Zero points of the last two are added to scale * value.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/strings.h"
#include "io/json_file.h"
#include "io/quantized/methods.h"

namespace quire {
namespace {

constexpr std::string_view kCodes = "._weight_qdata";
constexpr std::string_view kScales = "._weight_scale";
constexpr std::string_view kZeroPoints = "._weight_zero_point";
constexpr std::string_view kScalesAndZeros = "._weight_scale_and_zero";

// Description of a weight in the metadata.
struct Description {
  std::string type;
  nlohmann::json fields;
  BlockSize block;  // block that shares a scale
};

Description describe(const Checkpoint& files, const ModuleReader& reader) {
  const std::string name = cat(reader.module(), ".weight");
  const auto text = files.metadata(name);
  if (!text) reader.fail(kCodes, cat("has no description '", name, "' in the metadata of the file"));
  const nlohmann::json all = parse_json(*text, cat(files.path().string(), ": metadata of ", name));
  const nlohmann::json& type = config_field(all, "_type");
  if (!type.is_string()) reader.fail(".weight", "has a description without '_type'");
  Description out{.type = type.get<std::string>(), .fields = config_field(all, "_data")};
  const auto block = block_size_of(config_field(out.fields, "block_size"));
  if (!block) reader.fail(".weight", "has a description without a 'block_size' of two integers");
  out.block = *block;
  return out;
}

// Bits per value: those of `target_dtype`, or 8.
int32_t bits_of(const ModuleReader& reader, const Description& weight) {
  const nlohmann::json& type = config_field(config_field(weight.fields, "target_dtype"), "_data");
  if (type.is_null()) return 8;
  const std::string name = type.is_string() ? type.get<std::string>() : "";
  if (name.size() != 4 || !name.starts_with("int") || name[3] < '1' || name[3] > '8')
    reader.fail(".weight", cat("has values of type '", name, "'; int1 to int8 are supported"));
  return name[3] - '0';
}

QuantizedModule read_whole(ModuleReader& reader, const Description& weight) {
  return read_byte_codes(reader, {.codes = kCodes,
                                  .scales = kScales,
                                  .zero_points = kZeroPoints,
                                  .group_size = weight.block.columns,
                                  .bits = bits_of(reader, weight)});
}

QuantizedModule read_fp8(ModuleReader& reader, const Description& weight) {
  const TensorInfo& codes = reader.need(kCodes, {DType::kF8E4M3}, {-1, -1});
  const bool one = weight.block.rows == codes.shape[0] && weight.block.columns == codes.shape[1];
  return read_float8(reader, kScales, one ? BlockSize{} : weight.block, kCodes);
}

// 4-bit values with scales and offsets per group of columns; fill(row, codes).
template <typename Fill>
QuantizedModule finish_int4(ModuleReader& reader, int64_t n, int64_t k, int64_t group_size,
                            const ScaleGrid& scales, const ScaleGrid& zero_points, Fill fill) {
  QuantFormat format;
  format.code_bits = 4;
  format.zero_point = 8;
  format.group_size = format.block_size = group_size;
  format.half_scales = scales.dtype() == DType::kF16;
  format.bfloat_scales = scales.dtype() == DType::kBF16;
  format.minima = true;
  return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
    fill(row, out.codes);
    scales.read(row, out.block_scales);
    zero_points.read(row, out.block_minima);
    for (float& minimum : out.block_minima) minimum = -minimum;
  });
}

QuantizedModule read_int4(ModuleReader& reader, const Description& weight) {
  const TensorInfo& codes = reader.need(kCodes, {DType::kI8, DType::kU8}, {-1, -1});
  const int64_t n = codes.shape[0];
  const int64_t bytes_of_row = codes.shape[1];
  const int64_t k = bytes_of_row * 2;
  const int64_t groups = (k + weight.block.columns - 1) / weight.block.columns;
  const DType type = reader.need(kScales, {DType::kF32, DType::kF16, DType::kBF16}, {groups, n}).dtype;
  reader.need(kZeroPoints, {type}, {groups, n});
  const ScaleGrid scales(type, reader.bytes(kScales), 1, n);
  const ScaleGrid zero_points(type, reader.bytes(kZeroPoints), 1, n);
  const auto bytes = reader.bytes(kCodes);
  return finish_int4(reader, n, k, weight.block.columns, scales, zero_points,
                     [=](int64_t row, std::span<uint8_t> out) {
                       const std::byte* from = bytes.data() + row * bytes_of_row;
                       for (size_t i = 0; i < out.size(); i += 2) {
                         const auto both = static_cast<uint8_t>(from[i / 2]);
                         out[i] = (both & 15) ^ 8;
                         out[i + 1] = (both >> 4) ^ 8;
                       }
                     });
}

QuantizedModule read_tiles(ModuleReader& reader, const Description& weight) {
  constexpr int64_t kTileRows = 8;
  constexpr int64_t kLanes = 32;
  constexpr int64_t kRun = 32;  // columns per four words
  const TensorInfo& codes = reader.need(kCodes, {DType::kI32}, {-1, -1, kLanes, -1});
  // In the order of BlockSize: rows, columns.
  const auto shape = block_size_of(config_field(weight.fields, "shape"));
  if (!shape) reader.fail(".weight", "has a description without a 'shape' of two integers");
  // Padded to full tiles.
  const int64_t rows = codes.shape[0] * kTileRows;
  const int64_t blocks = codes.shape[1];
  const int64_t runs = codes.shape[3];
  const int64_t columns = blocks * runs * kRun;
  if (shape->rows > rows || shape->columns > columns) {
    reader.fail(kCodes, cat("is ", codes.shape_text(), ", which has too few tiles for [", shape->rows, ", ",
                            shape->columns, "]"));
  }
  const int64_t groups = (columns + weight.block.columns - 1) / weight.block.columns;
  reader.need(kScalesAndZeros, {DType::kBF16}, {groups, rows, 2});
  const auto pairs = reader.bytes(kScalesAndZeros);
  const ScaleGrid scales(DType::kBF16, pairs, 2, rows * 2);
  const ScaleGrid zero_points(DType::kBF16, pairs.subspan(dtype_size(DType::kBF16)), 2, rows * 2);
  const auto bytes = reader.bytes(kCodes);
  return finish_int4(
      reader, shape->rows, shape->columns, weight.block.columns, scales, zero_points,
      [=](int64_t row, std::span<uint8_t> out) {
        const auto k = static_cast<int64_t>(out.size());
        for (int64_t first = 0; first < k; first += kRun) {
          const int64_t run = first / kRun;
          const int64_t lane = row % kTileRows * 4;
          const int64_t word = ((row / kTileRows * blocks + run / runs) * kLanes + lane) * runs + run % runs;
          // A word of a lane has every fourth pair of columns: even columns in its low half, odd ones in the
          // high half.
          for (int64_t i = first; i < std::min(first + kRun, k); ++i) {
            const int64_t pair = (i - first) / 2;
            const int64_t nibble = pair / 4 + i % 2 * 4;
            const auto at = static_cast<size_t>((word + pair % 4 * runs) * 4 + nibble / 2);
            out[static_cast<size_t>(i)] = (static_cast<uint8_t>(bytes[at]) >> (nibble % 2 * 4)) & 15;
          }
        }
      });
}

struct Kind {
  std::string_view name;  // _type
  QuantizedModule (*read)(ModuleReader&, const Description&);
};

constexpr std::array<Kind, 5> kKinds = {{
    {"Int8Tensor", read_whole},
    {"IntxUnpackedToInt8Tensor", read_whole},
    {"Float8Tensor", read_fp8},
    {"Int4Tensor", read_int4},
    {"Int4TilePackedTo4dTensor", read_tiles},
}};

}  // namespace

std::vector<QuantizedModule> read_torchao(const Checkpoint& files, const ConfigReader&) {
  std::vector<QuantizedModule> modules;
  read_each(files, kCodes, modules, [&](ModuleReader& reader) {
    const Description weight = describe(files, reader);
    const auto kind = std::ranges::find(kKinds, std::string_view(weight.type), &Kind::name);
    if (kind == kKinds.end()) {
      std::vector<std::string> names;
      for (const Kind& known : kKinds) names.emplace_back(known.name);
      reader.fail(".weight", cat("is stored as '", weight.type, "'; supported are ", join(names, ", ")));
    }
    if (reader.find("._weight_act_pre_scale") != nullptr)
      reader.fail("._weight_act_pre_scale", "scales activations, which is not supported");
    // Activation scales are unused: activations are quantized dynamically.
    reader.find("._weight_act_quant_scale");
    reader.find("._weight_act_quant_zero_point");
    return kind->read(reader, weight);
  });
  return modules;
}

}  // namespace quire
