// BitNet: weight uint8 [n / 4, k], -1, 0 or 1 as two bits: bits [2 i, 2 i + 2) of row r are row i n / 4 + r,
// one added; weight_scale, one number, which divides (bitlinear) or multiplies (autobitlinear).
#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"

namespace quire {

std::vector<QuantizedModule> read_bitnet(const Checkpoint& files, const nlohmann::json& config) {
  if (config_text(config, "quantization_mode", "offline") != "offline")
    throw Error(cat(files.path().string(),
                    ": BitNet weights that are quantized as they are loaded ('quantization_mode') are not "
                    "supported; use the packed version"));
  const bool multiplies = config_text(config, "linear_class", "bitlinear") == "autobitlinear";
  std::vector<QuantizedModule> modules;
  read_each(files, ".weight_scale", modules, [&](ModuleReader& reader) {
    const float stored = reader.number(".weight_scale");
    const float scale = multiplies ? stored : 1.0F / stored;
    const TensorInfo& weight = reader.need(".weight", {DType::kU8}, {-1, -1});
    const int64_t lines = weight.shape[0];
    const int64_t k = weight.shape[1];
    CodedFormat format;
    format.code_bits = 2;
    format.zero = 1;
    format.group_size = format.block_size = 0;
    const auto bytes = reader.bytes(".weight");
    return reader.finish(format, 4 * lines, k, [=](int64_t row, const CodedRow& out) {
      const auto* line = bytes.data() + row % lines * k;
      for (size_t i = 0; i < out.codes.size(); ++i)
        out.codes[i] = (static_cast<uint8_t>(line[i]) >> (2 * (row / lines))) & 3;
      out.block_scales[0] = scale;
    });
  });
  return modules;
}

}  // namespace quire
