// The bytes that the weights of a model take in memory, from names and shapes alone.
#pragma once

#include <cstdint>

#include "models/matrix_formats.h"
#include "models/tensor_resolver.h"

namespace quire {

// A pass over the description (describe_model) that adds up what WeightLoader would keep. Used by one thread.
class BytePlan : public ResolvingVisitor {
 public:
  BytePlan(const TensorResolver& resolver, const Checkpoint& checkpoint, const MatrixFormats& formats)
      : ResolvingVisitor(resolver, checkpoint), formats_(formats) {}

  void matrix(const MatrixSpec& spec, Linear& result) override;
  void vector(const VectorSpec& spec, Buffer& result, Buffer* bias) override;
  void scalar(const ParamSpec& spec, float& result) override;
  void integers(const ParamSpec& spec, int64_t limit, Buffer& result) override;
  void embedding(const ParamSpec& spec, Embedding& result) override;
  void derived(const DerivedSpec& spec, std::span<Linear> results) override;
  void derived(const DerivedTable& spec, Buffer& result) override;
  void kv_scales(int32_t layer, std::optional<KvScales>& result) override;

  int64_t bytes() const { return bytes_; }

 private:
  void add_packed(std::span<const StoredTensor* const> tensors, const MatrixSpec& spec);

  const MatrixFormats& formats_;
  int64_t bytes_ = 0;
};

}  // namespace quire
