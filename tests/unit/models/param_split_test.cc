// How parameters are split over tensor-parallel ranks, in the description of every golden model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "models/param_list.h"
#include "models/registry.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using testing::IsEmpty;

// Collects the parameters whose split is not possible.
class SplitChecker final : public ParamVisitor {
 public:
  std::vector<std::string> wrong;
  int num_split = 0;

  void matrix(const MatrixSpec& spec, Linear& /*result*/) override { check(spec.fused); }
  void vector(const VectorSpec& spec, Buffer& /*result*/, Buffer* /*bias*/) override { check(spec.fused); }
  void scalar(const ParamSpec& spec, float& /*result*/) override { check({spec}); }
  void integers(const ParamSpec& spec, int64_t /*limit*/, Buffer& /*result*/) override { check({spec}); }
  void embedding(const ParamSpec& spec, Embedding& /*result*/) override { check({spec}); }
  void derived(const DerivedSpec& spec, std::span<Linear> /*results*/) override {
    for (const auto& way : spec.sources) check(way);
  }
  void derived(const DerivedTable& spec, Buffer& /*result*/) override { check(spec.sources); }
  void kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) override {}
  void for_each(Axis /*axis*/, int64_t count, const std::function<void(int64_t)>& body) override {
    for (int64_t i = 0; i < count; ++i) body(i);
  }

 private:
  // fused: stored in memory one after the other.
  void check(const std::vector<ParamSpec>& fused) {
    for (const ParamSpec& spec : fused) {
      const int64_t size = spec.split.kind == ShardKind::kRow ? spec.in : spec.out;
      const bool whole = spec.split.kind == ShardKind::kReplicated;
      num_split += whole ? 0 : 1;
      if (spec.split.unit < 1 || size % spec.split.unit != 0)
        wrong.push_back(cat(spec.id.name, ": ", size, " features in units of ", spec.split.unit));
      if (spec.split.kind != fused.front().split.kind)
        wrong.push_back(cat(spec.id.name, " is split in another way than ", fused.front().id.name));
      if (spec.split.kind == ShardKind::kRow && spec.in == 0)
        wrong.push_back(cat(spec.id.name, ": a vector has no columns"));
    }
  }
};

class ParamSplit : public testing::TestWithParam<std::string> {};

TEST_P(ParamSplit, DividesEveryParameterIntoWholeUnits) {
  const auto checkpoint = Checkpoint::open(test::golden_model(GetParam()));
  const ModelSpec spec = parse_model(checkpoint->config());
  SplitChecker checker;
  describe_model({spec}, checker);
  EXPECT_THAT(checker.wrong, IsEmpty());
  EXPECT_GT(checker.num_split, 2 * spec.num_layers());
}

INSTANTIATE_TEST_SUITE_P(Models, ParamSplit, testing::ValuesIn(test::golden_names("models")),
                         [](const auto& name) { return test::test_name(name.param); });

}  // namespace
}  // namespace quire
