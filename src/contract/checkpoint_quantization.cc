#include "contract/checkpoint_quantization.h"

#include <algorithm>

namespace quire {
namespace {

struct NamedMethod {
  std::string_view name;
  std::string_view method;
};

constexpr NamedMethod kNamedMethods[] = {
    {"awq", "awq"},
    {"awq_marlin", "awq"},
    {"gptq", "gptq"},
    {"gptq_marlin", "gptq"},
    {"compressed-tensors", "compressed-tensors"},
    {"fp8", "fp8"},
    {"modelopt", "modelopt"},
    {"modelopt_fp4", "modelopt"},
    {"mxfp4", "mxfp4"},
    {"quark", "quark"},
    {"torchao", "torchao"},
    {"bitsandbytes", "bitsandbytes"},
    {"bitnet", "bitnet"},
    {"gguf", "gguf"},
};

}  // namespace

std::optional<std::string_view> checkpoint_quantization(std::string_view name) {
  const auto* found = std::ranges::find(kNamedMethods, name, &NamedMethod::name);
  return found == std::end(kNamedMethods) ? std::nullopt : std::optional(found->method);
}

}  // namespace quire
