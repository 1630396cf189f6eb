// Calibration: running layers one by one, observing inputs, scaling and rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/reference.h"
#include "quantize/float_matrix.h"
#include "quantize/layer_runner.h"
#include "quantize/overlay_checkpoint.h"
#include "quantize/quantize_gguf.h"
#include "quantize/quantize_model.h"
#include "quantize/scaling.h"
#include "support/golden_checkpoint.h"
#include "unit/io/io_test_util.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/paged_runner.h"
#include "unit/quantize/small_llama.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

std::vector<std::vector<int32_t>> some_windows(int count, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::vector<std::vector<int32_t>> windows;
  for (int i = 0; i < count; ++i) {
    auto& ids = windows.emplace_back(20 + rng() % 20);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 48);
  }
  return windows;
}

std::vector<float> logits_of(Checkpoint& checkpoint, const std::vector<int32_t>& ids,
                             DType kv_dtype = DType::kF32) {
  ThreadPool pool(1);
  const auto model = Model::load(checkpoint, reference_ops(), {&pool, {}}, {}, {});
  test::PagedRunner runner(*model, reference_ops(), &pool, {.kv_dtype = kv_dtype});
  std::vector<float> all;
  for (const auto& row : runner.append(ids, 64)) all.insert(all.end(), row.begin(), row.end());
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

std::set<std::string> matrices_of(const Checkpoint& checkpoint, int32_t layer) {
  std::set<std::string> names;
  for (const LinearModule& module : linear_modules(checkpoint)) {
    if (module.layer == layer) names.insert(module.weight);
  }
  return names;
}

TEST(LayerRunner, ObservesTheInputsOfTheMatrices) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto checkpoint = Checkpoint::open(dir.path() / "in");
  ThreadPool pool(2);
  const auto windows = some_windows(3);
  int64_t tokens = 0;
  for (const auto& ids : windows) tokens += static_cast<int64_t>(ids.size());
  LayerRunner runner(*checkpoint, pool, windows);
  const auto inputs = runner.observe(0, matrices_of(*checkpoint, 0));
  ASSERT_EQ(inputs.size(), 4U);  // q, k and v; output; gate and up; down
  for (const InputStats& stats : inputs) {
    EXPECT_EQ(stats.rows, tokens);
    for (int64_t i = 0; i < stats.k; ++i) {
      const auto at = static_cast<size_t>(i);
      const float square = stats.largest[at] * stats.largest[at];
      EXPECT_GE(stats.h[at * static_cast<size_t>(stats.k) + at], square * 0.999F);
      EXPECT_LE(stats.h[at * static_cast<size_t>(stats.k) + at],
                square * static_cast<float>(tokens) * 1.001F);
    }
  }
  // The input of attention is the normalized embedding.
  const auto qkv = std::ranges::find_if(inputs, [](const auto& s) { return s.tensors.size() == 3; });
  ASSERT_NE(qkv, inputs.end());
  const auto table = read_matrix(*checkpoint, "model.embed_tokens.weight");
  const auto norm = read_floats(*checkpoint, "model.layers.0.input_layernorm.weight");
  std::vector<double> expected(64);
  for (const auto& ids : windows) {
    for (const int32_t id : ids) {
      const float* row = table.values.data() + id * 64;
      double mean = 0.0;
      for (int i = 0; i < 64; ++i) mean += row[i] * row[i] / 64.0;
      for (size_t i = 0; i < 64; ++i) expected[i] += std::pow(row[i] * norm[i], 2) / (mean + 1e-5);
    }
  }
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(qkv->h[i * 64 + i], expected[i], 2e-2 * expected[i]);
}

// Keys and values are distinguished if values are smaller than keys and if keys of an indexer follow.
TEST(LayerRunner, MeasuresKeysAndValuesSeparately) {
  for (const char* name : {"llama", "mimo_v2_flash", "minimax_m3"}) {
    test::EditedCheckpoint edited(test::golden_checkpoint(std::string("models/") + name));
    for (auto& [tensor, data] : edited.tensors) {
      if (tensor.find(".v_proj.") != std::string::npos) std::ranges::fill(data.bytes, std::byte{0});
    }
    const auto checkpoint = edited.open();
    ThreadPool pool(1);
    LayerRunner runner(*checkpoint, pool, {{3, 1, 4, 1, 5, 9, 2, 6}});
    for (int32_t layer = 0; layer < runner.spec().num_layers(); ++layer) {
      const KvLimits limits = runner.advance(layer);
      EXPECT_GT(limits.keys, 0.0F) << name;
      EXPECT_EQ(limits.values, 0.0F) << name;
    }
  }
}

TEST(Scaling, DoesNotChangeTheModel) {
  for (const char* name : {"llama-bfloat16", "gemma2", "olmo2", "phi3", "stablelm", "mixtral", "bitnet",
                           "mamba", "mamba2", "jamba", "nemotron_h", "bamba", "falcon_h1", "qwen3_5",
                           "qwen3_next", "olmo_hybrid", "lfm2", "kimi_linear", "bailing_hybrid"}) {
    const auto checkpoint = Checkpoint::open(test::golden_checkpoint(std::string("models/") + name));
    OverlayCheckpoint overlay(*checkpoint);
    ThreadPool pool(1);
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const std::vector<float> before = logits_of(*checkpoint, ids);
    LayerRunner runner(overlay, pool, {ids});
    size_t scaled = 0;
    for (int32_t layer = 0; layer < runner.spec().num_layers(); ++layer) {
      auto inputs = runner.observe(layer, matrices_of(*checkpoint, layer));
      for (const ScalableInput& input : scalable_inputs(*checkpoint, layer)) {
        const auto stats = std::ranges::find_if(
            inputs, [&](const auto& s) { return s.tensors.front() == input.matrices.front(); });
        ASSERT_NE(stats, inputs.end()) << name << " " << input.matrices.front();
        std::vector<float> factors(static_cast<size_t>(stats->k));
        for (size_t i = 0; i < factors.size(); ++i) factors[i] = 0.25F + 0.1F * static_cast<float>(i % 40);
        apply_factors(overlay, input, factors, *stats);
        ++scaled;
      }
      runner.advance(layer);
    }
    if (std::string(name) == "llama-bfloat16") {
      EXPECT_GE(scaled, 6U);
    }
    EXPECT_LT(distance(before, logits_of(overlay, ids)), 2e-4) << name;
  }
}

class Methods : public ::testing::TestWithParam<Method> {};

TEST_P(Methods, AreMoreAccurateThanRoundToNearest) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto source = Checkpoint::open(dir.path() / "in");
  ThreadPool pool(2);
  const auto error = [&](Method method, const std::string& format, const TargetOptions& how) {
    const fs::path out = dir.path() / "out";
    fs::remove_all(out);
    QuantizeOptions options{.target = make_target(format, how), .method = method, .output = out};
    options.calibration = some_windows(60);
    quantize_model(*source, options, pool, {});
    const auto checkpoint = Checkpoint::open(out);
    double sum = 0.0;
    for (const auto& ids : some_windows(8, 99))
      sum += distance(logits_of(*source, ids), logits_of(*checkpoint, ids));
    return sum;
  };
  const TargetOptions how{.bits = GetParam() == Method::kSmoothQuant ? 8 : 3, .group_size = 32};
  const char* format = GetParam() == Method::kSmoothQuant ? "w8a16" : "gptq";
  const double nearest = error(Method::kNearest, format, how);
  // SmoothQuant makes activations easier to round, not weights. It must not make weights much harder to
  // round.
  EXPECT_LT(error(GetParam(), format, how), (GetParam() == Method::kSmoothQuant ? 1.5 : 1.0) * nearest);
}

INSTANTIATE_TEST_SUITE_P(All, Methods, ::testing::Values(Method::kGptq, Method::kAwq, Method::kSmoothQuant),
                         [](const auto& with) { return "M" + std::to_string(static_cast<int>(with.param)); });

TEST(GgufMethods, CalibrationIsMoreAccurateThanRoundToNearest) {
  for (const int experts : {0, 4}) {
    const TempDir dir;
    test::write_small_llama(dir.path() / "in", 7, experts);
    const auto source = Checkpoint::open(dir.path() / "in");
    ThreadPool pool(2);
    const auto error = [&](Method method) {
      GgufOptions options{.type = gguf_target("gguf-q4_0"), .output = dir.path() / "out", .name = "small"};
      fs::remove_all(options.output);
      options.method = method;
      options.calibration = some_windows(60);
      quantize_gguf(*source, options, pool, {});
      const auto checkpoint = Checkpoint::open(options.output);
      double sum = 0.0;
      for (const auto& ids : some_windows(8, 99))
        sum += distance(logits_of(*source, ids), logits_of(*checkpoint, ids));
      return sum;
    };
    const double nearest = error(Method::kNearest);
    EXPECT_LT(error(Method::kGptq), 0.9 * nearest) << experts;
    EXPECT_LT(error(Method::kImportance), 0.97 * nearest) << experts;
  }
}

// Counts the bytes that were read and not yet released.
class WatchedCheckpoint : public OverlayCheckpoint {
 public:
  using OverlayCheckpoint::OverlayCheckpoint;
  std::span<const std::byte> bytes(std::string_view name) const override {
    const auto bytes = OverlayCheckpoint::bytes(name);
    held_[std::string(name)] = bytes.size();
    size_t sum = 0;
    for (const auto& [tensor, size] : held_) sum += size;
    max_bytes_ = std::max(max_bytes_, sum);
    return bytes;
  }
  void release(std::string_view name) override {
    held_.erase(std::string(name));
    OverlayCheckpoint::release(name);
  }
  size_t max_bytes() const { return max_bytes_; }

 private:
  mutable std::map<std::string, size_t> held_;
  mutable size_t max_bytes_ = 0;
};

TEST(QuantizeModel, KeepsOneLayerInMemory) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto source = Checkpoint::open(dir.path() / "in");
  size_t layer = 0;
  for (const std::string& name : source->names()) {
    if (name.find(".0.") != std::string::npos) layer += source->find(name)->bytes;
  }
  ThreadPool pool(2);
  const auto expect_little = [&](const WatchedCheckpoint& watched) {
    EXPECT_GT(watched.max_bytes(), 0U);
    EXPECT_LT(static_cast<double>(watched.max_bytes()), 1.3 * static_cast<double>(layer));
  };
  for (const Method method : {Method::kNearest, Method::kGptq, Method::kAwq}) {
    WatchedCheckpoint watched(*source);
    QuantizeOptions options{.target = make_target("gptq", {}), .method = method};
    options.output = dir.path() / std::to_string(static_cast<int>(method));
    options.calibration = some_windows(2);
    quantize_model(watched, options, pool, {});
    expect_little(watched);
  }
  WatchedCheckpoint watched(*source);
  GgufOptions options{.type = gguf_target("gguf-q8_0"), .output = dir.path() / "gguf", .name = "small"};
  options.method = Method::kGptq;
  options.calibration = some_windows(2);
  quantize_gguf(watched, options, pool, {});
  expect_little(watched);
}

// Keys that exceed the range of 8-bit floats, in a model that is equivalent to one with small keys.
TEST(KvScales, ScaleKeysAndValuesToTheRangeOfTheCache) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto checkpoint = Checkpoint::open(dir.path() / "in");
  OverlayCheckpoint large(*checkpoint);
  for (const std::string& name : checkpoint->names()) {
    const float factor = name.find("q_proj") != name.npos   ? 1.0F / 4096.0F
                         : name.find("k_proj") != name.npos ? 4096.0F
                                                            : 0.0F;
    if (factor == 0.0F) continue;
    std::vector<float> values = read_floats(*checkpoint, name);
    for (float& v : values) v *= factor;
    large.replace(name, values);
  }
  ThreadPool pool(2);
  const auto quantized = [&](const char* format, bool scales) {
    const fs::path out = dir.path() / (scales ? "with" : "without");
    fs::remove_all(out);
    QuantizeOptions options{.target = make_target(format, {}), .kv_scales = scales, .output = out};
    options.calibration = some_windows(20);
    quantize_model(large, options, pool, {});
    return Checkpoint::open(out);
  };
  const std::vector<int32_t> ids = some_windows(1, 7)[0];
  const auto with = quantized("w8a16", true);
  const auto without = quantized("w8a16", false);
  EXPECT_EQ(with->config()["quantization_config"]["kv_cache_scheme"]["type"], "float");
  const std::vector<float> exact = logits_of(*with, ids);
  EXPECT_EQ(exact, logits_of(*without, ids));  // other cache formats do not use the scales
  const double near = distance(exact, logits_of(*with, ids, DType::kF8E4M3));
  const double far = distance(exact, logits_of(*without, ids, DType::kF8E4M3));
  EXPECT_LT(near, 0.25 * far);
  EXPECT_THAT(test::error_of([&] { quantized("gptq", true); }), ::testing::HasSubstr("--kv-scales"));
}

TEST(Smoothing, ReducesOutlierActivations) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto checkpoint = Checkpoint::open(dir.path() / "in");
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  InputStats stats;
  stats.k = 64;
  stats.largest.assign(64, 1.0F);
  stats.largest[7] = 100.0F;  // an outlier
  const std::vector<float> factors = smooth_factors(*checkpoint, {name}, stats, 0.5F);
  const auto [smallest, largest] = std::ranges::minmax(factors);
  EXPECT_EQ(largest, factors[7]);
  // The ratio of the outlier decreases from 100 to about 10.
  EXPECT_LT(100.0F / factors[7] / (1.0F / smallest), 25.0F);
}

TEST(QuantizeModel, CalibrationNeedsAnIntegerFormat) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto checkpoint = Checkpoint::open(dir.path() / "in");
  ThreadPool pool(1);
  QuantizeOptions options{.target = make_target("fp8", {}), .method = Method::kGptq};
  options.output = dir.path() / "out";
  EXPECT_THAT(test::error_of([&] { quantize_model(*checkpoint, options, pool, {}); }),
              ::testing::HasSubstr("stores floats"));
  options.target = make_target("gptq", {});
  EXPECT_THAT(test::error_of([&] { quantize_model(*checkpoint, options, pool, {}); }),
              ::testing::HasSubstr("the calibration text is empty"));
}

}  // namespace
}  // namespace quire
