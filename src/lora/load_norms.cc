#include "lora/load_norms.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "quant/codec.h"

namespace quire::lora {
namespace {

// The values of a vector of the base; empty if there is none, or none in a plain type.
std::vector<float> values_of_base(const AdapterBase& base, const std::string& name) {
  if (base.checkpoint == nullptr) return {};
  std::unique_lock<std::mutex> lock;
  if (base.reading != nullptr) lock = std::unique_lock(*base.reading);
  const TensorInfo* info = base.checkpoint->find(name);
  if (info == nullptr || info->quantized || !is_storage_dtype(info->dtype)) return {};
  const auto stored = base.checkpoint->bytes(name);
  Buffer aligned(stored.size());
  std::memcpy(aligned.data(), stored.data(), stored.size());
  std::vector<float> values(stored.size() / dtype_size(info->dtype));
  decode_f32(info->dtype, aligned.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

// The bias of the norm with these weights.
std::string bias_name(const std::string& weight) {
  constexpr std::string_view kEnd = ".weight";
  return weight.ends_with(kEnd) ? cat(weight.substr(0, weight.size() - kEnd.size()), ".bias") : "";
}

}  // namespace

std::vector<std::string> load_norms(std::vector<PlannedNorm>& planned, const AdapterBase& base,
                                    TensorValues& values, Problems& problems, AdapterWeights& adapter) {
  std::vector<std::string> equal;
  std::erase_if(planned, [&](PlannedNorm& norm) {
    auto own = std::make_shared<ReplacedNorm>();
    const auto load = [&](std::optional<TensorInfo>& tensor, const std::string& of_base, float offset,
                          Buffer& out) {
      if (!tensor) return;
      std::vector<float> stored(static_cast<size_t>(norm.size()));
      values.read(*tensor, DType::kF32, reinterpret_cast<std::byte*>(stored.data()));
      if (std::ranges::equal(stored, values_of_base(base, of_base))) {
        equal.push_back(tensor->name);
        tensor.reset();
        return;
      }
      out = Buffer(stored.size() * sizeof(float));
      for (size_t i = 0; i < stored.size(); ++i) out.as<float>()[i] = stored[i] + offset;
    };
    const std::string weight = norm.whole.weight;
    load(norm.bias, bias_name(weight), 0.0F, own->bias);
    load(norm.weight, weight, norm.whole.offset, own->weight);
    if (!norm.weight && !norm.bias) return true;
    if (!adapter.norms.emplace(norm.site, std::move(own)).second)
      problems.add(cat(shown(norm.name), ": another saved module replaces the same norm"));
    return false;
  });
  return equal;
}

}  // namespace quire::lora
