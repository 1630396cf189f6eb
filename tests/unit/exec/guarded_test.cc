// Models on memory that the host cannot touch between ops, as on a device with memory of its own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "unit/models/golden_models.h"
#include "unit/models/guarded_ops.h"
#include "unit/models/paged_runner.h"

namespace quire {
namespace {

const OpTable& cpu_ops() {
  return *select_cpu_isa().table;
}

class GuardedModels : public testing::TestWithParam<std::string> {};

TEST_P(GuardedModels, ComputeTheSameBitsWhenOnlyOpsTouchMemory) {
  const OpTable ops = test::guarded<cpu_ops>();
  const auto loaded = test::load_model(test::golden_model(GetParam()), ops);
  const nlohmann::json golden = read_json_file(test::golden_model(GetParam()) / "golden.json");
  const auto prompt = golden["cases"][0]["prompt"].get<std::vector<int32_t>>();
  const auto run = [&](bool guarded, int64_t chunk) {
    return test::PagedRunner(*loaded.model, ops, nullptr, {.guarded = guarded}).append(prompt, chunk);
  };
  const auto whole = static_cast<int64_t>(prompt.size());
  const auto expected = run(false, whole);
  EXPECT_EQ(run(true, whole), expected);
  EXPECT_EQ(run(true, 3), expected);
}

INSTANTIATE_TEST_SUITE_P(All, GuardedModels, testing::ValuesIn(test::golden_names("models")),
                         [](const auto& test) { return test::test_name(test.param); });

// The test above can fail: reading guarded memory outside an op ends the program.
TEST(GuardedMemory, EndsTheProgramIfTheHostReadsIt) {
  Buffer buffer(100);
  test::GuardedMemory memory;
  memory.add(buffer);
  EXPECT_EQ(buffer.as<volatile float>()[0], 0.0F);
  EXPECT_DEATH(
      {
        const test::ClosedMemory closed(memory);
        static_cast<void>(buffer.as<volatile float>()[0]);
      },
      "");
  EXPECT_EQ(buffer.as<volatile float>()[0], 0.0F);
}

}  // namespace
}  // namespace quire
