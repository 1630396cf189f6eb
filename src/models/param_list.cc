#include "models/param_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {
namespace {

class ParamLister : public ResolvingVisitor {
 public:
  using ResolvingVisitor::ResolvingVisitor;

  void matrix(const MatrixSpec& spec, Linear& /*result*/) override {
    add(ParamKind::kMatrix, spec.fused, matrices(spec.fused)).precision = spec.precision;
  }
  void vector(const VectorSpec& spec, Buffer& /*result*/, Buffer* /*bias*/) override {
    add(ParamKind::kVector, spec.fused, vectors(spec.fused));
  }
  void norm(const VectorSpec& spec, Norm& result) override {
    ListedParam& own = add(ParamKind::kVector, spec.fused, vectors(spec.fused));
    own.norm = num_norms_++;
    own.offset = spec.transform ? result.weight_offset : 0.0F;
  }
  void scalar(const ParamSpec& spec, float& /*result*/) override {
    add(ParamKind::kScalar, {spec}, vectors({&spec, 1}));
  }
  void integers(const ParamSpec& spec, int64_t /*limit*/, Buffer& /*result*/) override {
    add(ParamKind::kIntegers, {spec}, matrices({&spec, 1}));
  }
  void embedding(const ParamSpec& spec, Embedding& /*result*/) override {
    add(ParamKind::kEmbedding, {spec}, matrices({&spec, 1}));
  }
  void derived(const DerivedSpec& spec, std::span<Linear> /*results*/) override {
    const std::vector<ParamSpec> specs = stored_sources(spec);
    ListedParam& own = add(ParamKind::kDerivedMatrices, specs, sources(specs));
    own.matrices = spec.matrices;
    own.adapted = spec.adapted;
    own.float32 = spec.float32;
  }
  void derived(const DerivedTable& spec, Buffer& /*result*/) override {
    add(ParamKind::kDerivedTable, spec.sources, sources(spec.sources)).count = spec.count;
  }
  void kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) override {}

  std::vector<ListedParam> take() { return std::move(all_); }

 private:
  ListedParam& add(ParamKind kind, std::vector<ParamSpec> specs, std::vector<StoredParam> stored) {
    return all_.emplace_back(ListedParam{kind, std::move(specs), std::move(stored), place_});
  }

  std::vector<ListedParam> all_;
  int32_t num_norms_ = 0;
};

}  // namespace

std::vector<ListedParam> list_params(const ModelToDescribe& model, const TensorResolver& resolver) {
  ParamLister lister(resolver);
  describe_model(model, lister);
  return lister.take();
}

}  // namespace quire
