// The weight cache: later starts have the same bits without packing or reading weights. A problem with the
// cache is a warning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ops/reference.h"
#include "unit/io/io_test_util.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<int32_t> kCachedPrompt = {3, 50, 17, 81, 9, 22, 64, 5, 40};

// A loaded model, and how it was loaded.
struct Loaded {
  std::vector<std::pair<std::string, std::vector<std::byte>>> matrices;  // in the order of packing
  std::vector<std::vector<float>> logits;                                // if the model generates
  int64_t weight_bytes = 0;
  int64_t mapped_bytes = 0;
  std::pair<int64_t, int64_t> progress;  // at the end
  std::string log;
};

Loaded load(Checkpoint& checkpoint, const fs::path& cache, ModelOptions options = {},
            const OpTable& ops = reference_ops()) {
  Loaded out;
  options.weight_cache = {.directory = cache, .build = "test"};
  options.on_packed = [&](std::span<const std::string> tensors, const PackedLinear& matrix) {
    const auto* data = matrix.data.data();
    out.matrices.emplace_back(tensors[0], std::vector<std::byte>(data, data + matrix.data.size()));
  };
  testing::internal::CaptureStderr();
  {
    const auto model = Model::load(checkpoint, ops, {}, options, [&](int64_t done, int64_t total) {
      out.progress = {done, total};
    });
    if (model->pooler() == nullptr)
      out.logits = test::PagedRunner(*model, ops, nullptr, {}).append(kCachedPrompt, 4);
    out.weight_bytes = model->weight_bytes();
    out.mapped_bytes = model->mapped_bytes();
  }
  out.log = testing::internal::GetCapturedStderr();
  return out;
}

Loaded load(const fs::path& model, const fs::path& cache, const ModelOptions& options = {}) {
  const auto checkpoint = Checkpoint::open(model);
  return load(*checkpoint, cache, options);
}

void expect_same(const Loaded& got, const Loaded& expected) {
  EXPECT_EQ(got.matrices, expected.matrices);
  EXPECT_EQ(got.logits, expected.logits);
  EXPECT_EQ(got.weight_bytes, expected.weight_bytes);
  EXPECT_EQ(got.progress, expected.progress);
}

void expect_packed(const Loaded& loaded) {
  EXPECT_EQ(loaded.mapped_bytes, 0);
  EXPECT_THAT(loaded.log, AllOf(HasSubstr("weight cache written: "), Not(HasSubstr("weights from cache"))));
}

void expect_mapped(const Loaded& loaded) {
  int64_t bytes = 0;
  for (const auto& [name, data] : loaded.matrices) bytes += static_cast<int64_t>(data.size());
  EXPECT_GT(loaded.mapped_bytes, 0);
  EXPECT_GE(loaded.mapped_bytes, bytes);
  EXPECT_THAT(loaded.log,
              AllOf(HasSubstr("weights from cache, "), Not(HasSubstr("WARN")), Not(HasSubstr("written"))));
}

// The only file with weights in the directory.
fs::path cache_file(const fs::path& directory) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".weights") continue;
    EXPECT_TRUE(found.empty()) << "another one: " << entry.path();
    found = entry.path();
  }
  return found;
}

std::string read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const fs::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

void expect_second_start_maps(const fs::path& model, const ModelOptions& options = {}) {
  const test::TempDir dir;
  const Loaded expected = load(model, {}, options);
  const Loaded first = load(model, dir.path() / "new", options);
  expect_packed(first);
  expect_same(first, expected);
  const Loaded second = load(model, dir.path() / "new", options);
  expect_mapped(second);
  expect_same(second, expected);
}

class WeightCacheOf : public testing::TestWithParam<std::string> {};

TEST_P(WeightCacheOf, ASecondStartMapsTheSameBits) {
  expect_second_start_maps(test::golden_checkpoint(GetParam()));
}

std::vector<std::string> all_goldens() {
  std::vector<std::string> all;
  for (const std::string set : {"models", "pooling", "quantized"}) {
    for (const std::string& name : test::golden_names(set)) all.push_back(cat(set, "/", name));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, WeightCacheOf, testing::ValuesIn(all_goldens()),
                         [](const auto& test) { return test::test_name(test.param); });

TEST(WeightCache, HoldsRoundedWeights) {
  for (const char* model : {"llama-bfloat16", "mixtral", "deepseek_v3", "qwen3_next"}) {
    for (const char* quantization : {"int8", "int4", "w4a16"}) {
      SCOPED_TRACE(std::string(model) + ", " + quantization);
      expect_second_start_maps(test::golden_model(model),
                               {.quantization = quantization_from_name(quantization)});
    }
    expect_second_start_maps(test::golden_model(model), {.dtype = DType::kF16});
  }
}

TEST(WeightCache, HoldsGgufModels) {
  const nlohmann::json models = test::gguf_goldens("models");
  const test::TempDir dir;
  for (const char* name : {"llama", "qwen2", "mixtral", "deepseek_v2", "mamba2"}) {
    if (!models.contains(name)) continue;
    SCOPED_TRACE(name);
    const auto file =
        dir.write(std::string(name) + ".gguf", test::make_gguf(models[name], test::golden_model(name)));
    expect_second_start_maps(file);
  }
}

TEST(WeightCache, OneFileServesFloatAndIntegerActivations) {
  const test::TempDir dir;
  const fs::path model = test::quantized_model("gptq-4bit");
  const ModelOptions int8 = {.quantized_activations = ActivationFormat::kInt8};
  const Loaded expected = load(model, {}, int8);
  load(model, dir.path());
  const Loaded mapped = load(model, dir.path(), int8);
  expect_mapped(mapped);
  expect_same(mapped, expected);
}

// Forwards to another checkpoint and records which tensors are read.
class Watched : public Checkpoint {
 public:
  explicit Watched(Checkpoint& below) : below_(below) {}

  const fs::path& path() const override { return below_.path(); }
  const nlohmann::json& config() const override { return below_.config(); }
  std::optional<nlohmann::json> generation_config() const override { return below_.generation_config(); }
  std::vector<FileIdentity> weight_files() const override { return below_.weight_files(); }
  std::vector<std::string> names() const override { return below_.names(); }
  const TensorInfo* find(std::string_view name) const override { return below_.find(name); }
  std::span<const std::byte> bytes(std::string_view name) const override {
    if (find(name)->shape.size() > 1) read.emplace(name);
    return below_.bytes(name);
  }
  int64_t total_bytes() const override { return below_.total_bytes(); }
  void release(std::string_view name) override { below_.release(name); }

  mutable std::set<std::string> read;

 private:
  Checkpoint& below_;
};

TEST(WeightCache, DoesNotReadCachedMatricesFromTheCheckpoint) {
  for (const char* name : {"models/llama", "models/gpt2", "models/deepseek_v3", "models/qwen2_moe-stacked",
                           "models/llama-untied", "pooling/deberta_v2-classifier"}) {
    const test::TempDir dir;
    const auto below = Checkpoint::open(test::golden_checkpoint(name));
    Watched checkpoint(*below);
    load(checkpoint, dir.path());
    EXPECT_GT(checkpoint.read.size(), 5U) << name;
    checkpoint.read.clear();
    expect_mapped(load(checkpoint, dir.path()));
    // Embeddings that are only looked up stay in the checkpoint.
    for (const std::string& tensor : checkpoint.read)
      EXPECT_TRUE(tensor.find("embed") != std::string::npos || tensor.find("wpe") != std::string::npos)
          << name << ": " << tensor;
  }
}

TEST(WeightCache, PartsOfAModelHaveSeparateFiles) {
  const test::TempDir dir;
  const auto checkpoint = Checkpoint::open(test::golden_model("llama"));
  const auto packed_anew = [&](const ModelOptions& options) {
    ModelOptions own = options;
    own.weight_cache = {.directory = dir.path(), .build = "test"};
    return Model::load(*checkpoint, reference_ops(), {}, own, {})->mapped_bytes() == 0;
  };
  for (const ModelOptions& options :
       {ModelOptions{}, ModelOptions{.part = {ModelEnds::kAll, 0, 1}},
        ModelOptions{.part = {ModelEnds::kNone, 1, 2}}, ModelOptions{.dtype = DType::kBF16},
        ModelOptions{.quantization = quantization_from_name("int4")}}) {
    EXPECT_TRUE(packed_anew(options));
    EXPECT_FALSE(packed_anew(options));
  }
  EXPECT_FALSE(packed_anew({}));
}

// A copy of a golden model, whose files a test may change.
struct Copy {
  Copy() { fs::copy(test::golden_model("llama"), model, fs::copy_options::recursive); }
  test::TempDir dir;
  fs::path model = dir.path() / "model";
  fs::path cache = dir.path() / "cache";
};

TEST(WeightCache, RepacksAChangedCheckpointAndRemovesTheOldFile) {
  Copy copy;
  expect_packed(load(copy.model, copy.cache));
  expect_mapped(load(copy.model, copy.cache));
  const fs::path weights = copy.model / "model.safetensors";

  std::string bytes = read_bytes(weights);
  std::swap(bytes[bytes.size() - 1], bytes[bytes.size() - 5]);
  std::swap(bytes[bytes.size() - 2], bytes[bytes.size() - 6]);
  write_bytes(weights, bytes);
  const Loaded changed = load(copy.model, copy.cache);
  expect_packed(changed);
  expect_same(changed, load(copy.model, {}));
  expect_mapped(load(copy.model, copy.cache));
  cache_file(copy.cache);  // there is exactly one

  // The same bytes in another file, and the same file at another time.
  fs::copy_file(weights, copy.model / "other");
  fs::rename(copy.model / "other", weights);
  expect_packed(load(copy.model, copy.cache));
  fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::nanoseconds(1000));
  expect_packed(load(copy.model, copy.cache));

  nlohmann::json config = read_json_file(copy.model / "config.json");
  config["rms_norm_eps"] = 1e-3;
  write_bytes(copy.model / "config.json", config.dump());
  expect_packed(load(copy.model, copy.cache));
  expect_mapped(load(copy.model, copy.cache));
}

TEST(WeightCache, IsNotUsedByAnotherBuild) {
  Copy copy;
  const auto checkpoint = Checkpoint::open(copy.model);
  const auto mapped = [&](const char* build) {
    const ModelOptions options = {.weight_cache = {.directory = copy.cache, .build = build}};
    return Model::load(*checkpoint, reference_ops(), {}, options, {})->mapped_bytes() > 0;
  };
  EXPECT_FALSE(mapped("0.1 a"));
  EXPECT_TRUE(mapped("0.1 a"));
  EXPECT_FALSE(mapped("0.1 b"));
  EXPECT_TRUE(mapped("0.1 b"));
}

// Applies `change` to the file. Expects a warning with its name, the right weights, and that the next start
// maps the file again.
void expect_repaired(Copy& copy, const std::string& whole, const std::function<void(std::string&)>& change,
                     bool warns = true) {
  const fs::path file = cache_file(copy.cache);
  std::string bytes = whole;
  change(bytes);
  write_bytes(file, bytes);
  const Loaded loaded = load(copy.model, copy.cache);
  if (warns) {
    EXPECT_THAT(loaded.log, AllOf(HasSubstr("--weight-cache"), HasSubstr(file.string())));
  }
  expect_same(loaded, load(copy.model, {}));
  expect_mapped(load(copy.model, copy.cache));
}

TEST(WeightCache, DamagedFilesAreReplaced) {
  Copy copy;
  load(copy.model, copy.cache);
  const std::string whole = read_bytes(cache_file(copy.cache));
  for (const size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{100}, size_t{4096},
                            whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE("cut to " + std::to_string(size));
    expect_repaired(copy, whole, [&](std::string& bytes) { bytes.resize(size); });
  }
  expect_repaired(copy, whole, [&](std::string& bytes) { bytes += "more"; });
  uint64_t num_pieces = 0;
  std::memcpy(&num_pieces, whole.data() + 12, 4);
  for (size_t at = 0; at < 64 + num_pieces * 24; at += at < 64 ? 1 : 5) {
    SCOPED_TRACE("another byte " + std::to_string(at));
    // A file with another version or fingerprint is replaced without a warning.
    const bool other = (at >= 8 && at < 12) || (at >= 24 && at < 56);
    expect_repaired(
        copy, whole, [&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 0x41); }, !other);
  }
}

TEST(WeightCache, UnusableDirectoriesAreOnlyAWarning) {
  Copy copy;
  const Loaded expected = load(copy.model, {});
  write_bytes(copy.dir.path() / "file", "no directory");
  const Loaded no_directory = load(copy.model, copy.dir.path() / "file" / "cache");
  EXPECT_THAT(no_directory.log, AllOf(HasSubstr("--weight-cache: "), HasSubstr("Not a directory"),
                                      HasSubstr("the next start packs the weights again")));
  expect_same(no_directory, expected);
}

// Limits the size of files while it exists, to simulate a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

TEST(WeightCache, AFullDiskIsOnlyAWarningAndLeavesNoPartialFile) {
  Copy copy;
  const Loaded expected = load(copy.model, {});
  {
    const SmallFiles small(16384);
    const Loaded loaded = load(copy.model, copy.cache);
    EXPECT_THAT(loaded.log, AllOf(HasSubstr("--weight-cache: "), HasSubstr("no space left for"),
                                  HasSubstr("the next start packs the weights again")));
    expect_same(loaded, expected);
  }
  for (const auto& entry : fs::directory_iterator(copy.cache)) EXPECT_EQ(entry.path().extension(), ".lock");
  expect_packed(load(copy.model, copy.cache));
}

TEST(WeightCache, ModelsInMemoryAreNotCached) {
  const test::TempDir dir;
  const std::string config = read_text_file(test::golden_model("llama") / "config.json");
  const std::string weights = read_bytes(test::golden_model("llama") / "model.safetensors");
  const auto checkpoint =
      Checkpoint::from_memory({"in memory", config, "", std::as_bytes(std::span(weights))});
  const Loaded loaded = load(*checkpoint, dir.path());
  EXPECT_THAT(loaded.log, HasSubstr("--weight-cache: in memory is not in a file"));
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(WeightCache, ManyStartsAtOnceLeaveOneFile) {
  Copy copy;
  const Loaded expected = load(copy.model, {});
  testing::internal::CaptureStderr();
  std::vector<std::thread> starts;
  for (int i = 0; i < 8; ++i) {
    starts.emplace_back([&] {
      for (int j = 0; j < 5; ++j) {
        const auto checkpoint = Checkpoint::open(copy.model);
        const auto model = Model::load(*checkpoint, reference_ops(), {},
                                       {.weight_cache = {.directory = copy.cache, .build = "test"}}, {});
        EXPECT_EQ(test::PagedRunner(*model, reference_ops(), nullptr, {}).append(kCachedPrompt, 4),
                  expected.logits);
      }
    });
  }
  for (auto& start : starts) start.join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("WARN")));
  expect_mapped(load(copy.model, copy.cache));
  EXPECT_FALSE(fs::exists(cache_file(copy.cache).string() + ".part"));
}

}  // namespace
}  // namespace quire
