// Models with 2:4 structured sparsity: matrices are stored without the zeros if that is faster, and the
// outputs are those of the dense model.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "io/safetensors_writer.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// A golden model whose matrices have two non-zero weights in each group of four columns.
class PrunedModel {
 public:
  explicit PrunedModel(const std::string& name)
      : dir_(fs::temp_directory_path() / ("quire-pruned-" + name + "-" + std::to_string(::getpid()))) {
    const fs::path from = test::golden_model(name);
    fs::create_directories(dir_);
    fs::copy_file(from / "config.json", dir_ / "config.json", fs::copy_options::overwrite_existing);
    const auto checkpoint = Checkpoint::open(from);
    std::vector<TensorInfo> tensors;
    for (const auto& tensor : checkpoint->names()) tensors.push_back(*checkpoint->find(tensor));
    SafetensorsWriter writer(dir_, tensors);
    for (const TensorInfo& info : tensors) {
      const auto bytes = checkpoint->bytes(info.name);
      std::vector<std::byte> copy(bytes.begin(), bytes.end());
      const bool layers = info.shape.size() > 1 && info.name.find("layers.") != std::string::npos;
      if (layers) prune(copy, dtype_size(info.dtype));
      writer.write(info.name, copy);
    }
    writer.finish();
  }
  ~PrunedModel() { fs::remove_all(dir_); }
  const fs::path& dir() const { return dir_; }

 private:
  static void prune(std::span<std::byte> elements, size_t size) {
    for (size_t i = 0; i < elements.size() / size; ++i) {
      const size_t turn = i / 4 % 3;  // which two are removed
      if (i % 4 == turn || i % 4 == turn + 1) std::memset(elements.data() + i * size, 0, size);
    }
  }

  fs::path dir_;
};

struct Answers {
  std::vector<std::vector<std::vector<float>>> logits;  // in chunks of 13, 5 and 1
  std::vector<int32_t> greedy;
  int64_t weight_bytes = 0;
  int64_t mapped_bytes = 0;

  bool operator==(const Answers& other) const { return logits == other.logits && greedy == other.greedy; }
};

Answers ask(const fs::path& dir, const OpTable& ops, const fs::path& cache = {}) {
  const std::vector<int32_t> prompt = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 38};
  ModelOptions options;
  options.dtype = DType::kBF16;
  options.weight_cache = {.directory = cache, .build = "test"};
  const test::LoadedModel loaded = test::load_model(dir, ops, options);
  Answers answers;
  for (const int64_t chunk : {13, 5, 1})
    answers.logits.push_back(test::PagedRunner(*loaded.model, ops, nullptr, {}).append(prompt, chunk));
  answers.greedy = test::PagedRunner(*loaded.model, ops, nullptr, {}).greedy(prompt, 4, 12);
  answers.weight_bytes = loaded.model->weight_bytes();
  answers.mapped_bytes = loaded.model->mapped_bytes();
  return answers;
}

class Pruned : public ::testing::TestWithParam<const char*> {};

TEST_P(Pruned, MatchesTheDenseModelWithLessMemory) {
  const PrunedModel model(GetParam());
  for (const CpuIsa& isa : cpu_isas()) {
    if (!isa.supported) continue;
    SCOPED_TRACE(isa.name);
    OpTable with_zeros = *isa.table;
    with_zeros.keeps_sparse_24 = [](DType, int64_t) { return false; };
    const Answers want = ask(model.dir(), with_zeros);
    const Answers got = ask(model.dir(), *isa.table);
    EXPECT_TRUE(got == want);
    EXPECT_EQ(got.logits[0], got.logits[2]);
    const bool kept = isa.table->keeps_sparse_24(DType::kBF16, 64);
    EXPECT_EQ(got.weight_bytes < want.weight_bytes, kept);
    if (!kept) continue;
    const fs::path cache = model.dir() / ("cache-" + std::string(isa.name));
    const Answers first = ask(model.dir(), *isa.table, cache);
    const Answers second = ask(model.dir(), *isa.table, cache);
    EXPECT_TRUE(first == want);
    EXPECT_TRUE(second == want);
    EXPECT_EQ(first.mapped_bytes, 0);
    EXPECT_GT(second.mapped_bytes, 0);
    EXPECT_EQ(second.weight_bytes, got.weight_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Pruned, ::testing::Values("llama", "llama-bfloat16", "phi"),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
