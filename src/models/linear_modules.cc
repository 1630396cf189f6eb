#include "models/linear_modules.h"

#include <algorithm>
#include <set>

#include "models/describe_model.h"
#include "models/expected_tensors.h"
#include "models/model_param_ids.h"
#include "models/pooling_files.h"
#include "models/tensor_resolver.h"

namespace quire {
namespace {

// A matrix of the description, or the vector of a norm.
struct FoundParam {
  ParamSpec spec;  // the first parameter in the tensor
  StoredParam stored;
  ParamPlace place;
  bool derived = false;  // the model uses matrices that are computed from it
};

// A pass over the description that lists its matrices and norms.
class ParamList : public ResolvingVisitor {
 public:
  using ResolvingVisitor::ResolvingVisitor;

  void matrix(const MatrixSpec& spec, Linear& /*result*/) override {
    for (StoredParam& stored : matrices(spec.fused)) {
      ParamSpec first = spec.fused[stored.first];
      if (spec.precision == Precision::kFloat32) first.quantizable = false;
      matrices_.push_back({std::move(first), std::move(stored), place_});
    }
  }
  void vector(const VectorSpec& spec, Buffer& /*result*/, Buffer* /*bias*/) override {
    for (StoredParam& stored : vectors(spec.fused))
      norms_.push_back({spec.fused[0], std::move(stored), place_});
  }
  void scalar(const ParamSpec& /*spec*/, float& /*result*/) override {}
  void integers(const ParamSpec& /*spec*/, int64_t /*limit*/, Buffer& /*result*/) override {}
  void embedding(const ParamSpec& /*spec*/, Embedding& /*result*/) override {}
  void derived(const DerivedSpec& spec, std::span<Linear> /*results*/) override {
    if (!spec.is_module) return;
    for (const ParamSpec& param : stored_sources(spec)) {
      for (StoredParam& stored : source(param)) matrices_.push_back({param, std::move(stored), place_, true});
    }
  }
  void derived(const DerivedTable& /*spec*/, Buffer& /*result*/) override {}
  void kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) override {}

  const std::vector<FoundParam>& all_matrices() const { return matrices_; }
  const std::vector<FoundParam>& norms() const { return norms_; }

 private:
  std::vector<FoundParam> matrices_;
  std::vector<FoundParam> norms_;
};

bool is_plain(const FoundParam& found) {
  return !found.stored.weight.transposed && !found.stored.weight.stacked;
}

// The names of the matrices; none if one of them is not plain.
std::vector<std::string> names_if_plain(const std::vector<const FoundParam*>& matrices) {
  std::vector<std::string> names;
  for (const FoundParam* matrix : matrices) {
    if (!is_plain(*matrix)) return {};
    const std::string& name = matrix->stored.weight.name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint) {
  const auto files = read_pooling_files(checkpoint);
  const ModelSpec spec = read_spec(checkpoint, Runner::kAuto);
  const TensorResolver resolver(spec, checkpoint);
  const ModelToDescribe model{spec, files ? &*files : nullptr};
  ExpectedTensors expected(spec, resolver, checkpoint);
  describe_model(model, expected);
  expected.check();
  ParamList list(resolver, checkpoint);
  describe_model(model, list);
  std::vector<LinearModule> modules;
  std::set<std::string> seen;
  for (const FoundParam& found : list.all_matrices()) {
    const StoredTensor& tensor = found.stored.weight;
    if (found.spec.id == model::kEmbedTokens) continue;  // tied: its rows are also looked up
    if (!seen.insert(tensor.name).second) continue;
    LinearModule module{
        .weight = tensor.name, .layer = found.place.layer, .keep_float = !found.spec.quantizable};
    constexpr std::string_view kSuffix = ".weight";
    const bool named = tensor.name.ends_with(kSuffix);
    module.name = named ? tensor.name.substr(0, tensor.name.size() - kSuffix.size()) : tensor.name;
    if (found.place.axis == Axis::kExperts && !tensor.stacked) module.expert = found.place.index;
    module.plain = named && is_plain(found) && !found.derived;
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<std::string> attention_modules(const Checkpoint& checkpoint) {
  const ModelSpec spec = parse_model(checkpoint.config());
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
  const ModelSpec spec = parse_model(checkpoint.config());
  const LayerSpec& own = spec.layers[static_cast<size_t>(layer)];
  // All uses of a shared block would have to be scaled with it.
  if (own.shared_block || std::holds_alternative<CompressedAttentionSpec>(own.mixer)) return {};
  const TensorResolver resolver(spec, checkpoint);
  ParamList list(resolver, checkpoint);
  describe_model({spec, nullptr, {ModelEnds::kNone, layer, layer + 1}}, list);
  std::vector<const FoundParam*> matrices;
  for (const FoundParam& found : list.all_matrices()) {
    if (found.place.layer == layer) matrices.push_back(&found);
  }
  const auto readers = [&](ParamId ParamSpec::*field, ParamId id) {
    std::vector<const FoundParam*> found;
    std::ranges::copy_if(matrices, std::back_inserter(found),
                         [&](const FoundParam* matrix) { return matrix->spec.*field == id; });
    return names_if_plain(found);
  };
  std::vector<ScalableInput> all;
  for (const ParamId id : {mlp::kUpProj, attention::kVProj}) {
    const auto source =
        std::ranges::find_if(matrices, [&](const FoundParam* matrix) { return matrix->spec.id == id; });
    std::vector<std::string> names = readers(&ParamSpec::input_proj, id);
    if (source == matrices.end() || names.empty() || !is_plain(**source) || (*source)->stored.bias) continue;
    all.push_back({.matrices = std::move(names), .source = (*source)->stored.weight.name});
  }
  for (const ParamId id : {layer::kMlpNorm, layer::kInputNorm}) {
    const auto norm = std::ranges::find_if(list.norms(), [&](const FoundParam& found) {
      return found.place.layer == layer && found.spec.id == id;
    });
    std::vector<std::string> names = readers(&ParamSpec::input_norm, id);
    if (norm == list.norms().end() || names.empty()) continue;
    ScalableInput input{.matrices = std::move(names), .source = norm->stored.weight.name, .norm = true};
    if (norm->stored.bias) input.source_bias = norm->stored.bias->name;
    input.offset = spec.norm.weight_offset;
    all.push_back(std::move(input));
  }
  return all;
}

}  // namespace quire
