// Caches whose values are the last dimensions of their keys (MLA). Attention gives the same bits as with a
// separate copy of each key as its value.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "attention_testing.h"
#include "base/error.h"
#include "ops/reference.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

using test::CacheSetup;
using test::describe;
using test::fast_isas;
using test::kFormats;
using test::kSinks;
using test::kSlopes;
using test::Prefix;
using test::same_rows;
using test::Sequences;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

// Few query rows, and enough of them for tiles to be copied; vector sizes that are and are not multiples of
// 16; block sizes that are and are not multiples of 16.
std::vector<CacheSetup> shared_value_setups() {
  std::vector<CacheSetup> all;
  for (const DType dtype : kFormats) {
    all.push_back(
        {.heads = 4, .kv_heads = 1, .head_dim = 48, .dtype = dtype, .value_dim = 32, .values_in_keys = true});
    all.push_back({.heads = 20,
                   .kv_heads = 1,
                   .head_dim = 36,
                   .dtype = dtype,
                   .value_dim = 26,
                   .values_in_keys = true});
    all.push_back(
        {.heads = 3, .kv_heads = 1, .head_dim = 21, .dtype = dtype, .value_dim = 21, .values_in_keys = true});
    all.push_back({.heads = 40,
                   .kv_heads = 2,
                   .head_dim = 80,
                   .block_size = 7,
                   .dtype = dtype,
                   .params = {.scale = 0.2F, .window = 90},
                   .value_dim = 64,
                   .values_in_keys = true});
    all.push_back({.heads = 6,
                   .kv_heads = 1,
                   .head_dim = 40,
                   .block_size = 32,
                   .dtype = dtype,
                   .params = {.scale = 0.2F, .logit_softcap = 3, .alibi_slopes = kSlopes, .sinks = kSinks},
                   .value_dim = 9,
                   .values_in_keys = true});
  }
  return all;
}

CacheSetup stored_twice(CacheSetup setup) {
  setup.value_dim = 0;
  setup.values_in_keys = false;
  setup.values_are_keys = true;
  return setup;
}

// The dimensions of each head that are values.
TestTensor ends_of(const TestTensor& whole, const CacheSetup& setup) {
  const int64_t dim = setup.value_size();
  TestTensor ends(DType::kF32, {whole.view().rows(), setup.heads, dim});
  for (int64_t r = 0; r < whole.view().rows(); ++r) {
    for (int64_t h = 0; h < setup.heads; ++h)
      std::copy_n(whole.view().row<float>(r) + (h + 1) * setup.head_dim - dim, dim,
                  ends.view().row<float>(r) + h * dim);
  }
  return ends;
}

TEST(ValuesInKeys, GiveTheResultsOfASeparateCopy) {
  const int32_t length = test::repetitions(130, 70);
  const std::vector<int32_t> lengths = {1, 40, length};
  for (const CacheSetup& setup : shared_value_setups()) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const TestContext ctx(*isa.table, 2, 1024, 1024, 40, 80);
      Sequences once(*isa.table, setup, lengths);
      Sequences twice(*isa.table, stored_twice(setup), lengths);
      EXPECT_EQ(2 * once.pool().size(), twice.pool().size());
      EXPECT_TRUE(same_rows(once.run_all(ctx), ends_of(twice.run_all(ctx), setup)));
      // Only the last rows, and some rows of a prompt.
      const std::vector<int32_t> from = {0, 39, length - 30};
      EXPECT_TRUE(same_rows(once.run(from, lengths, ctx), ends_of(twice.run(from, lengths, ctx), setup)));
      // With unused positions next to them that contain anything.
      const std::vector<int32_t> to = {1, 38, length - 29};
      const TestTensor want = ends_of(twice.run({0, 3, length - 70}, to, ctx), setup);
      for (size_t s = 1; s < lengths.size(); ++s) once.hide(s, to[s]);
      EXPECT_TRUE(same_rows(once.run({0, 3, length - 70}, to, ctx), want));
    }
  }
}

TEST(ValuesInKeys, MatchAStoredCopyWithASparseMask) {
  const std::vector<int32_t> lengths = {1, 40, test::repetitions(700, 200)};
  const auto some = [](size_t s, int32_t row, int32_t p) {
    return p == row || (p * 7 + int32_t(s)) % 200 < 3;
  };
  for (const CacheSetup& setup : shared_value_setups()) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const TestContext ctx(*isa.table, 2, 1024, 1024, 40, 80);
      Sequences once(*isa.table, setup, lengths);
      Sequences twice(*isa.table, stored_twice(setup), lengths);
      once.select_keys(some);
      twice.select_keys(some);
      EXPECT_TRUE(same_rows(once.run_all(ctx), ends_of(twice.run_all(ctx), setup)));
    }
  }
}

TEST(ValuesInKeys, MatchAStoredCopyWithSharedPrefixes) {
  const std::vector<int32_t> lengths = {1240, 1150, 1200};
  const std::vector<Prefix> prefixes = {{}, {0, 1120}, {0, 1120}};
  const std::vector<int32_t> from = {1239, 1146, 1199};
  size_t count = 0;
  for (const CacheSetup& setup : shared_value_setups()) {
    if (test::kSanitizer && count++ % 3 != 0) continue;
    for (const CpuIsa& isa : fast_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const TestContext ctx(*isa.table, 2, 64, 2048, 40, 80);
      const Sequences once(*isa.table, setup, lengths, prefixes);
      const Sequences twice(*isa.table, stored_twice(setup), lengths, prefixes);
      const TestTensor want = ends_of(twice.run(from, lengths, ctx), setup);
      EXPECT_TRUE(same_rows(once.run(from, lengths, ctx, true), want));
      EXPECT_TRUE(same_rows(once.run(from, lengths, TestContext(*isa.table, 1, 64, 2048, 40, 80)), want));
    }
  }
}

TEST(ValuesInKeys, UseNoMemoryOfTheirOwn) {
  alignas(64) float storage[256] = {};
  const KvCacheView cache = {.base = reinterpret_cast<std::byte*>(storage),
                             .block_stride = 1024,
                             .block_size = 4,
                             .num_kv_heads = 1,
                             .head_dim = 8,
                             .value_dim = 6,
                             .values_in_keys = true};
  const TestTensor k(DType::kF32, {2, 1, 8});
  const std::vector<int64_t> slots = {0, 1};
  EXPECT_NO_THROW(ops::check(ops::KvWrite{.cache = cache, .k = k, .v = TensorView{}, .slot_mapping = slots}));
  EXPECT_THROW(ops::check(ops::KvWrite{.cache = cache, .k = k, .v = k, .slot_mapping = slots}), Error);
  KvCacheView too_wide = cache;
  too_wide.value_dim = 9;
  EXPECT_THROW(ops::check(ops::KvWrite{.cache = too_wide, .k = k, .v = TensorView{}, .slot_mapping = slots}),
               Error);
}

}  // namespace
}  // namespace quire
