#include "lora/load_saved.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/fingerprint.h"
#include "base/strings.h"
#include "quant/codec.h"

namespace quire::lora {
namespace {

// Whether two arrays have the same values, in any types. The second one may be unaligned.
bool has_equal_values(DType dtype, const std::byte* a, DType other_dtype, std::span<const std::byte> b) {
  constexpr size_t kChunk = 4096;
  std::array<float, kChunk> one{};
  std::array<float, kChunk> other{};
  Buffer aligned(kChunk * sizeof(float));
  const size_t count = b.size() / dtype_size(other_dtype);
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t size = std::min(kChunk, count - begin);
    std::memcpy(aligned.data(), b.data() + begin * dtype_size(other_dtype), size * dtype_size(other_dtype));
    decode_f32(dtype, a + begin * dtype_size(dtype), one.data(), static_cast<int64_t>(size));
    decode_f32(other_dtype, aligned.data(), other.data(), static_cast<int64_t>(size));
    if (!std::equal(one.begin(), one.begin() + static_cast<ptrdiff_t>(size), other.begin())) return false;
  }
  return true;
}

bool is_equal_to_base(const PlannedMatrix& planned, const Buffer& weight, const AdapterBase& base) {
  if (base.checkpoint == nullptr || !planned.whole || planned.bias) return false;
  std::unique_lock<std::mutex> lock;
  if (base.reading != nullptr) lock = std::unique_lock(*base.reading);
  const std::string& name = planned.whole->weight;
  const TensorInfo* info = base.checkpoint->find(name);
  if (info == nullptr || base.checkpoint->quantized(name) != nullptr || !is_storage_dtype(info->dtype) ||
      info->shape != planned.weight.shape)
    return false;
  return has_equal_values(planned.weight.dtype, weight.data(), info->dtype, base.checkpoint->bytes(name));
}

std::shared_ptr<const ReplacedMatrix> make_matrix(const PlannedMatrix& planned, Buffer& weight,
                                                  const AdapterBase& base, TensorValues& values) {
  auto out = std::make_shared<ReplacedMatrix>();
  const DType dtype = planned.weight.dtype;
  const int64_t n = planned.weight.shape[0];
  const int64_t k = planned.weight.shape[1];
  Buffer bias;
  if (planned.bias) {
    bias = Buffer(static_cast<size_t>(n) * sizeof(float));
    values.read(*planned.bias, DType::kF32, bias.data());
  }
  Fingerprint content;
  content.add(dtype_name(dtype));
  for (const int64_t size : {n, k}) content.add(size);
  for (const Buffer* part : {&weight, &bias})
    content.add(std::span<const std::byte>(part->data(), part->size()));
  out->content = content.text();
  if (base.keeps_values) {
    out->values.resize(static_cast<size_t>(n * k));
    decode_f32(dtype, weight.data(), out->values.data(), n * k);
    out->bias.assign(bias.as<float>(), bias.as<float>() + bias.size() / sizeof(float));
  }
  if (base.ops != nullptr) {
    const std::array<TensorView, 1> parts = {make_view(weight.data(), dtype, Shape{n, k})};
    out->weight = base.ops->pack_linear({}, parts, {.dtype = base.dtype.value_or(dtype)});
    out->weight.label = "adapters";
    out->weight.bias = std::move(bias);
  }
  return out;
}

}  // namespace

std::vector<std::string> load_saved(std::vector<PlannedMatrix>& planned, const AdapterBase& base,
                                    TensorValues& values, Problems& problems, AdapterWeights& adapter) {
  std::vector<std::string> equal;
  const auto put = [&](MatricesBySite& sites, const PlannedMatrix& matrix,
                       const std::shared_ptr<const ReplacedMatrix>& own) {
    const auto [at, added] = sites.emplace(matrix.site, own);
    if (!added && at->second->content != own->content)
      problems.add(cat(shown(matrix.name), ": another saved module replaces the same weights"));
  };
  std::vector<PlannedMatrix> different;
  for (PlannedMatrix& matrix : planned) {
    Buffer weight(matrix.weight.bytes);
    values.read(matrix.weight, matrix.weight.dtype, weight.data());
    if (is_equal_to_base(matrix, weight, base)) {
      equal.push_back(matrix.weight.name);
      continue;
    }
    const auto own = make_matrix(matrix, weight, base, values);
    if (matrix.changes_embedding()) put(adapter.tables, matrix, own);
    if (matrix.changes_output()) put(adapter.matrices, matrix, own);
    matrix.packed_bytes = static_cast<int64_t>(own->weight.data.size() + own->weight.bias.size());
    different.push_back(std::move(matrix));
  }
  planned = std::move(different);
  return equal;
}

}  // namespace quire::lora
