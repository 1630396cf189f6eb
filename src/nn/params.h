// The description of a model's parameters. Each mechanism (attention, Mamba, experts, …) has one function
//   visit(spec, …, ParamVisitor&, weights)
// that names its parameters with shape, fusion, precision and split. Loading, byte planning, the check of a
// checkpoint, the list of linear modules, inspection and the cost model are visitors of that function, so
// that a parameter is described in one place.
//
// Weight matrices are [out, in], as in PyTorch: y = x Wᵀ.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/layers.h"
#include "nn/param_id.h"
#include "nn/source_rows.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// How a parameter is split over tensor-parallel ranks, in Megatron's terms, which refer to Wᵀ:
// column-parallel splits `out`, the rows of the stored matrix; row-parallel splits `in`, its columns.
enum class ShardKind : uint8_t { kReplicated, kColumn, kRow, kVocab };
struct Split {
  ShardKind kind = ShardKind::kReplicated;
  int64_t unit =
      1;  // features that stay together, e.g. one head; replicated if there are more ranks than units
};

// Which prefix the tensor's name has in a checkpoint.
enum class ParamScope : uint8_t {
  kDecoder,     // the model's prefix, such as "model."
  kHead,        // prefix of the language modeling head, which is outside of the decoder
  kClassifier,  // the decoder's prefix, or none
};

// One parameter of the model; checkpoints store it as a tensor of its own or together with others
// (TensorName).
struct ParamSpec {
  ParamId id;
  // Shape of the whole parameter, over all ranks. in = 0: a vector [out].
  int64_t out = 0;
  int64_t in = 0;
  bool bias = false;         // also has a bias [out]
  bool optional = false;     // may be missing in the file
  bool quantizable = true;   // `quire quantize` may quantize it, unless the matrix is kept as float32
  bool looked_up = false;    // its rows are also embeddings, so the matrix is not a linear module
  bool equal_parts = false;  // the first of several vectors: a file may store them as parts of equal size,
                             // regardless of their sizes
  int64_t pieces = 1;        // vectors: stored as one tensor [pieces, out / pieces], or as `pieces` tensors
  std::optional<float>
      fill;  // vectors: the value of all elements if checkpoints of the model have no such tensor
  Split split = {};
  // The norm or the projection whose output is this parameter's input, channel by channel: scales can be
  // moved from one to the other (AWQ, SmoothQuant). Empty = none.
  ParamId input_norm = {};
  ParamId input_proj = {};
  ParamScope scope = ParamScope::kDecoder;
  // The numbers in the tensor's name, if they are not those of the layer and of the expert.
  std::optional<std::array<int32_t, 2>> numbers = std::nullopt;
};

// The type that a matrix is kept in.
enum class Precision : uint8_t {
  kDefault,  // as stored, or Quantization::layers
  kLmHead,   // as stored, or Quantization::head
  kFloat32,
};

struct MatrixSpec {
  std::string_view label;        // in profiles
  std::vector<ParamSpec> fused;  // one matrix in memory, concatenated along out
  Precision precision = Precision::kDefault;
};

// Converts the stored values into the buffer that is kept: a transposition, -exp(x), a value repeated per
// head.
using Transform = std::function<Buffer(Buffer stored)>;

struct VectorSpec {
  std::vector<ParamSpec> fused;  // concatenated
  Transform transform = nullptr;
};

// Reads parameters as float32 while derived ones are computed. Used by the loading thread, for the time of
// the call.
class ParamReader {
 public:
  virtual ~ParamReader() = default;
  // All elements in the model's order; a matrix is [out, in]. `of` must be one of the spec's sources.
  virtual std::vector<float> read(const ParamSpec& of) = 0;
  virtual std::vector<float> read_bias(const ParamSpec& of) = 0;  // empty if there is none
  // One row of a matrix. Throws Error if the matrix is quantized.
  virtual std::vector<float> read_row(const ParamSpec& of, int64_t row) = 0;
  virtual bool has(const ParamSpec& of) const = 0;  // the checkpoint has it
  virtual const OpTable& ops() const = 0;
  virtual const OpContext& context() const = 0;
};

// Matrices that are computed from parameters at load, such as MLA's W_UK and W_UV per head.
struct DerivedMatrix {
  std::string name;  // in the weight cache; empty = computed at each start
  int64_t out = 0;
  int64_t in = 0;
  bool bias = false;
  // Rows of the parameter DerivedSpec::adapted; nullopt = adapters cannot change the matrix.
  std::optional<SourceRows> adapted = std::nullopt;
};
struct DerivedSpec {
  std::string_view label;
  // Each entry is one way to store the sources; the first one that the checkpoint has is used.
  std::vector<std::vector<ParamSpec>> sources;
  std::vector<DerivedMatrix> matrices;
  ParamId adapted = {};    // the source whose adapters change the matrices; empty = none
  bool float32 = false;    // otherwise the type that the first source is stored in
  int64_t parameters = 0;  // number of parameters that the checkpoint's tensors do not count
  std::function<void(ParamReader&, size_t index, std::span<float> out)> compute;  // matrices[index]
  std::function<void(ParamReader&, size_t index, std::span<float> out)> compute_bias = nullptr;
};

// A float32 table that is computed at load.
struct DerivedTable {
  std::string name;  // in the weight cache; empty = computed at each start
  std::vector<ParamSpec> sources;
  int64_t count = 0;  // elements
  std::function<void(ParamReader&, std::span<float> out)> compute;
};

// The kind of elements that for_each() visits.
enum class Axis : uint8_t { kLayers, kExperts, kGroups, kStreams };

// One pass over the description. Passes that only look at it leave the results as they are.
class ParamVisitor {
 public:
  virtual ~ParamVisitor() = default;
  virtual void matrix(const MatrixSpec& spec, Linear& result) = 0;
  // float32. bias: null if the parameter has none.
  virtual void vector(const VectorSpec& spec, Buffer& result, Buffer* bias) = 0;
  // The weights and the bias of a norm.
  virtual void norm(const VectorSpec& spec, Norm& result) { vector(spec, result.weight, &result.bias); }
  // One number; `result` does not change if the parameter is optional and missing.
  virtual void scalar(const ParamSpec& spec, float& result) = 0;
  // int32 [out, in], each in [0, limit).
  virtual void integers(const ParamSpec& spec, int64_t limit, Buffer& result) = 0;
  virtual void embedding(const ParamSpec& spec, Embedding& result) = 0;  // for lookups only
  virtual void derived(const DerivedSpec& spec, std::span<Linear> results) = 0;
  virtual void derived(const DerivedTable& spec, Buffer& result) = 0;
  // A table of numbers that does not depend on the checkpoint. It is complete, and used by ops.
  virtual void constant(Buffer& /*table*/) {}
  // Scales of an 8-bit KV cache, which the checkpoint may have next to the layer's projections.
  virtual void kv_scales(int32_t layer, std::optional<KvScales>& result) = 0;
  // Calls body(i) for i in [0, count). Tensors within the body have the number i, or are part i of a stacked
  // tensor. A pass may leave elements out.
  virtual void for_each(Axis axis, int64_t count, const std::function<void(int64_t)>& body) = 0;
};

// One parameter as a matrix.
inline void visit_matrix(ParamVisitor& visitor, std::string_view label, const ParamSpec& spec, Linear& result,
                         Precision precision = Precision::kDefault) {
  visitor.matrix({.label = label, .fused = {spec}, .precision = precision}, result);
}
// One parameter as a vector without a bias.
inline void visit_vector(ParamVisitor& visitor, const ParamSpec& spec, Buffer& result,
                         Transform transform = nullptr) {
  visitor.vector({.fused = {spec}, .transform = std::move(transform)}, result, nullptr);
}
// Reads norm.weight, of norm.size elements, and its bias. The other members of `norm` are set before.
void visit_norm(ParamVisitor& visitor, ParamSpec spec, Norm& norm);
// A norm without its weights.
Norm make_norm(const NormSpec& spec, int64_t size);
// norm = make_norm(spec, size), with the weights and the bias of parameter `id`.
void visit_norm(ParamVisitor& visitor, ParamId id, const NormSpec& spec, int64_t size, Norm& norm);
// result = a table with these values.
template <class T>
void visit_values(ParamVisitor& visitor, const std::vector<T>& values, Buffer& result) {
  result = Buffer(values.size() * sizeof(T));
  std::copy(values.begin(), values.end(), result.as<T>());
  visitor.constant(result);
}
// result = a float32 table with the same value everywhere.
void visit_filled(ParamVisitor& visitor, int64_t count, float value, Buffer& result);
// norm = a norm whose weights are all one; no checkpoint has it.
void visit_unit_norm(ParamVisitor& visitor, int64_t size, float eps, Norm& norm);

// Applies f to each stored value.
Transform each(std::function<float(float)> f);
// A float32 matrix [rows, columns] as [columns, rows].
Buffer transposed(const Buffer& matrix, int64_t rows, int64_t columns);

// Specs of matrices: [out, in], split over ranks by output features in whole units, by input features, or not
// at all.
inline ParamSpec column_parallel(ParamId id, int64_t out, int64_t in, int64_t unit = 1) {
  return {.id = id, .out = out, .in = in, .split = {ShardKind::kColumn, unit}};
}
inline ParamSpec row_parallel(ParamId id, int64_t out, int64_t in, int64_t unit = 1) {
  return {.id = id, .out = out, .in = in, .split = {ShardKind::kRow, unit}};
}
inline ParamSpec replicated(ParamId id, int64_t out, int64_t in = 0) {
  return {.id = id, .out = out, .in = in};
}
inline ParamSpec with_bias(ParamSpec spec, bool bias) {
  spec.bias = bias;
  return spec;
}
inline ParamSpec not_quantizable(ParamSpec spec) {
  spec.quantizable = false;
  return spec;
}
inline ParamSpec with_scope(ParamSpec spec, ParamScope scope) {
  spec.scope = scope;
  return spec;
}
inline ParamSpec after_norm(ParamSpec spec, ParamId norm) {
  spec.input_norm = norm;
  return spec;
}

// The input of a mechanism, and the layer it belongs to.
struct InputSpec {
  int64_t size = 0;  // channels of the input
  // The norm that produced the input, if scales can be moved into it.
  ParamId norm = {};
  int64_t hidden_size = 0;  // channels of the output; 0 = size
  int32_t layer = 0;
  int32_t num_layers = 1;

  int64_t output_size() const { return hidden_size > 0 ? hidden_size : size; }
};

}  // namespace quire
