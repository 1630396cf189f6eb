#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backends/cpu/cpu_backend.h"
#include "base/error.h"

namespace quire {
namespace {

// Sets QUIRE_CPU_ISA for one test.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* value) {
    const char* old = std::getenv("QUIRE_CPU_ISA");
    had_ = old != nullptr;
    if (had_) old_ = old;
    value == nullptr ? unsetenv("QUIRE_CPU_ISA") : setenv("QUIRE_CPU_ISA", value, 1);
  }
  ~ForcedIsa() { had_ ? setenv("QUIRE_CPU_ISA", old_.c_str(), 1) : unsetenv("QUIRE_CPU_ISA"); }

 private:
  std::string old_;
  bool had_ = false;
};

TEST(SelectCpuIsa, GenericRunsEverywhere) {
  EXPECT_TRUE(cpu_isas()[0].supported);
  EXPECT_EQ(select_cpu_isa("generic").name, "generic");
}

TEST(SelectCpuIsa, SelectsTheHighestSupportedLevel) {
  const ForcedIsa none(nullptr);
  std::string_view best;
  for (const CpuIsa& isa : cpu_isas()) {
    if (isa.supported) best = isa.name;
  }
  EXPECT_EQ(select_cpu_isa().name, best);
}

TEST(SelectCpuIsa, FollowsTheEnvironmentVariable) {
  const ForcedIsa generic("generic");
  EXPECT_EQ(select_cpu_isa().name, "generic");
}

TEST(SelectCpuIsa, ListsUsableLevelsIfTheNameIsUnknown) {
  try {
    select_cpu_isa("avx9000");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("avx9000"));
    EXPECT_THAT(e.what(), testing::HasSubstr("generic"));
  }
}

TEST(SelectCpuIsa, EveryTableHasAllOps) {
  for (const CpuIsa& isa : cpu_isas()) {
    const OpTable& t = *isa.table;
    EXPECT_TRUE(t.workspace_bytes && t.keeps_sparse_24 && t.packed_bytes && t.pack_linear && t.pack_quantized)
        << isa.name;
    for_each_op(AllOps{}, [&]<class Args>() {
      EXPECT_NE(t.entry<Args>(), nullptr) << isa.name << ", " << Args::kName;
    });
  }
}

}  // namespace
}  // namespace quire
