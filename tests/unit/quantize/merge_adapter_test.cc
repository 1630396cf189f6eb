// Adapters merged into their base, against the adapter next to the base and against PEFT.
#include "quantize/merge_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "base/strings.h"
#include "io/output_file.h"
#include "models/adapter_targets.h"
#include "quantize/float_matrix.h"
#include "support/golden_checkpoint.h"
#include "unit/io/io_test_util.h"
#include "unit/lora/lora_testing.h"
#include "unit/models/adapter_of_all.h"
#include "unit/models/golden_models.h"
#include "unit/quantize/small_llama.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using lora::test::AdapterFiles;
using lora::test::counting;
using test::error_of;
using test::TempDir;
using ::testing::HasSubstr;

using Logits = std::vector<std::vector<float>>;

Logits logits_of(const fs::path& model, const std::vector<int32_t>& prompt,
                 const AdapterWeights* adapter = nullptr) {
  const OpTable& ops = *select_cpu_isa().table;
  const auto loaded = test::load_model(model, ops);
  return test::PagedRunner(*loaded.model, ops, nullptr, {.adapter = adapter})
      .append(prompt, static_cast<int64_t>(prompt.size()));
}

// The largest difference, as a fraction of the largest value.
float difference(const Logits& a, const Logits& b) {
  float largest = 0.0F;
  float worst = 0.0F;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) {
      largest = std::max(largest, std::abs(a[i][j]));
      worst = std::max(worst, std::abs(a[i][j] - b[i][j]));
    }
  }
  return worst / largest;
}

MergeResult merge(const fs::path& base, const fs::path& adapter, const fs::path& out, int threads = 2) {
  const auto checkpoint = Checkpoint::open(base);
  ThreadPool pool(threads);
  return merge_adapter(*checkpoint, adapter, "", {.output = out}, pool);
}

// Adapters that cannot be merged: their bases have no biases.
bool is_refused(const std::string& name) {
  return name.find("-bias-of-b") != std::string::npos;
}
std::vector<std::string> golden_adapters(bool refused) {
  std::vector<std::string> names = test::golden_names("lora");
  std::erase_if(names, [&](const std::string& name) { return is_refused(name) != refused; });
  return names;
}
fs::path base_of(const fs::path& adapter) {
  return test::golden_checkpoint("models/" +
                                 read_json_file(adapter / "golden.json")["model"].get<std::string>());
}

class MergedGoldens : public testing::TestWithParam<std::string> {};

TEST_P(MergedGoldens, HaveTheOutputsOfPeft) {
  const fs::path adapter = test::golden_checkpoint("lora/" + GetParam());
  const nlohmann::json golden = read_json_file(adapter / "golden.json");
  const TempDir dir;
  const fs::path out = dir.path() / "out";
  merge(base_of(adapter), adapter, out);
  const OpTable& ops = *select_cpu_isa().table;
  const auto loaded = test::load_model(out, ops);
  for (const auto& item : golden["cases"]) {
    const auto prompt = item["prompt"].get<std::vector<int32_t>>();
    const auto tokens = item["greedy"].get<std::vector<int32_t>>();
    const Logits expected = {item["logits"].get<std::vector<float>>()};
    const Logits logits = {logits_of(out, prompt).back()};
    EXPECT_LT(difference(expected, logits), 1e-4F);
    test::PagedRunner runner(*loaded.model, ops, nullptr, {});
    EXPECT_EQ(runner.greedy(prompt, 32, tokens.size()), tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MergedGoldens, testing::ValuesIn(golden_adapters(false)),
                         [](const auto& test) { return test::test_name(test.param); });

TEST(MergeAdapter, BiasesThatTheBaseDoesNotHaveAreRefused) {
  for (const std::string& name : golden_adapters(true)) {
    const TempDir dir;
    const fs::path adapter = test::golden_checkpoint("lora/" + name);
    const std::string error = error_of([&] { merge(base_of(adapter), adapter, dir.path() / "out"); });
    EXPECT_THAT(error, HasSubstr("serve the base with the adapter")) << name;
    EXPECT_TRUE(fs::is_empty(dir.path())) << name;
  }
}

// Every order and stacking of rows in checkpoints: the merged model computes what the base computes with the
// adapter.
class MergedModels : public testing::TestWithParam<std::string> {};

TEST_P(MergedModels, ComputeWhatTheBaseComputesWithTheAdapter) {
  const fs::path base = test::golden_model(GetParam());
  const auto checkpoint = Checkpoint::open(base);
  const AdapterWeights adapter =
      test::adapter_of_all(adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto)), 0.1F);
  const auto prompt = read_json_file(base / "golden.json")["cases"][1]["prompt"].get<std::vector<int32_t>>();
  const TempDir dir;
  ThreadPool pool(1);
  merge_weights(*checkpoint, adapter, {.output = dir.path() / "out"}, pool);
  const Logits expected = logits_of(base, prompt, &adapter);
  const Logits merged = logits_of(dir.path() / "out", prompt);
  EXPECT_LT(difference(expected, merged), 1e-3F);
  EXPECT_GT(difference(expected, logits_of(base, prompt)), 1e-2F);
}

// Rounding the sums to 16 bits changes more than the order of additions.
std::vector<std::string> float32_models() {
  std::vector<std::string> names = test::golden_names("models");
  std::erase_if(names, [](const std::string& name) { return name.ends_with("float16"); });
  std::erase_if(names, [](const std::string& name) { return name.starts_with("zamba2"); });  // see below
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, MergedModels, testing::ValuesIn(float32_models()),
                         [](const auto& test) { return test::test_name(test.param); });

// An adapter of the small Llama of these tests: one module with rank 2 and scale 2.
class MergeSmall : public testing::Test {
 protected:
  static constexpr int64_t kHidden = 64;

  MergeSmall() {
    test::write_small_llama(base());
    files_.tensors.clear();
  }

  void add(const std::string& module, int64_t out, int64_t in, float size) {
    for (const bool is_b : {false, true}) {
      auto& tensor =
          files_.tensors["base_model.model." + module + (is_b ? ".lora_B" : ".lora_A") + ".weight"];
      tensor = counting(is_b ? std::vector<int64_t>{out, 2} : std::vector<int64_t>{2, in});
      auto* values = reinterpret_cast<float*>(tensor.bytes.data());
      const auto count = static_cast<int64_t>(tensor.bytes.size() / sizeof(float));
      for (int64_t i = 0; i < count; ++i) values[i] = size * std::sin(static_cast<float>(i + 1));
    }
  }
  fs::path base() const { return dir_.path() / "base"; }
  fs::path out() const { return dir_.path() / "out"; }
  std::string error() {
    files_.write();
    return error_of([&] { merge(base(), files_.path(), out()); });
  }
  void expect_nothing_left() {
    EXPECT_FALSE(fs::exists(out()));
    EXPECT_FALSE(fs::exists(out().string() + ".partial"));
  }

  AdapterFiles files_;
  TempDir dir_;
};

TEST_F(MergeSmall, RoundsEachWeightOnceAndCopiesTheOthers) {
  add("model.layers.1.self_attn.o_proj", kHidden, kHidden, 0.1F);
  files_.write();
  const MergeResult result = merge(base(), files_.path(), out());
  EXPECT_EQ(result.tensors, 1);
  EXPECT_EQ(result.modules, 1);
  const auto before = Checkpoint::open(base());
  const auto after = Checkpoint::open(out());
  EXPECT_EQ(after->names(), before->names());
  EXPECT_EQ(after->file("config.json"), before->file("config.json"));
  const std::string changed = "model.layers.1.self_attn.o_proj.weight";
  for (const std::string& name : before->names()) {
    EXPECT_EQ(after->find(name)->dtype, before->find(name)->dtype);
    EXPECT_EQ(std::ranges::equal(after->bytes(name), before->bytes(name)), name != changed) << name;
  }
  const std::vector<float> w = read_floats(*before, changed);
  const std::vector<float> merged = read_floats(*after, changed);
  const auto value = [&](const char* part, int64_t i) {
    const std::string name = cat("base_model.model.model.layers.1.self_attn.o_proj.", part, ".weight");
    return static_cast<double>(load_f32(DType::kF32, files_.tensors.at(name).bytes.data(), i));
  };
  for (int64_t i = 0; i < kHidden * kHidden; ++i) {
    const int64_t row = i / kHidden;
    const int64_t column = i % kHidden;
    const double sum = value("lora_B", 2 * row) * value("lora_A", column) +
                       value("lora_B", 2 * row + 1) * value("lora_A", kHidden + column);
    const double exact = w[static_cast<size_t>(i)] + 2.0 * sum;
    // Half a unit of bfloat16, and the rounding of the sum in float32.
    ASSERT_NEAR(merged[static_cast<size_t>(i)], exact, std::abs(exact) * (0x1p-8 + 1e-5) + 1e-7);
  }
}

TEST_F(MergeSmall, DoesNotDependOnTheNumberOfThreads) {
  add("model.layers.0.mlp.up_proj", 96, kHidden, 0.2F);
  add("model.layers.0.mlp.down_proj", kHidden, 96, 0.2F);
  files_.write();
  merge(base(), files_.path(), out(), 1);
  merge(base(), files_.path(), dir_.path() / "other", 3);
  const auto one = Checkpoint::open(out());
  const auto three = Checkpoint::open(dir_.path() / "other");
  for (const std::string& name : one->names())
    EXPECT_TRUE(std::ranges::equal(one->bytes(name), three->bytes(name))) << name;
}

TEST_F(MergeSmall, AnAdapterThatCannotBeAppliedLeavesNothingBehind) {
  add("model.layers.7.self_attn.o_proj", kHidden, kHidden, 0.1F);
  EXPECT_THAT(error(), HasSubstr("layers.7"));
  expect_nothing_left();
}

TEST_F(MergeSmall, SumsThatDoNotFitAreRefused) {
  add("model.layers.0.self_attn.o_proj", kHidden, kHidden, 3e19F);
  EXPECT_THAT(error(), HasSubstr("layers.0.self_attn.o_proj.weight: a value in row"));
  expect_nothing_left();
}

TEST_F(MergeSmall, BiasesNeedABiasInTheBase) {
  add("model.layers.0.self_attn.o_proj", kHidden, kHidden, 0.1F);
  files_.config["lora_bias"] = true;
  files_.tensors["base_model.model.model.layers.0.self_attn.o_proj.lora_B.bias"] = counting({kHidden});
  EXPECT_THAT(error(), HasSubstr("lora_bias"));
  expect_nothing_left();
}

TEST_F(MergeSmall, AnExistingDirectoryIsNotOverwritten) {
  add("model.layers.0.self_attn.o_proj", kHidden, kHidden, 0.1F);
  fs::create_directories(out());
  write_file(out() / "file", "mine");
  EXPECT_THAT(error(), HasSubstr("already exists"));
}

TEST(MergeAdapter, BiasesOfBAreAddedToThoseOfTheBase) {
  const fs::path base = test::golden_model("qwen2");
  const auto checkpoint = Checkpoint::open(base);
  const AdapterTargets targets = adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto));
  const AdapterTarget q = find_target(targets, "model.layers.1.self_attn.q_proj");
  ASSERT_EQ(q.ranges.size(), 1U);
  AdapterWeights adapter;
  adapter.sites.resize(static_cast<size_t>(targets.num_sites));
  auto change = std::make_unique<LowRank>();
  change->k = q.ranges[0].in;
  change->pieces = {{.out_begin = q.ranges[0].out_begin, .n = q.ranges[0].rows, .rank = 1}};
  change->a = Buffer(static_cast<size_t>(change->k) * sizeof(float));
  change->b = Buffer(static_cast<size_t>(q.ranges[0].rows) * sizeof(float));
  change->bias = Buffer(static_cast<size_t>(q.ranges[0].site_rows) * sizeof(float));
  for (Buffer* zero : {&change->a, &change->b, &change->bias}) std::memset(zero->data(), 0, zero->size());
  for (int64_t i = 0; i < q.ranges[0].rows; ++i)
    change->bias.as<float>()[q.ranges[0].out_begin + i] = static_cast<float>(i) / 8.0F;
  adapter.sites[static_cast<size_t>(q.ranges[0].site)] = std::move(change);
  const TempDir dir;
  ThreadPool pool(1);
  merge_weights(*checkpoint, adapter, {.output = dir.path() / "out"}, pool);
  const std::vector<float> before = read_floats(*checkpoint, "model.layers.1.self_attn.q_proj.bias");
  const std::vector<float> after =
      read_floats(*Checkpoint::open(dir.path() / "out"), "model.layers.1.self_attn.q_proj.bias");
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_FLOAT_EQ(after[i], before[i] + static_cast<float>(i) / 8.0F);
}

// PEFT changes lm_head alone, although it is the same matrix as the input embedding.
TEST(MergeAdapter, ATiedOutputEmbeddingBecomesATensorOfItsOwn) {
  const fs::path base = test::golden_model("llama");
  const auto before = Checkpoint::open(base);
  const std::vector<int64_t> shape = before->find("model.embed_tokens.weight")->shape;
  AdapterFiles files;
  files.tensors = {{"base_model.model.lm_head.lora_A.weight", counting({2, shape[1]}, 1)},
                   {"base_model.model.lm_head.lora_B.weight", counting({shape[0], 2}, 1)}};
  files.write();
  const TempDir dir;
  const MergeResult result = merge(base, files.path(), dir.path() / "out");
  EXPECT_EQ(result.own_head, "lm_head.weight");
  const auto after = Checkpoint::open(dir.path() / "out");
  EXPECT_TRUE(std::ranges::equal(after->bytes("model.embed_tokens.weight"),
                                 before->bytes("model.embed_tokens.weight")));
  EXPECT_EQ(after->config()["tie_word_embeddings"], false);
  const std::vector<float> w = read_floats(*before, "model.embed_tokens.weight");
  const std::vector<float> head = read_floats(*after, "lm_head.weight");
  // Row 0: B is (1, 2), A has the rows (1, 2, …) and (k + 1, k + 2, …), and the scale is 2.
  for (int64_t k = 0; k < shape[1]; ++k) {
    const auto at = static_cast<size_t>(k);
    const auto added = 2.0 * (1.0 * static_cast<double>(k + 1) + 2.0 * static_cast<double>(shape[1] + k + 1));
    EXPECT_NEAR(head[at], w[at] + added, 1e-4 * added);
  }
}

// Which tensors of a tied pair a merged adapter changes.
struct TiedChange {
  const char* adapter;
  bool embedding;
  bool head;
};
class MergedTiedPairs : public testing::TestWithParam<TiedChange> {};

TEST_P(MergedTiedPairs, AreUntiedIfOnlyOneChanges) {
  const fs::path adapter = test::golden_checkpoint(std::string("lora/") + GetParam().adapter);
  const auto before = Checkpoint::open(base_of(adapter));
  const TempDir dir;
  const MergeResult result = merge(base_of(adapter), adapter, dir.path() / "out");
  const auto after = Checkpoint::open(dir.path() / "out");
  const std::string embedding = "model.embed_tokens.weight";
  const auto differs = [&](const std::string& name) {
    return !std::ranges::equal(after->bytes(name), before->bytes(embedding));
  };
  const bool both = GetParam().embedding && GetParam().head;
  EXPECT_EQ(differs(embedding), GetParam().embedding);
  EXPECT_EQ(after->config()["tie_word_embeddings"], both);
  EXPECT_EQ(after->find("lm_head.weight") == nullptr, both);
  EXPECT_EQ(result.own_head, both ? "" : "lm_head.weight");
  if (!both) {
    EXPECT_EQ(differs("lm_head.weight"), GetParam().head);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MergedTiedPairs,
                         testing::Values(TiedChange{"llama-embedding", true, false},
                                         TiedChange{"llama-saved-embedding", true, false},
                                         TiedChange{"llama-saved-head", false, true},
                                         TiedChange{"llama-tokens", true, true}),
                         [](const auto& test) { return test::test_name(test.param.adapter); });

// Zamba 2 can have no output embedding of its own.
TEST(MergeAdapter, AnOutputEmbeddingThatMustBeTiedIsRefused) {
  const auto checkpoint = Checkpoint::open(test::golden_model("zamba2"));
  const AdapterTargets targets = adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto));
  AdapterWeights adapter = test::adapter_of_all(targets, 0.1F);
  const TempDir dir;
  ThreadPool pool(1);
  const auto merge_all = [&] { merge_weights(*checkpoint, adapter, {.output = dir.path() / "out"}, pool); };
  EXPECT_THAT(error_of(merge_all), HasSubstr("tie_word_embeddings"));
  EXPECT_TRUE(fs::is_empty(dir.path()));
  adapter.sites[static_cast<size_t>(find_target(targets, "lm_head").ranges[0].site)].reset();
  merge_all();
  EXPECT_TRUE(fs::exists(dir.path() / "out" / "config.json"));
}

TEST(MergeAdapter, QuantizedBasesAreRefused) {
  const auto quantized = Checkpoint::open(test::golden_checkpoint("quantized/gptq-4bit"));
  const AdapterTargets targets = adapter_targets(*quantized, read_spec(*quantized, Runner::kAuto));
  const AdapterWeights adapter = test::adapter_of_all(targets, 0.1F);
  const TempDir dir;
  ThreadPool pool(1);
  EXPECT_THAT(error_of([&] { merge_weights(*quantized, adapter, {.output = dir.path() / "out"}, pool); }),
              HasSubstr("quantized; merge the adapter into the original checkpoint"));
  EXPECT_FALSE(fs::exists(dir.path() / "out"));
}

}  // namespace
}  // namespace quire
