// Reads the parameters of a model out of a checkpoint and packs them for an op table.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "models/expected_tensors.h"
#include "models/matrix_formats.h"
#include "models/model.h"
#include "models/tensor_resolver.h"
#include "models/weight_cache.h"
#include "quant/quantized_rows.h"

namespace quire {

// A pass over the description (describe_model) that fills its results. Takes the tensors one by one and
// releases their pages after their last use. Used by one thread; must not outlive its arguments.
class WeightLoader : public ResolvingVisitor {
 public:
  // cache: null if packed weights are not kept.
  WeightLoader(const TensorResolver& resolver, const ExpectedTensors& expected, Checkpoint& checkpoint,
               const OpTable& ops, const OpContext& ctx, const ModelOptions& options,
               const LoadProgress& progress, WeightCache* cache);

  void matrix(const MatrixSpec& spec, Linear& result) override;
  void vector(const VectorSpec& spec, Buffer& result, Buffer* bias) override;
  void norm(const VectorSpec& spec, Norm& result) override;
  void scalar(const ParamSpec& spec, float& result) override;
  void integers(const ParamSpec& spec, int64_t limit, Buffer& result) override;
  void embedding(const ParamSpec& spec, Embedding& result) override;
  void derived(const DerivedSpec& spec, std::span<Linear> results) override;
  void derived(const DerivedTable& spec, Buffer& result) override;
  void constant(Buffer& table) override { upload(table); }
  void kv_scales(int32_t layer, std::optional<KvScales>& result) override;

  // Returns when all weights are in memory of the device.
  void wait_for_uploads();

  int64_t weight_bytes() const { return weight_bytes_; }  // kept so far
  int64_t num_parameters() const { return num_parameters_; }
  DType weight_dtype() const { return layer_dtype_.value_or(DType::kF32); }  // of the first matrix of a layer

 private:
  class Reader;
  // Float tensors as matrices in memory. copies: the tensors that cannot be read in place.
  struct FloatParts {
    std::vector<Buffer> copies;
    std::vector<TensorView> views;
  };

  // One matrix of tensors with the same storage. The data is taken from the weight cache if it has it.
  PackedLinear pack(std::span<const StoredTensor* const> tensors, const MatrixSpec& spec);
  PackedLinear pack_quantized(std::span<const StoredTensor* const> tensors) const;
  // Moves a weight that is complete to memory of the device.
  void upload(Buffer& weight);
  void upload(PackedLinear& matrix);
  void upload(Embedding& embedding);
  // The data of a matrix or table, from the weight cache or from `make`. name empty = it is not cached.
  Buffer cached(const std::string& name, int64_t bytes, const std::function<Buffer()>& make);
  void read_biases(std::span<const StoredParam> params, Linear& linear);
  FloatParts float_parts(std::span<const StoredTensor* const> tensors) const;
  // Whether a matrix of this format would be compressed if it has 2:4 sparsity.
  bool may_be_sparse(const PackedLinear& matrix, Precision precision) const;
  bool is_sparse(std::span<const TensorView> parts) const;
  // The quantized matrices with their rows in the model's order; `ordered` owns those that are stored in
  // another order.
  std::vector<const QuantizedMatrix*> quantized_parts(std::span<const StoredTensor* const> tensors,
                                                      std::vector<QuantizedRows>& ordered) const;

  // The bytes of the tensor; if it is stacked, those of the current element.
  std::span<const std::byte> bytes_of_own_part(const StoredTensor& tensor) const;
  // The tensor as a matrix [out, in]; `copy` holds it if it cannot be read in place.
  TensorView float_matrix(const StoredTensor& tensor, Buffer& copy) const;
  std::vector<float> read_floats(const StoredTensor& tensor) const;  // dequantized if necessary
  void read_vector(const StoredTensor& tensor, float* out) const;
  std::vector<float> read_vector(const StoredTensor& tensor) const;
  // Ends one use of the tensor. After the last use, its bytes count as loaded and its pages are released.
  void finish_use(const StoredTensor& tensor, bool release = true);
  void finish_use(const StoredParam& param);

  MatrixFormats formats_;
  Checkpoint& source_;
  const OpTable& ops_;
  const OpContext& ctx_;
  const ModelOptions& options_;
  const LoadProgress& progress_;
  WeightCache* cache_;
  std::unique_ptr<DeviceStream> stream_;  // of uploads; null without a device
  std::map<std::string, int32_t, std::less<>> uses_left_;
  const ExpectedTensors& expected_;
  std::optional<DType> layer_dtype_;
  int32_t num_sites_ = 0;  // of adapters, so far (nn/adapter.h)
  int32_t num_norms_ = 0;  // Norm::site, so far
  int64_t weight_bytes_ = 0;
  int64_t num_parameters_ = 0;
  int64_t bytes_done_ = 0;
  int64_t bytes_total_ = 0;
};

}  // namespace quire
