// auto-round: modules in GPTQ or AWQ format (packing_format), each with its own bits and group size, which
// are derived from its tensors.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"

namespace quire {
namespace {

// The GPTQ configuration of one module. extra_config has the settings of modules that differ from the others.
nlohmann::json gptq_config(const Checkpoint& files, const std::string& module, const ConfigReader& config,
                           std::string_view version) {
  nlohmann::json own = {{"checkpoint_format", version}};
  const auto take = [&own](const ConfigReader& from) {
    for (const char* field : {"bits", "group_size", "sym", "desc_act", "static_groups"}) {
      if (const nlohmann::json* value = from.find(field)) own[field] = *value;
    }
  };
  take(config);
  take(config.object("extra_config").object(module));
  const auto shape = [&](std::string_view suffix) -> std::vector<int64_t> {
    const TensorInfo* tensor = files.find(cat(module, suffix));
    const bool matrix =
        tensor != nullptr && tensor->shape.size() == 2 && tensor->shape[0] > 0 && tensor->shape[1] > 0;
    return matrix ? std::vector<int64_t>(tensor->shape.begin(), tensor->shape.end()) : std::vector<int64_t>{};
  };
  const auto codes = shape(".qweight");
  const auto zero_points = shape(".qzeros");
  const auto scales = shape(".scales");
  if (codes.empty() || zero_points.empty() || scales.empty())
    return own;  // the GPTQ reader reports the error
  const int64_t bits = std::max<int64_t>(1, zero_points[1] * 32 / scales[1]);
  own["bits"] = bits;
  own["group_size"] = (codes[0] * 32 / bits + scales[0] - 1) / scales[0];
  return own;
}

}  // namespace

std::vector<QuantizedModule> read_auto_round(const Checkpoint& files, const ConfigReader& config) {
  const std::string packing = config.text("packing_format", "auto_round:auto_gptq");
  if (packing == "auto_round:auto_awq") return read_awq(files, config);
  const bool less_one = packing == "auto_round:auto_gptq";
  if (!less_one && packing != "auto_round" && packing != "auto_round:gptqmodel") {
    throw Error(cat(files.path().string(), ": auto-round's packing_format '", packing,
                    "' is not supported; supported are auto_round:auto_gptq, auto_round:auto_awq, "
                    "auto_round:gptqmodel and auto_round"));
  }
  std::vector<QuantizedModule> modules;
  read_each(files, ".qweight", modules, [&](ModuleReader& reader) {
    const auto own = gptq_config(files, reader.module(), config, less_one ? "gptq" : "gptq_v2");
    return read_gptq_module(reader, config.converted(own));
  });
  return modules;
}

}  // namespace quire
