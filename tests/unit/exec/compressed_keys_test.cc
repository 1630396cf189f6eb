// Compressed keys (DeepSeek-V4) with block sizes other than those of the golden tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

TEST(CompressedKeys, DoNotDependOnTheBlockSize) {
  for (const char* name : {"deepseek_v4", "deepseek_v4-saved"}) {
    const nlohmann::json golden = read_json_file(test::golden_model(name) / "golden.json")["cases"].back();
    const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
    const auto expected = golden["logits"].get<std::vector<float>>();
    const auto tokens = golden["greedy"].get<std::vector<int32_t>>();
    float largest = 0.0F;
    for (const float x : expected) largest = std::max(largest, std::fabs(x));
    for (const CpuIsa& isa : cpu_isas()) {
      if (!isa.supported) continue;
      const OpTable table = checked(*isa.table);
      const test::LoadedModel loaded = test::load_model(test::golden_model(name), table);
      for (const int32_t block_size : {4, 12, 16, 64}) {
        SCOPED_TRACE(std::string(name) + ", " + std::string(isa.name) + ", blocks of " +
                     std::to_string(block_size));
        const test::RunnerOptions options = {.block_size = block_size, .nan = true};
        test::PagedRunner whole(*loaded.model, *isa.table, nullptr, options);
        const auto logits = whole.append(prompt, 64);
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(logits.back()[i], expected[i], 1e-4 * largest) << i;
        test::PagedRunner parts(*loaded.model, *isa.table, nullptr, options);
        EXPECT_EQ(parts.append(prompt, 9), logits);
        test::PagedRunner again(*loaded.model, *isa.table, nullptr, options);
        EXPECT_EQ(again.greedy(prompt, 5, tokens.size()), tokens);
      }
    }
  }
}

// Unwritten parts of a block must not be read, in any format.
TEST(CompressedKeys, DoNotDependOnChunkingInAnyFormat) {
  const auto golden = read_json_file(test::golden_model("deepseek_v4") / "golden.json")["cases"].back();
  const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
  for (const CpuIsa& isa : cpu_isas()) {
    if (!isa.supported) continue;
    const test::LoadedModel loaded = test::load_model(test::golden_model("deepseek_v4"), *isa.table);
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2}) {
      SCOPED_TRACE(std::string(isa.name) + ", " + std::string(dtype_name(dtype)));
      const test::RunnerOptions options = {.block_size = 16, .kv_dtype = dtype, .nan = true};
      test::PagedRunner whole(*loaded.model, *isa.table, nullptr, options);
      const auto logits = whole.append(prompt, 64);
      for (const float x : logits.back()) ASSERT_TRUE(std::isfinite(x));
      test::PagedRunner parts(*loaded.model, *isa.table, nullptr, options);
      EXPECT_EQ(parts.append(prompt, 9), logits);
    }
  }
}

}  // namespace
}  // namespace quire
