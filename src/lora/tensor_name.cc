#include "lora/tensor_name.h"

#include <algorithm>
#include <array>

namespace quire::lora {
namespace {

struct Suffix {
  std::string_view text;
  TensorRole role;
};
// The first that a name ends with applies.
constexpr std::array<Suffix, 16> kSuffixes = {{
    {".lora_A.weight", TensorRole::kA},
    {".lora_B.weight", TensorRole::kB},
    {".lora_B.bias", TensorRole::kBBias},
    {".lora_A.default.weight", TensorRole::kA},
    {".lora_B.default.weight", TensorRole::kB},
    {".lora_B.default.bias", TensorRole::kBBias},
    {".lora_embedding_A", TensorRole::kEmbeddingA},
    {".lora_embedding_B", TensorRole::kEmbeddingB},
    {".lora_embedding_A.default", TensorRole::kEmbeddingA},
    {".lora_embedding_B.default", TensorRole::kEmbeddingB},
    {".lora_magnitude_vector", TensorRole::kMagnitude},
    {".lora_magnitude_vector.weight", TensorRole::kMagnitude},
    {".lora_magnitude_vector.default.weight", TensorRole::kMagnitude},
    {".token_adapter.trainable_tokens_delta", TensorRole::kTrainedTokens},
    {".weight", TensorRole::kWeight},
    {".bias", TensorRole::kBias},
}};

constexpr std::string_view kWrapper = "base_model.model.";
constexpr std::string_view kBaseLayer = ".base_layer";
constexpr std::array<std::string_view, 3> kAdded = {".modules_to_save.default", ".modules_to_save",
                                                    kBaseLayer};

}  // namespace

AdapterTensorName parse_tensor_name(std::string_view name) {
  if (name.starts_with(kWrapper)) name.remove_prefix(kWrapper.size());
  AdapterTensorName out;
  const auto suffix =
      std::ranges::find_if(kSuffixes, [&](const Suffix& s) { return name.ends_with(s.text); });
  if (suffix != kSuffixes.end()) {
    out.role = suffix->role;
    name.remove_suffix(suffix->text.size());
  }
  out.module = name;
  for (const std::string_view added : kAdded) {
    for (size_t at = out.module.find(added); at != std::string::npos; at = out.module.find(added, at)) {
      const size_t end = at + added.size();
      // A complete component of the name.
      if (end != out.module.size() && out.module[end] != '.') {
        at = end;
        continue;
      }
      out.module.erase(at, added.size());
      if (added == kBaseLayer) ++out.base_layers;
    }
  }
  return out;
}

}  // namespace quire::lora
