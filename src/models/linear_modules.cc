#include "models/linear_modules.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "models/expected_tensors.h"
#include "models/param_list.h"
#include "models/pooling_files.h"
#include "models/tensor_resolver.h"

namespace quire {
namespace {

// A matrix of the description.
struct Matrix {
  const ListedParam* param;
  const StoredParam* stored;

  const ParamSpec& spec() const { return param->specs[stored->first]; }  // the first parameter in the tensor
};

std::vector<Matrix> matrices_of(const std::vector<ListedParam>& params) {
  std::vector<Matrix> all;
  for (const ListedParam& param : params) {
    if (!is_matrix(param.kind)) continue;
    for (const StoredParam& stored : param.stored) all.push_back({&param, &stored});
  }
  return all;
}

bool is_plain(const Matrix& matrix) {
  return !matrix.stored->weight.transposed && !matrix.stored->weight.stacked;
}

// The names of the matrices; none if one of them is not plain.
std::vector<std::string> names_if_plain(const std::vector<Matrix>& matrices) {
  std::vector<std::string> names;
  for (const Matrix& matrix : matrices) {
    if (!is_plain(matrix)) return {};
    const std::string& name = matrix.stored->weight.name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint) {
  const auto files = read_pooling_files(checkpoint);
  const ModelSpec spec = read_spec(checkpoint, Runner::kAuto);
  const TensorResolver resolver(spec, checkpoint);
  const std::vector<ListedParam> params = list_params({spec, files ? &*files : nullptr}, resolver);
  ExpectedTensors(spec, resolver, params).check();
  std::vector<LinearModule> modules;
  std::set<std::string> seen;
  for (const Matrix& matrix : matrices_of(params)) {
    const StoredTensor& tensor = matrix.stored->weight;
    const ParamPlace& place = matrix.param->place;
    if (matrix.spec().looked_up) continue;  // tied embeddings
    if (!seen.insert(tensor.name).second) continue;
    const bool float32 =
        matrix.param->kind == ParamKind::kMatrix && matrix.param->precision == Precision::kFloat32;
    LinearModule module{
        .weight = tensor.name, .layer = place.layer, .keep_float = float32 || !matrix.spec().quantizable};
    constexpr std::string_view kSuffix = ".weight";
    const bool named = tensor.name.ends_with(kSuffix);
    module.name = named ? tensor.name.substr(0, tensor.name.size() - kSuffix.size()) : tensor.name;
    if (place.axis == Axis::kExperts && !tensor.stacked) module.expert = place.index;
    module.plain = named && is_plain(matrix) && matrix.param->kind == ParamKind::kMatrix;
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<std::string> attention_modules(const Checkpoint& checkpoint) {
  const ModelSpec spec = parse_checkpoint(checkpoint);
  const TensorResolver resolver(spec, checkpoint);
  std::vector<std::string> modules;
  for (int32_t layer = 0; layer < spec.num_layers(); ++layer) {
    const AttentionSpec* attention = attention_of(spec.layers[static_cast<size_t>(layer)]);
    const bool caches = attention != nullptr && attention->kv_sharing_layer < 0;
    modules.push_back(caches ? resolver.attention_module(layer) : "");
  }
  return modules;
}

std::vector<ScalableInput> scalable_inputs(const Checkpoint& checkpoint, int32_t layer) {
  const ModelSpec spec = parse_checkpoint(checkpoint);
  const LayerSpec& own = spec.layers[static_cast<size_t>(layer)];
  // All uses of a shared block would have to be scaled with it.
  if (own.shared_block || !mixer_traits(own).scales_move) return {};
  const TensorResolver resolver(spec, checkpoint);
  std::vector<ListedParam> params =
      list_params({spec, nullptr, {ModelEnds::kNone, layer, layer + 1}}, resolver);
  std::erase_if(params, [&](const ListedParam& param) { return param.place.layer != layer; });
  const std::vector<Matrix> matrices = matrices_of(params);
  const auto readers = [&](ParamId ParamSpec::*field, ParamId id) {
    std::vector<Matrix> found;
    std::ranges::copy_if(matrices, std::back_inserter(found),
                         [&](const Matrix& matrix) { return matrix.spec().*field == id; });
    return names_if_plain(found);
  };
  std::vector<ScalableInput> all;
  // From the last parameter to the first: a projection, or a norm, that produces the input of others.
  for (auto at = matrices.rbegin(); at != matrices.rend(); ++at) {
    const Matrix& source = *at;
    std::vector<std::string> names = readers(&ParamSpec::input_proj, source.spec().id);
    if (names.empty() || !is_plain(source) || source.stored->bias) continue;
    all.push_back({.matrices = std::move(names), .source = source.stored->weight.name});
  }
  for (auto at = params.rbegin(); at != params.rend(); ++at) {
    const ListedParam& norm = *at;
    if (norm.kind != ParamKind::kVector || norm.stored.empty()) continue;
    std::vector<std::string> names = readers(&ParamSpec::input_norm, norm.specs[0].id);
    if (names.empty()) continue;
    const StoredParam& weight = norm.stored[0];
    ScalableInput input{.matrices = std::move(names), .source = weight.weight.name, .norm = true};
    if (weight.bias) input.source_bias = weight.bias->name;
    input.offset = spec.norm.weight_offset;
    all.push_back(std::move(input));
  }
  return all;
}

}  // namespace quire
