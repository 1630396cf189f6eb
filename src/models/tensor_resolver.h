// Finds the tensors of a checkpoint that store the parameters of a model, by the architecture's name table.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "models/model_spec.h"
#include "models/tensor_names.h"
#include "nn/params.h"

namespace quire {

// Elements of a shape.
int64_t numel(std::span<const int64_t> shape);

// A tensor that the model needs, under the name that this checkpoint uses.
struct StoredTensor {
  std::string name;
  std::vector<int64_t>
      shape;                // as stored; if stacked, the first dimension is the number of experts or groups
  bool transposed = false;  // a matrix stored as [in, out]
  RowLayoutFn row_layout = nullptr;
  const LayerSpec* layer = nullptr;  // argument of row_layout
  bool stacked = false;              // holds this for all experts, or for all groups of heads
  bool flat = false;                 // stacked as rows: [parts * out, in]
};

// Number of elements; of one part if the tensor is stacked.
int64_t elements(const StoredTensor& tensor);
// Rows of the matrix in the model's order [out, in].
int64_t out_features(const StoredTensor& matrix);

// A tensor with its bias.
struct StoredParam {
  StoredTensor weight;
  std::optional<StoredTensor> bias;
  size_t first = 0;  // index of its first parameter among the resolved ones
};

// The position of a visitor: the layer, and the element of a loop over experts, groups or streams. -1 =
// outside of layers or loops.
struct ParamPlace {
  int32_t layer = -1;
  Axis axis = Axis::kLayers;
  int32_t index = -1;
  int32_t count = 0;
};

// Uses only the names and shapes of the checkpoint. Must not outlive spec and checkpoint. Any thread.
class TensorResolver {
 public:
  TensorResolver(const ModelSpec& spec, const Checkpoint& checkpoint);

  // The tensors that hold these parameters, in order. Parameters without a row in the name table, and
  // optional ones that this checkpoint does not have, are left out. A missing tensor has the name that it
  // should have. vectors: dimensions of size 1 in the file are ignored.
  std::vector<StoredParam> resolve(std::span<const ParamSpec> fused, const ParamPlace& place,
                                   bool vectors = false) const;

  // The module of the layer's key projection, such as "model.layers.0.self_attn"; empty if there is none.
  std::string attention_module(int32_t layer) const;

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const WeightNames& names() const { return names_; }
  const std::string& prefix() const { return prefix_; }
  const std::string& head_prefix() const { return head_prefix_; }
  const ModelSpec& spec() const { return spec_; }
  // The name table, with the rows of a classifier.
  std::span<const TensorName> rows() const { return rows_; }
  // The numbers that replace "{}" in the module of a row.
  std::array<int32_t, 2> numbers_of(const TensorName& row, const ParamSpec& spec,
                                    const ParamPlace& place) const;

 private:
  // The row that stores the first parameter, alone or with following ones; null = none.
  const TensorName* choose(std::span<const ParamSpec> fused, const ParamPlace& place) const;
  std::string name_of(const TensorName& row, const ParamSpec& spec, const ParamPlace& place) const;
  StoredParam describe(const TensorName& row, std::span<const ParamSpec> params, const ParamPlace& place,
                       bool vectors) const;
  // Adapts the shape to equivalent variants in the file.
  void accept_variants(StoredTensor& tensor, bool vectors) const;
  bool is_present_anywhere(const TensorName& row) const;
  bool stacks_experts() const;

  const ModelSpec& spec_;
  const Checkpoint& checkpoint_;
  WeightNames names_;
  std::vector<TensorName> rows_;
  std::map<std::string_view, std::vector<const TensorName*>> by_first_;  // rows by their first parameter
  std::map<const TensorName*, bool> present_;                            // rows of several parameters
  std::string prefix_;
  std::string head_prefix_;
  bool stacked_experts_ = false;
};

// A visitor that keeps track of its position and resolves parameters there.
class ResolvingVisitor : public ParamVisitor {
 public:
  explicit ResolvingVisitor(const TensorResolver& resolver) : resolver_(resolver) {}
  void for_each(Axis axis, int64_t count, const std::function<void(int64_t)>& body) override;

 protected:
  std::vector<StoredParam> matrices(std::span<const ParamSpec> fused) const {
    return resolver_.resolve(fused, place_);
  }
  std::vector<StoredParam> vectors(std::span<const ParamSpec> fused) const {
    return resolver_.resolve(fused, place_, true);
  }
  // A source of a derived parameter.
  std::vector<StoredParam> source(const ParamSpec& spec) const {
    return resolver_.resolve(std::span(&spec, 1), place_, spec.in == 0);
  }
  // The sources of a derived parameter; StoredParam::first is the index in specs.
  std::vector<StoredParam> sources(std::span<const ParamSpec> specs) const;
  // The first way to store the sources that the checkpoint has, or the first one.
  std::vector<ParamSpec> stored_sources(const DerivedSpec& spec) const;
  bool is_stored(const ParamSpec& spec) const;

  const TensorResolver& resolver_;
  ParamPlace place_;
};

}  // namespace quire
