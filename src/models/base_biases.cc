#include "models/base_biases.h"

#include <algorithm>
#include <cstring>

#include "models/param_list.h"
#include "models/pooling_files.h"
#include "models/tensor_resolver.h"
#include "quant/codec.h"

namespace quire {
namespace {

// Numbers sites as WeightLoader does.
class BiasVisitor : public ResolvingVisitor {
 public:
  BiasVisitor(const TensorResolver& resolver, std::span<const int32_t> wanted)
      : ResolvingVisitor(resolver), wanted_(wanted) {}

  void matrix(const MatrixSpec& spec, Linear& /*result*/) override {
    const int32_t site = next_site_++;
    if (std::ranges::find(wanted_, site) == wanted_.end()) return;
    const std::vector<StoredParam> params = matrices(spec.fused);
    if (std::ranges::none_of(params, [](const StoredParam& param) { return param.bias.has_value(); })) return;
    std::vector<float>& all = found_[site];
    for (const StoredParam& param : params) {
      const size_t begin = all.size();
      all.resize(begin + static_cast<size_t>(out_features(param.weight)));
      if (param.bias) read(*param.bias, all.data() + begin);
    }
  }
  void vector(const VectorSpec& /*spec*/, Buffer& /*result*/, Buffer* /*bias*/) override {}
  void scalar(const ParamSpec& /*spec*/, float& /*result*/) override {}
  void integers(const ParamSpec& /*spec*/, int64_t /*limit*/, Buffer& /*result*/) override {}
  void embedding(const ParamSpec& /*spec*/, Embedding& /*result*/) override { ++next_site_; }
  void derived(const DerivedSpec& spec, std::span<Linear> /*results*/) override {
    next_site_ += static_cast<int32_t>(spec.matrices.size());
  }
  void derived(const DerivedTable& /*spec*/, Buffer& /*result*/) override {}
  void kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) override {}

  std::map<int32_t, std::vector<float>> take() { return std::move(found_); }

 private:
  // out = the vector in the model's order.
  void read(const StoredTensor& tensor, float* out) const {
    const DType dtype = resolver_.checkpoint().find(tensor.name)->dtype;
    const std::span<const std::byte> bytes = resolver_.checkpoint().bytes(tensor.name);
    Buffer aligned(bytes.size());
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    std::vector<float> stored(bytes.size() / dtype_size(dtype));
    decode_f32(dtype, aligned.data(), stored.data(), static_cast<int64_t>(stored.size()));
    if (tensor.row_layout == nullptr) {
      std::ranges::copy(stored, out);
      return;
    }
    const RowLayout layout = tensor.row_layout(*tensor.layer, static_cast<int64_t>(stored.size()));
    for_each_run(layout,
                 [&](int64_t first, int64_t count) { out = std::copy_n(stored.data() + first, count, out); });
  }

  std::span<const int32_t> wanted_;
  int32_t next_site_ = 0;
  std::map<int32_t, std::vector<float>> found_;
};

}  // namespace

std::map<int32_t, std::vector<float>> read_site_biases(const Checkpoint& checkpoint, const ModelSpec& spec,
                                                       std::span<const int32_t> sites) {
  const auto files = read_pooling_files(checkpoint);
  const TensorResolver resolver(spec, checkpoint);
  BiasVisitor visitor(resolver, sites);
  describe_model({spec, files ? &*files : nullptr}, visitor);
  return visitor.take();
}

}  // namespace quire
