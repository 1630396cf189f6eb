// Every golden model on every instruction set that this machine has; with sanitizers on the best one, because
// test_backends runs the kernels of all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/thread_pool.h"
#include "ops/reference.h"
#include "support/sanitizers.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const auto& isa : cpu_isas()) {
    if (isa.supported) names.emplace_back(isa.name);
  }
  if (test::kSanitizer) names.erase(names.begin(), names.end() - 1);
  return names;
}

using IsaAndModel = std::tuple<std::string, std::string>;

class ModelIsa : public testing::TestWithParam<IsaAndModel> {};

TEST_P(ModelIsa, MatchesTransformersInAnyChunking) {
  const auto& [isa, model] = GetParam();
  test::expect_golden(model, *select_cpu_isa(isa).table);
}

INSTANTIATE_TEST_SUITE_P(All, ModelIsa,
                         testing::Combine(testing::ValuesIn(supported_isas()),
                                          testing::ValuesIn(test::golden_names("models"))),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + test::test_name(std::get<1>(test.param));
                         });

class QuantizedIsa : public testing::TestWithParam<IsaAndModel> {};

TEST_P(QuantizedIsa, MatchesTheDequantizedModelInAnyChunking) {
  const auto& [isa, model] = GetParam();
  test::expect_golden(model, *select_cpu_isa(isa).table, {}, "quantized");
}

TEST_P(QuantizedIsa, IsCloseToTheDequantizedModelWithInt16Activations) {
  const auto& [isa, model] = GetParam();
  test::expect_golden(model, *select_cpu_isa(isa).table, {}, "quantized",
                      {.quantized_activations = ActivationFormat::kInt16});
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedIsa,
                         testing::Combine(testing::ValuesIn(supported_isas()),
                                          testing::ValuesIn(test::golden_names("quantized"))),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + test::test_name(std::get<1>(test.param));
                         });

TEST(QuantizedActivations, HaveOneScalePerTokenOnEveryInstructionSet) {
  for (const std::string& isa : supported_isas()) {
    SCOPED_TRACE(isa);
    test::expect_token_scales(*select_cpu_isa(isa).table);
  }
}

// Reference matrix products with quantized activations.
void linear_rounded(const OpContext& ctx, const ops::Linear& op) {
  std::vector<float> rounded;
  for (int64_t r = 0; r < op.x.rows(); ++r) {
    for (int64_t i = 0; i < op.x.row_size(); ++i)
      rounded.push_back(bf16_to_f32(f32_to_bf16(op.x.row<float>(r)[i])));
  }
  ops::Linear with_rounded = op;
  with_rounded.x = make_view(rounded.data(), DType::kF32, op.x.shape);
  reference_ops().run(ctx, with_rounded);
}

// Small differences in sums can change the rounding of an activation.
TEST(RoundedActivations, MatchTheReferenceOps) {
  const auto is_level = [](const CpuIsa& isa) { return isa.name == "avx512_bf16" && isa.supported; };
  if (std::ranges::none_of(cpu_isas(), is_level)) GTEST_SKIP() << "this machine has no AVX512-BF16";
  const OpTable& ops = *select_cpu_isa("avx512_bf16").table;
  OpTable plain = reference_ops();
  plain.set<ops::Linear>(linear_rounded);
  for (const std::string name : {"llama-bfloat16", "mistral-bfloat16", "qwen2-bfloat16"}) {
    ASSERT_TRUE(test::rounds_activations(name, ops));
    const auto fast_model = test::load_model(test::golden_model(name), ops);
    const auto plain_model = test::load_model(test::golden_model(name), plain);
    const std::vector<int32_t> prompt = {5, 17, 3, 88, 41, 9, 2, 60, 33, 71};
    const auto got = test::PagedRunner(*fast_model.model, ops, nullptr, {}).append(prompt, 4);
    const auto want = test::PagedRunner(*plain_model.model, plain, nullptr, {}).append(prompt, 4);
    for (size_t r = 0; r < want.size(); ++r) {
      const float largest = std::ranges::max(want[r], {}, [](float v) { return std::abs(v); });
      for (size_t i = 0; i < want[r].size(); ++i)
        ASSERT_NEAR(got[r][i], want[r][i], 1e-5 * std::abs(largest)) << name << ", row " << r;
    }
  }
}

class StoriesIsa : public testing::TestWithParam<std::string> {};

TEST_P(StoriesIsa, MatchesGreedyTokens) {
  test::expect_stories(*select_cpu_isa(GetParam()).table);
}

// One and three threads, for steps with many rows and with one row.
TEST_P(StoriesIsa, DoesNotDependOnThreads) {
  const auto dir = test::golden_model("llama");
  const OpTable& ops = *select_cpu_isa(GetParam()).table;
  const auto loaded = test::load_model(dir, ops);
  const std::vector<int32_t> prompt = {5,  17, 3,  88, 41, 9,  2, 60, 33, 71,
                                       12, 4,  90, 55, 28, 19, 1, 7,  64, 80};
  test::PagedRunner alone(*loaded.model, ops, nullptr, {});
  ThreadPool pool(3);
  test::RunnerOptions options;
  options.threads = 3;
  test::PagedRunner together(*loaded.model, ops, &pool, options);
  EXPECT_EQ(alone.append(prompt, 20), together.append(prompt, 20));
  EXPECT_EQ(alone.append(prompt, 1), together.append(prompt, 1));
}

INSTANTIATE_TEST_SUITE_P(All, StoriesIsa, testing::ValuesIn(supported_isas()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace quire
