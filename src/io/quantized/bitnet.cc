// BitNet: weight uint8 [n / 4, k] contains -1, 0 or 1 plus one in two bits each: bits [2 i, 2 i + 2) of row r
// are row i n / 4 + r. weight_scale is a single value that divides (bitlinear) or multiplies (autobitlinear).
// With quantization_mode "online", the checkpoint contains floats, which are quantized here.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"
#include "quant/codec.h"

namespace quire {

namespace {

QuantFormat ternary() {
  QuantFormat format;
  format.code_bits = 2;
  format.zero_point = 1;
  format.group_size = format.block_size = 0;
  return format;
}

// One scale for the matrix: the mean magnitude, rounded to the type of the weights.
QuantizedModule round_to_ternary(const Checkpoint& files, const std::string& module) {
  ModuleReader reader(files, module);
  const TensorInfo& weight = reader.need(".weight", {DType::kF32, DType::kBF16, DType::kF16}, {-1, -1});
  const auto bytes = reader.bytes(".weight");
  const DType type = weight.dtype;
  const size_t size = dtype_size(type);
  const int64_t k = weight.shape[1];
  const int64_t count = weight.shape[0] * k;
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::fabs(load_number(type, bytes.data() + static_cast<size_t>(i) * size));
  const float mean = static_cast<float>(sum / static_cast<double>(std::max<int64_t>(1, count)));
  const float by = 1.0F / std::max(mean, 1e-5F);
  alignas(4) std::array<std::byte, 4> stored{};
  store_f32(type, stored.data(), 0, 1.0F / by);
  const float scale = load_f32(type, stored.data(), 0);
  return reader.finish(ternary(), weight.shape[0], k, [=](int64_t row, const QuantizedRow& out) {
    const std::byte* line = bytes.data() + static_cast<size_t>(row * k) * size;
    for (size_t i = 0; i < out.codes.size(); ++i) {
      const float code = std::nearbyint(load_number(type, line + i * size) * by);
      out.codes[i] = static_cast<uint8_t>(std::clamp(code, -1.0F, 1.0F) + 1.0F);
    }
    out.block_scales[0] = scale;
  });
}

// Quantizes all matrices of the layers, except those excluded by the configuration.
std::vector<QuantizedModule> read_online(const Checkpoint& files, const ConfigReader& config) {
  const std::vector<std::string> kept = config.texts("modules_to_not_convert");
  const auto is_kept = [&](const std::string& name) {
    return std::ranges::any_of(kept, [&](const auto& part) { return name.find(part) != std::string::npos; });
  };
  std::vector<QuantizedModule> modules;
  for (const std::string& name : modules_with(files, ".weight")) {
    const bool matrix = files.find(name + ".weight")->shape.size() == 2;
    if (matrix && name.find("layers.") != std::string::npos && !is_kept(name))
      modules.push_back(round_to_ternary(files, name));
  }
  return modules;
}

}  // namespace

std::vector<QuantizedModule> read_bitnet(const Checkpoint& files, const ConfigReader& config) {
  const std::string mode = config.text("quantization_mode", "offline");
  if (mode == "online") return read_online(files, config);
  if (mode != "offline")
    throw Error(cat(files.path().string(), ": 'quantization_mode' is '", mode,
                    "'; offline and online are supported"));
  const bool multiplies = config.text("linear_class", "bitlinear") == "autobitlinear";
  std::vector<QuantizedModule> modules;
  read_each(files, ".weight_scale", modules, [&](ModuleReader& reader) {
    const float stored = reader.number(".weight_scale");
    const float scale = multiplies ? stored : 1.0F / stored;
    const TensorInfo& weight = reader.need(".weight", {DType::kU8}, {-1, -1});
    const int64_t lines = weight.shape[0];
    const int64_t k = weight.shape[1];
    const auto bytes = reader.bytes(".weight");
    return reader.finish(ternary(), 4 * lines, k, [=](int64_t row, const QuantizedRow& out) {
      const auto* line = bytes.data() + row % lines * k;
      for (size_t i = 0; i < out.codes.size(); ++i)
        out.codes[i] = (static_cast<uint8_t>(line[i]) >> (2 * (row / lines))) & 3;
      out.block_scales[0] = scale;
    });
  });
  return modules;
}

}  // namespace quire
