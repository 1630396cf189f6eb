// compressed-tensors: the storage of a module follows from its tensors.
//   weight_packed int32 [n, k bits / 32], weight_shape, weight_scale [n, groups], weight_zero_point int32
//     [n bits / 32, groups] packed along n, weight_g_idx: integers of 2 to 8 bits, stored plus 2^(bits - 1)
//   weight_packed uint8 [n, k / 2]: 4-bit floats, with weight_global_scale, which divides (nvfp4), or without
//     (mxfp4: power-of-two scales)
//   weight int8, weight_scale [n, groups] or a single value, weight_zero_point int8
//   weight fp8, weight_scale: a single value, [n, 1] or per block
#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "io/quantized/methods.h"
#include "quant/code_tables.h"

namespace quire {
namespace {

// The settings of the weights in each of the config groups.
std::vector<ConfigReader> weight_settings(const ConfigReader& config) {
  std::vector<ConfigReader> all;
  const ConfigReader groups = config.object("config_groups");
  for (const auto& [name, group] : groups.json().items())
    all.push_back(groups.object(name).object("weights"));
  return all;
}

int64_t group_size_of(const ConfigReader& config) {
  for (const ConfigReader& weights : weight_settings(config)) {
    if (weights.has("group_size")) return weights.integer("group_size", -1, INT32_MAX);
  }
  return 0;
}

// The settings that may be those of a module with this number of bits and this group size.
std::vector<ConfigReader> settings_of(const ConfigReader& config, int32_t bits, int64_t group_size) {
  std::vector<ConfigReader> all = weight_settings(config);
  std::erase_if(all, [&](const ConfigReader& weights) {
    const int64_t own = weights.integer("group_size", -1, INT32_MAX, 0);
    return weights.integer("num_bits", 1, 64, bits) != bits || (own > 0 && own != group_size);
  });
  return all;
}

// Whether the order of quantization decided which columns share a scale.
bool is_ordered(const ConfigReader& weights) {
  const nlohmann::json* order = weights.find("actorder");
  if (order == nullptr || *order == "weight" || *order == "static" || *order == false) return false;
  if (*order == "group" || *order == "dynamic" || *order == true) return true;
  weights.fail("actorder", cat("is ", order->dump(), "; group, weight, static and dynamic are supported"));
}

// Refuses a module without the tensors that its settings require: the output would be wrong.
void require_tensors(ModuleReader& reader, const ConfigReader& config, int32_t bits, int64_t group_size,
                     int64_t groups) {
  const auto settings = settings_of(config, bits, group_size);
  if (groups > 1 && std::ranges::any_of(settings, is_ordered) && reader.find(".weight_g_idx") == nullptr) {
    reader.fail(
        ".weight_g_idx",
        "is missing, but 'actorder' of the quantization is group: the groups of input features are unknown");
  }
  const bool symmetric = std::ranges::all_of(
      settings, [](const ConfigReader& weights) { return weights.boolean("symmetric", true); });
  if (!symmetric && reader.find(".weight_zero_point") == nullptr)
    reader.fail(".weight_zero_point", "is missing, but 'symmetric' of the quantization is false");
}

// Columns sorted by group, as for GPTQ; empty if they are in this order already.
std::vector<int32_t> order_of(ModuleReader& reader, int64_t k, int64_t group_size) {
  if (reader.find(".weight_g_idx") == nullptr) return {};
  reader.need(".weight_g_idx", {DType::kI32}, {k});
  std::vector<int32_t> group(static_cast<size_t>(k));
  std::memcpy(group.data(), reader.bytes(".weight_g_idx").data(), group.size() * sizeof(int32_t));
  std::vector<int32_t> order(group.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t i) { return group[static_cast<size_t>(i)]; });
  for (size_t i = 0; i < order.size(); ++i) {
    if (group[static_cast<size_t>(order[i])] != static_cast<int64_t>(i) / group_size)
      reader.fail(".weight_g_idx", cat("has groups that do not have ", group_size, " features each"));
  }
  if (std::ranges::is_sorted(order)) order.clear();
  return order;
}

QuantizedModule read_packed(ModuleReader& reader, const ConfigReader& config) {
  const TensorInfo& packed = reader.need(".weight_packed", {DType::kI32}, {-1, -1});
  const TensorInfo& shape = reader.need(".weight_shape", {DType::kI64, DType::kI32}, {2});
  const int64_t n = packed.shape[0];
  const int64_t words = packed.shape[1];
  int64_t k = 0;
  const auto shape_bytes = reader.bytes(".weight_shape");
  std::memcpy(&k, shape_bytes.data() + dtype_size(shape.dtype), dtype_size(shape.dtype));
  if (k < 1 || k > words * 32)
    reader.fail(".weight_shape", cat("states ", k, " columns in ", words, " words"));
  const auto bits = static_cast<int32_t>(words * 32 / k);
  if (bits < 2 || bits > 8 || BitStreams::words_of(k, bits) != words)
    reader.fail(".weight_packed",
                cat("is ", packed.shape_text(), ", which does not match any bit width for ", k, " columns"));

  QuantFormat format;
  format.code_bits = bits;
  format.zero_point = 1 << (bits - 1);
  const ScaleGrid scales = reader.scales(".weight_scale", n, k, group_size_of(config), format);
  const int64_t group_size = format.group_size == 0 ? k : format.group_size;
  const int64_t groups = (k + group_size - 1) / group_size;
  require_tensors(reader, config, bits, group_size, groups);
  const std::vector<int32_t> order = order_of(reader, k, group_size);
  BitStreams zero_points;
  if (reader.find(".weight_zero_point") != nullptr) {
    reader.need(".weight_zero_point", {DType::kI32}, {BitStreams::words_of(n, bits), groups});
    zero_points = BitStreams(reader.bytes(".weight_zero_point"), groups, bits);
    format.group_zero_points = true;
  }
  const auto bytes = reader.bytes(".weight_packed");
  return reader.finish(
      format, n, k,
      [=](int64_t row, const QuantizedRow& out) {
        const auto codes = BitStreams::row(bytes, row, words, bits);
        for (size_t i = 0; i < out.codes.size(); ++i)
          out.codes[i] = codes.code(0, order.empty() ? static_cast<int64_t>(i) : order[i]);
        scales.read(row, out.block_scales);
        for (size_t g = 0; g < out.group_zero_points.size(); ++g)
          out.group_zero_points[g] = zero_points.code(static_cast<int64_t>(g), row);
      },
      order);
}

QuantizedModule read_fp8_weight(ModuleReader& reader, const ConfigReader& config) {
  for (const ConfigReader& weights : weight_settings(config)) {
    if (!weights.has("strategy")) continue;
    if (weights.text("strategy", "") != "block") break;
    const nlohmann::json* sizes = weights.find("block_structure");
    const auto block = sizes == nullptr ? std::nullopt : block_size_of(*sizes);
    if (!block) reader.fail(".weight", "has block scales, but 'block_structure' has no block size");
    return read_float8(reader, ".weight_scale", *block);
  }
  return read_float8(reader, ".weight_scale", {1, group_size_of(config)});
}

}  // namespace

std::vector<QuantizedModule> read_compressed_tensors(const Checkpoint& files, const ConfigReader& config) {
  std::vector<QuantizedModule> modules;
  for (const std::string& name : modules_with(files, ".weight_packed")) {
    ModuleReader reader(files, name);
    const TensorInfo& packed = reader.need(".weight_packed", {DType::kI32, DType::kU8});
    if (packed.dtype == DType::kI32) {
      modules.push_back(read_packed(reader, config));
    } else if (reader.find(".weight_global_scale") != nullptr) {
      const float scale = reader.number(".weight_global_scale");
      modules.push_back(
          read_float4(reader, ".weight_packed", ".weight_scale", 1.0F / scale, 16, e4m3_values()));
    } else {
      modules.push_back(read_float4(reader, ".weight_packed", ".weight_scale", 1.0F, 32, e8m0_values()));
    }
  }
  for (const std::string& name : modules_with(files, ".weight_scale")) {
    if (files.find(cat(name, ".weight_packed")) != nullptr) continue;
    ModuleReader reader(files, name);
    reader.find(".weight_scale");
    const TensorInfo& weight = reader.need(".weight", {DType::kI8, DType::kF8E4M3});
    const TensorInfo& scale = *files.find(cat(name, ".weight_scale"));
    const int64_t groups = scale.shape.size() == 2 ? scale.shape[1] : 1;
    if (weight.dtype == DType::kI8) require_tensors(reader, config, 8, group_size_of(config), groups);
    modules.push_back(weight.dtype == DType::kI8
                          ? read_byte_codes(reader, {.group_size = group_size_of(config)})
                          : read_fp8_weight(reader, config));
  }
  return modules;
}

}  // namespace quire
