// An adapter on a quantized base adds no error of its own: the outputs differ from those of the dequantized
// base with the adapter as little as the outputs of the two bases differ. The dequantized base with an
// adapter is compared with PEFT elsewhere.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "models/adapter_targets.h"
#include "quantize/overlay_checkpoint.h"
#include "quantize/quantize_gguf.h"
#include "support/golden_checkpoint.h"
#include "support/temp_dir.h"
#include "unit/models/adapter_of_all.h"
#include "unit/models/golden_models.h"
#include "unit/quantize/model_logits.h"
#include "unit/quantize/small_llama.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// A checkpoint with float32 weights instead of quantized ones.
class Dequantized : public OverlayCheckpoint {
 public:
  explicit Dequantized(Checkpoint& below) : OverlayCheckpoint(below) {
    for (const std::string& name : below.names()) {
      if (const QuantizedMatrix* matrix = below.quantized(name)) replace(name, test::decode(*matrix));
    }
  }
};

std::vector<float> logits_of(const Model& model, const AdapterWeights* adapter) {
  std::mt19937 random(3);
  std::vector<int32_t> prompt(24);
  for (int32_t& token : prompt)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(model.spec().vocab_size));
  test::PagedRunner runner(model, *select_cpu_isa().table, nullptr, {.adapter = adapter});
  std::vector<float> all;
  for (const auto& row : runner.append(prompt, 24)) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::unique_ptr<Model> load(Checkpoint& checkpoint, const ModelOptions& options = {}) {
  const OpTable& ops = *select_cpu_isa().table;
  Buffer workspace(ops.workspace_bytes(64, 256, 16, 64, 1));
  return Model::load(checkpoint, ops, {nullptr, {workspace.data(), workspace.size()}}, options, {});
}

// Sums in another order.
constexpr double kFloatError = 2e-6;

void expect_no_error_of_its_own(const Model& model, const Model& exact, const AdapterTargets& targets) {
  const AdapterWeights adapter = test::adapter_of_all(targets, 0.05F);
  const std::vector<float> base = logits_of(exact, nullptr);
  const std::vector<float> adapted = logits_of(exact, &adapter);
  const double of_base = test::error_of(logits_of(model, nullptr), base);
  EXPECT_LE(test::error_of(logits_of(model, &adapter), adapted), 2.0 * of_base + kFloatError);
  EXPECT_GT(test::error_of(adapted, base), 0.05) << "the adapter changes little";
}

void compare_with_dequantized(Checkpoint& checkpoint) {
  Dequantized dense(checkpoint);
  const AdapterTargets targets = adapter_targets(checkpoint, read_spec(checkpoint, Runner::kAuto));
  const auto exact = load(dense, {.dtype = DType::kF32});
  for (const auto activations :
       {ActivationFormat::kFloat, ActivationFormat::kInt16, ActivationFormat::kInt8}) {
    SCOPED_TRACE(static_cast<int>(activations));
    const auto model = load(checkpoint, {.dtype = DType::kF32, .quantized_activations = activations});
    expect_no_error_of_its_own(*model, *exact, targets);
  }
}

class QuantizedBases : public testing::TestWithParam<std::string> {};

TEST_P(QuantizedBases, AddNoErrorToAnAdapter) {
  const auto checkpoint = Checkpoint::open(test::quantized_model(GetParam()));
  compare_with_dequantized(*checkpoint);
}

std::vector<std::string> quantized_models() {
  std::vector<std::string> names = test::golden_names("quantized");
  // Its tensors have another shape than those of floats.
  std::erase(names, "mxfp4-experts");
  // It selects keys and experts, and a small error can change which.
  std::erase(names, "fp8-deepseek_v4");
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, QuantizedBases, testing::ValuesIn(quantized_models()),
                         [](const auto& test) { return test::test_name(test.param); });

class GgufBases : public testing::TestWithParam<const char*> {};

TEST_P(GgufBases, AddNoErrorToAnAdapter) {
  const test::TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto source = Checkpoint::open(dir.path() / "in");
  ThreadPool pool(2);
  quantize_gguf(
      *source,
      {.type = gguf_target(GetParam()), .output = dir.path() / "out", .name = "small", .tokenizer = {}}, pool,
      {});
  const auto checkpoint = Checkpoint::open(dir.path() / "out");
  compare_with_dequantized(*checkpoint);
}

INSTANTIATE_TEST_SUITE_P(All, GgufBases,
                         testing::Values("gguf-q8_0", "gguf-q4_0", "gguf-q5_1", "gguf-q5_0", "gguf-iq4_nl"),
                         [](const auto& test) { return test::test_name(test.param); });

// Weights that quire quantizes itself, against the floats.
class QuantizedAtLoad : public testing::TestWithParam<const char*> {};

TEST_P(QuantizedAtLoad, AddsNoErrorToAnAdapter) {
  const auto checkpoint = Checkpoint::open(test::golden_model("qwen3"));
  const AdapterTargets targets = adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto));
  const auto exact = load(*checkpoint);
  const auto model = load(*checkpoint, {.quantization = quantization_from_name(GetParam())});
  expect_no_error_of_its_own(*model, *exact, targets);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedAtLoad, testing::Values("int8", "int4"),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
