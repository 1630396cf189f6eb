// quark (AMD): each module has weight and weight_scale. Formats of the same size cannot be distinguished by
// their tensors, so the configuration of the module's weight is needed. Its `dtype`:
//   fp8_e4m3            fp8 [n, k]; scales: one, [n], per block, or uint8 [n, k / 32], powers of two
//   fp4                 uint8 [n, k / 2]; scales uint8 [n, k / 32] (mxfp4), or fp8 [n, k / 16] times
//                       weight_scale_2 (nvfp4)
//   fp6_e2m3, fp6_e3m2  uint8 [n, 3 k / 4], a bit stream; scales uint8 [n, k / 32]
//   int8, uint8         [n, k]; scales: one or [n]. With groups, transposed: [k, n], scales [groups, n]
//   int4, uint4         int32 [k, n / 8] with scales [groups, n], like AWQ; int4 is signed
// weight_zero_point is stored like the values.
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/strings.h"
#include "io/quantized/methods.h"
#include "quant/code_tables.h"

namespace quire {
namespace {

struct QuarkWeight {
  std::string type;
  bool groups = false;  // groups of columns with separate scales
  int64_t group_size = 0;
  std::optional<BlockSize> block;  // block size of scales
  bool symmetric = false;
  bool interleaved = true;  // PackedOutputs
};

// The settings of the longest matching pattern in layer_quant_config, or the settings for all linear modules.
ConfigReader layer_config(const ConfigReader& config, const std::string& module) {
  const ConfigReader types = config.object("layer_type_quant_config");
  const ConfigReader layers = config.object("layer_quant_config");
  std::string longest;
  for (const auto& [pattern, layer] : layers.json().items()) {
    const bool matches = ::fnmatch(pattern.c_str(), module.c_str(), FNM_NOESCAPE) == 0;
    if (matches && pattern.size() >= longest.size()) longest = pattern;
  }
  if (!longest.empty()) return layers.object(longest);
  return types.has("Linear") ? types.object("Linear") : config.object("global_quant_config");
}

QuarkWeight weight_of(const ModuleReader& reader, const ConfigReader& config) {
  const ConfigReader layer = layer_config(config, reader.module());
  const nlohmann::json* weights = layer.find("weight");
  // A list describes successive rounding steps of the weights, or of their scales.
  const bool steps = weights != nullptr && weights->is_array() && !weights->empty();
  const ConfigReader field = steps ? layer.converted(weights->front()) : layer.object("weight");
  QuarkWeight weight;
  weight.type = field.text("dtype", "");
  if (steps && weights->size() > 1 && weight.type != "fp4")
    reader.fail(".weight",
                cat("is quantized in two steps, first to '", weight.type, "', which is not supported"));
  const std::string scales = field.text("qscheme", "");
  weight.groups = scales == "per_group";
  if (weight.groups) weight.group_size = field.integer("group_size", 0, INT32_MAX, 0);
  if (scales == "per_block") {
    const nlohmann::json* size = field.find("block_size");
    if (size != nullptr) weight.block = block_size_of(*size);
    if (!weight.block) reader.fail(".weight", "has block scales, but 'block_size' is missing");
  }
  weight.symmetric = field.boolean("symmetric", false);
  weight.interleaved = config.object("export").text("pack_method", "reorder") == "reorder";
  return weight;
}

QuantizedModule read_fp8(ModuleReader& reader, const QuarkWeight& weight) {
  return read_float8(reader, ".weight_scale", weight.block.value_or(BlockSize{1, weight.group_size}));
}

QuantizedModule read_fp4(ModuleReader& reader, const QuarkWeight&) {
  if (reader.find(".weight_scale_2") == nullptr)
    return read_float4(reader, ".weight", ".weight_scale", 1.0F, 32, e8m0_values());
  const float scale = reader.number(".weight_scale_2");
  return read_float4(reader, ".weight", ".weight_scale", scale, 16, e4m3_values());
}

QuantizedModule read_fp6(ModuleReader& reader, const QuarkWeight& weight) {
  return read_float6(reader, ".weight", ".weight_scale",
                     weight.type == "fp6_e2m3" ? e2m3_values() : e3m2_values());
}

QuantizedModule read_int8(ModuleReader& reader, const QuarkWeight& weight) {
  return read_byte_codes(reader, {.group_size = weight.group_size, .transposed = weight.groups});
}

QuantizedModule read_int4(ModuleReader& reader, const QuarkWeight& weight) {
  if (!weight.groups)
    reader.fail(".weight",
                "has 4 bits without group scales ('qscheme' is not 'per_group'), which is not supported");
  return read_packed_outputs(reader, {.codes = ".weight",
                                      .scales = ".weight_scale",
                                      .zero_points = ".weight_zero_point",
                                      .group_size = weight.group_size,
                                      .group_zero_points = !weight.symmetric,
                                      .interleaved = weight.interleaved,
                                      .with_signs = weight.type == "int4"});
}

struct WeightType {
  std::string_view name;
  QuantizedModule (*read)(ModuleReader&, const QuarkWeight&);
};

constexpr std::array<WeightType, 8> kTypes = {{
    {"fp8_e4m3", read_fp8},
    {"fp4", read_fp4},
    {"fp6_e2m3", read_fp6},
    {"fp6_e3m2", read_fp6},
    {"int8", read_int8},
    {"uint8", read_int8},
    {"int4", read_int4},
    {"uint4", read_int4},
}};

}  // namespace

std::vector<QuantizedModule> read_quark(const Checkpoint& files, const ConfigReader& config) {
  std::vector<QuantizedModule> modules;
  read_each(files, ".weight_scale", modules, [&](ModuleReader& reader) {
    const QuarkWeight weight = weight_of(reader, config);
    const auto type = std::ranges::find(kTypes, std::string_view(weight.type), &WeightType::name);
    if (type == kTypes.end()) {
      std::vector<std::string> names;
      for (const WeightType& known : kTypes) names.emplace_back(known.name);
      reader.fail(".weight", cat("is quantized to '", weight.type, "'; supported are ", join(names, ", ")));
    }
    return type->read(reader, weight);
  });
  return modules;
}

}  // namespace quire
