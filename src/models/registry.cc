#include "models/registry.h"

#include <array>

#include "base/error.h"
#include "base/strings.h"
#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<Architecture, 5> kArchitectures = {{
    {"LlamaForCausalLM", "llama", parse_llama, llama_weight_names},
    {"MistralForCausalLM", "mistral", parse_mistral, llama_weight_names},
    {"Qwen2ForCausalLM", "qwen2", parse_qwen2, llama_weight_names},
    {"Qwen3ForCausalLM", "qwen3", parse_qwen3, qwen3_weight_names},
    {"GPT2LMHeadModel", "gpt2", parse_gpt2, gpt2_weight_names},
}};

std::string supported_names() {
  std::vector<std::string> names;
  for (const auto& row : kArchitectures) names.emplace_back(row.name);
  return join(names, ", ");
}

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture& find_architecture(const ConfigReader& config) {
  const auto names = config.texts("architectures");
  const std::string model_type = config.text("model_type", "");
  if (names.empty() && model_type.empty()) config.fail("architectures", "is missing");
  for (const auto& row : kArchitectures) {
    if (names.empty() ? row.model_type == model_type : row.name == names.front()) return row;
  }
  if (names.empty()) {
    throw Error(
        cat("config.json: model_type '", model_type, "' is not supported; supported: ", supported_names()));
  }
  throw Error(cat("config.json: architecture '", names.front(),
                  "' is not supported; supported: ", supported_names()));
}

ArchSpec parse_arch(const nlohmann::json& json) {
  const ConfigReader config(json);
  const Architecture& architecture = find_architecture(config);
  if (config.has("quantization_config")) {
    const std::string method = config.object("quantization_config").text("quant_method", "unknown");
    config.fail("quantization_config",
                cat("names quantization method '", method,
                    "', which is not supported; use the model's float32, bfloat16 or float16 version"));
  }
  ArchSpec spec = architecture.parse(config);
  spec.architecture = architecture.name;
  spec.model_type = architecture.model_type;
  return spec;
}

}  // namespace quire
