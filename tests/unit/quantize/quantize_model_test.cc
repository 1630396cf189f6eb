// Quantized checkpoints, written and read back with the readers of quantized checkpoints.
#include "quantize/quantize_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "io/json_file.h"
#include "ops/reference.h"
#include "quantize/float_matrix.h"
#include "support/golden_checkpoint.h"
#include "unit/io/io_test_util.h"
#include "unit/quantize/small_llama.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TempDir;
using ::testing::HasSubstr;

fs::path model_dir(const char* name) {
  return test::golden_checkpoint(std::string("models/") + name);
}

QuantizeResult quantize(const fs::path& from, const fs::path& to, const Target& target) {
  const auto checkpoint = Checkpoint::open(from);
  ThreadPool pool(2);
  return quantize_model(*checkpoint, {.target = target, .output = to, .files = {{"tokenizer.json", "{}"}}},
                        pool, {});
}

struct Case {
  const char* format;
  TargetOptions options;
  double limit;  // maximum relative error
};

class Formats : public ::testing::TestWithParam<Case> {};

TEST_P(Formats, AreReadBackAsWritten) {
  const Case& c = GetParam();
  const Target target = make_target(c.format, c.options);
  const TempDir dir;
  const fs::path out = dir.path() / "out";
  test::write_small_llama(dir.path() / "in");
  const auto source = Checkpoint::open(dir.path() / "in");
  const QuantizeResult result = quantize(dir.path() / "in", out, target);
  EXPECT_FALSE(fs::exists(dir.path() / "out.partial"));
  EXPECT_TRUE(fs::exists(out / "tokenizer.json"));
  const auto checkpoint = Checkpoint::open(out);
  EXPECT_EQ(checkpoint->names(), source->names());
  EXPECT_EQ(checkpoint->total_bytes(), result.bytes_after);
  EXPECT_LT(result.bytes_after, result.bytes_before);
  int64_t quantized = 0;
  ThreadPool pool(1);
  for (const auto& name : source->names()) {
    const QuantizedMatrix* matrix = checkpoint->quantized(name);
    if (name.find("_proj.weight") == std::string::npos) {
      ASSERT_EQ(matrix, nullptr) << name;
      EXPECT_EQ(read_floats(*checkpoint, name), read_floats(*source, name));
      continue;
    }
    ASSERT_NE(matrix, nullptr) << name;
    const FloatMatrix w = read_matrix(*source, name);
    const std::vector<float> decoded = quire::test::decode(*matrix);
    quantized += w.n * w.k;
    double error = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < decoded.size(); ++i) {
      error += std::pow(static_cast<double>(decoded[i]) - w.values[i], 2);
      size += std::pow(w.values[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), c.limit) << name;
    if (!target.is_integer()) continue;
    Target with_floats = target;
    with_floats.float_type = DType::kBF16;
    const IntMatrix codes =
        round_to_nearest(pool, with_floats.rounding(), w.values, w.n, w.k, target.group_size);
    std::vector<float> row(static_cast<size_t>(w.k));
    for (int64_t r = 0; r < w.n; ++r) {
      codes.decode_row(r, row);
      for (int64_t i = 0; i < w.k; ++i)
        ASSERT_EQ(decoded[static_cast<size_t>(r * w.k + i)], row[static_cast<size_t>(i)])
            << name << " " << r << " " << i;
    }
  }
  EXPECT_EQ(result.num_quantized, quantized);
}

INSTANTIATE_TEST_SUITE_P(
    All, Formats,
    ::testing::Values(Case{"gptq", {.group_size = 32}, 0.12}, Case{"gptq", {.bits = 8}, 0.01},
                      Case{"gptq", {.bits = 3, .group_size = 32}, 0.24},
                      Case{"gptq", {.bits = 2, .group_size = 16}, 0.5},
                      Case{"gptq", {.group_size = 32, .zero_points = true}, 0.12},
                      Case{"awq", {.group_size = 16}, 0.12}, Case{"w4a16", {.group_size = 32}, 0.12},
                      Case{"w4a16", {.group_size = 16, .zero_points = true}, 0.12}, Case{"w8a16", {}, 0.01},
                      Case{"w8a16", {.group_size = 32, .zero_points = true}, 0.01}, Case{"w8a8", {}, 0.01},
                      Case{"fp8", {}, 0.04}, Case{"fp8-block", {}, 0.04}, Case{"bnb-nf4", {}, 0.12},
                      Case{"bnb-nf4", {.nested_scales = false}, 0.12}, Case{"bnb-fp4", {}, 0.16},
                      Case{"nvfp4", {}, 0.12}, Case{"mxfp4", {}, 0.16}),
    [](const auto& with) {
      std::string name = with.param.format;
      std::ranges::replace(name, '-', '_');
      const TargetOptions& o = with.param.options;
      if (o.bits) name += "_" + std::to_string(*o.bits);
      if (o.group_size) name += "_g" + std::to_string(*o.group_size);
      if (o.zero_points) name += "_zeros";
      if (!o.nested_scales) name += "_plain";
      return name;
    });

TEST(QuantizeModel, QuantizesExpertsButNotTheirRouter) {
  const TempDir dir;
  const fs::path out = dir.path() / "out";
  quantize(model_dir("mixtral"), out, make_target("w4a16", {.group_size = 0}));
  const auto checkpoint = Checkpoint::open(out);
  EXPECT_NE(checkpoint->quantized("model.layers.0.block_sparse_moe.experts.1.w2.weight"), nullptr);
  EXPECT_EQ(checkpoint->quantized("model.layers.0.block_sparse_moe.gate.weight"), nullptr);
  const auto ignored = checkpoint->config()["quantization_config"]["ignore"];
  EXPECT_THAT(ignored.get<std::vector<std::string>>(),
              ::testing::IsSupersetOf({"lm_head", "model.layers.0.block_sparse_moe.gate"}));
}

TEST(QuantizeModel, RemovesFilesOnErrors) {
  const TempDir dir;
  const Target target = make_target("gptq", {});
  dir.write("file", "x");
  EXPECT_THAT(error_of([&] { quantize(model_dir("llama"), dir.path(), target); }),
              HasSubstr("already exists"));
  const fs::path once = dir.path() / "once";
  quantize(model_dir("llama"), once, target);
  EXPECT_THAT(error_of([&] { quantize(once, dir.path() / "twice", target); }),
              HasSubstr("is already quantized"));
  EXPECT_THAT(error_of([&] { quantize(model_dir("gpt2"), dir.path() / "twice", target); }),
              HasSubstr("no matrix can be stored in this format"));
  EXPECT_FALSE(fs::exists(dir.path() / "twice"));
  EXPECT_FALSE(fs::exists(dir.path() / "twice.partial"));
}

TEST(QuantizeModel, RejectsRowsThatAreNotAMultipleOfTheBlock) {
  const TempDir dir;
  const fs::path out = dir.path() / "out";
  EXPECT_THAT(
      error_of([&] { quantize(model_dir("deepseek_v3"), out, make_target("bnb-nf4", {})); }),
      HasSubstr("down_proj.weight: the format bnb-nf4 needs a multiple of 8 columns, but the matrix has"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(QuantizeModel, RejectsOptionsThatTheFormatDoesNotSupport) {
  EXPECT_THAT(error_of([] { make_target("nf4", {}); }), HasSubstr("'nf4' is not known; use gptq"));
  EXPECT_THAT(error_of([] { make_target("awq", {.bits = 8}); }), HasSubstr("does not support 8 bits"));
  EXPECT_THAT(error_of([] { make_target("w8a8", {.group_size = 64}); }), HasSubstr("has a fixed group size"));
  EXPECT_THAT(error_of([] { make_target("gptq", {.group_size = 20}); }), HasSubstr("a multiple of 16"));
  EXPECT_THAT(error_of([] { make_target("fp8", {.zero_points = true}); }),
              HasSubstr("the format fp8 has no zero points"));
}

}  // namespace
}  // namespace quire
