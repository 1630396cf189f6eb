// Profiling records every op without changing results, and writes a file and a table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "exec/profile_file.h"
#include "ops/profile.h"
#include "ops/reference.h"
#include "unit/models/golden_models.h"
#include "unit/models/paged_runner.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr MachineLimits kLimits = {
    .read_bytes_per_s = 1e9, .f32_flop_per_s = 4e9, .bf16_flop_per_s = 8e9, .int8_flop_per_s = 16e9};

TEST(OpProfile, RecordsAllCallsWithoutChangingResults) {
  const auto dir = test::golden_model("llama");
  const auto plain = test::load_model(dir, reference_ops());
  test::PagedRunner without(*plain.model, reference_ops(), nullptr, {});

  OpProfile profile(reference_ops(), kLimits, 1000);
  const auto timed = test::load_model(dir, profile.table(), {}, &profile);
  test::RunnerOptions options;
  options.profile = &profile;
  test::PagedRunner with(*timed.model, profile.table(), nullptr, options);

  const std::vector<int32_t> prompt = {5, 17, 3, 88, 41};
  EXPECT_EQ(without.append(prompt, 5), with.append(prompt, 5));
  std::set<std::string_view> names;
  for (const ProfileEvent& event : profile.events()) {
    names.insert(event.name);
    EXPECT_EQ(event.rows, 5) << event.name;
    EXPECT_GE(event.seconds, 0.0);
    EXPECT_GT(profile.least_seconds(event), 0.0) << event.name;
  }
  EXPECT_EQ(names,
            (std::set<std::string_view>{"embedding", "norm", "qkv", "rope", "kv write", "attention",
                                        "attention out", "mlp up", "activation", "mlp down", "lm_head"}));
}

TEST(OpProfile, RecordsExpertsAndRouters) {
  const auto dir = test::golden_model("qwen2_moe");
  const auto plain = test::load_model(dir, reference_ops());
  test::PagedRunner without(*plain.model, reference_ops(), nullptr, {});
  OpProfile profile(reference_ops(), kLimits, 1000);
  const auto timed = test::load_model(dir, profile.table(), {}, &profile);
  test::RunnerOptions options;
  options.profile = &profile;
  test::PagedRunner with(*timed.model, profile.table(), nullptr, options);
  const std::vector<int32_t> prompt = {5, 17, 3, 88, 41};
  EXPECT_EQ(without.append(prompt, 5), with.append(prompt, 5));
  std::set<std::string_view> names;
  for (const ProfileEvent& event : profile.events()) names.insert(event.name);
  for (const char* name : {"router", "route experts", "expert up", "expert down", "shared expert up",
                           "shared expert gate", "combine experts", "mlp up"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(OpProfile, CountsWeightsOnceAndTwoOperationsPerWeightAndRow) {
  OpProfile profile(reference_ops(), kLimits, 10);
  const OpContext ctx{nullptr, {}, &profile};
  std::vector<float> weights(32 * 8, 0.5F);
  const std::vector<TensorView> parts = {make_view(weights.data(), DType::kF32, Shape{32, 8})};
  const PackedLinear packed = profile.table().pack_linear(ctx, parts, WeightFormat{DType::kF32});
  std::vector<float> x(3 * 8, 1.0F);
  std::vector<float> out(3 * 32);
  profile.table().run(ctx, ops::Linear{.out = make_view(out.data(), DType::kF32, Shape{3, 32}),
                                       .x = make_view(x.data(), DType::kF32, Shape{3, 8}),
                                       .w = packed});
  EXPECT_EQ(out[0], 4.0F);
  ASSERT_EQ(profile.events().size(), 1U);
  const ProfileEvent& event = profile.events().front();
  EXPECT_EQ(event.flop, 2.0 * 3 * 32 * 8);
  EXPECT_EQ(event.bytes, static_cast<double>(packed.data.size()) + (3 * 8 + 3 * 32) * 4.0);
  EXPECT_EQ(event.columns, 32);
  EXPECT_EQ(event.depth, 8);
  EXPECT_DOUBLE_EQ(profile.least_seconds(event), event.bytes / 1e9);
}

TEST(OpProfile, LimitsByMemoryOrArithmetic) {
  const OpProfile profile(reference_ops(), kLimits, 1);
  EXPECT_DOUBLE_EQ(profile.least_seconds({.bytes = 1e9, .flop = 8e9, .peak_flop_per_s = 4e9}), 2.0);
  EXPECT_DOUBLE_EQ(profile.least_seconds({.bytes = 3e9, .flop = 8e9, .peak_flop_per_s = 4e9}), 3.0);
}

TEST(OpProfile, CountsEventsThatDoNotFit) {
  OpProfile profile(reference_ops(), kLimits, 2);
  for (int i = 0; i < 5; ++i) profile.add({.name = "norm"});
  EXPECT_EQ(profile.events().size(), 2U);
  EXPECT_EQ(profile.num_dropped(), 3);
}

TEST(ProfileFile, ContainsATraceAndATable) {
  OpProfile profile(reference_ops(), kLimits, 10);
  profile.add({.name = "qkv",
               .begin_s = 10,
               .seconds = 0.5,
               .bytes = 25e7,
               .flop = 1e6,
               .peak_flop_per_s = 4e9,
               .rows = 2,
               .columns = 96,
               .depth = 64});
  profile.add({.name = "step", .begin_s = 10, .seconds = 1, .rows = 2});
  const auto path = std::filesystem::temp_directory_path() / "quire_profile_test.json";
  ProfileFile(path.string()).write(profile);
  const auto trace = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  ASSERT_EQ(trace["traceEvents"].size(), 2U);
  const auto& event = trace["traceEvents"][0];
  EXPECT_EQ(event["name"], "qkv 96x64");
  EXPECT_EQ(event["ph"], "X");
  EXPECT_DOUBLE_EQ(event["dur"], 5e5);
  EXPECT_DOUBLE_EQ(event["args"]["GB/s"], 0.5);
  EXPECT_DOUBLE_EQ(event["args"]["percent of limit"], 50.0);

  const std::string table = profile_table(profile);
  EXPECT_THAT(table, HasSubstr("qkv 96x64"));
  EXPECT_THAT(table, HasSubstr("50.0%"));  // fraction of the step
  EXPECT_THAT(table, HasSubstr("1.0 GB/s read"));
}

TEST(ProfileFile, ExplainsFractionsAboveTheLimit) {
  OpProfile profile(reference_ops(), kLimits, 10);
  const ProfileEvent within{.name = "qkv", .seconds = 0.5, .bytes = 5e8, .rows = 2};
  profile.add(within);
  const std::string plain = profile_table(profile);
  EXPECT_THAT(plain, HasSubstr(" 100%\n"));
  EXPECT_THAT(plain, Not(HasSubstr("cache")));
  profile.add({.name = "norm", .seconds = 0.5, .bytes = 15e8, .rows = 2});
  const std::string table = profile_table(profile);
  EXPECT_THAT(table, HasSubstr(" 300% (from cache)\n"));
  EXPECT_THAT(table, HasSubstr("Above 100%: data that earlier calls left in the caches"));
}

TEST(ProfileFile, RejectsAPathThatIsNotWritableAtTheStart) {
  EXPECT_THROW(ProfileFile("/no/such/folder/profile.json"), Error);
}

}  // namespace
}  // namespace quire
