#include "backends/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "backends/open_device.h"
#include "base/error.h"
#include "unit/backends/op_testing.h"

namespace quire {
namespace {

TEST(OpenDevice, SelectsTheCpuByDefault) {
  EXPECT_EQ(open_device("auto", 1)->name(), "cpu " + std::string(select_cpu_isa().name));
  EXPECT_EQ(open_device("cpu", 1)->name(), open_device("auto", 1)->name());
}

TEST(OpenDevice, OpensEveryListedName) {
  for (const std::string& name : device_names()) EXPECT_NE(open_device(name, 1), nullptr) << name;
}

TEST(OpenDevice, ListsTheNamesIfOneIsUnknown) {
  for (const std::string name : {"cuda", "CPU", ""}) {
    try {
      open_device(name, 1);
      FAIL() << "no error for '" << name << "'";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("--device: '" + name + "'"));
      EXPECT_THAT(error.what(), testing::HasSubstr("auto or cpu"));
    }
  }
}

TEST(CpuDevice, ComputesWithTheTableOfItsInstructionSet) {
  for (const CpuIsa& isa : test::usable_isas()) {
    const CpuDevice device(1, isa);
    EXPECT_EQ(&device.ops(), isa.table);
    EXPECT_EQ(device.instruction_set(), isa.name);
    EXPECT_THAT(std::string(device.name()), testing::EndsWith(std::string(isa.name)));
  }
}

TEST(CpuDevice, StartsTheThreadsThatAreAskedFor) {
  EXPECT_EQ(CpuDevice(3).threads().num_threads(), 3);
  EXPECT_EQ(CpuDevice(0).threads().num_threads(), available_cores());
}

TEST(CpuDevice, ReportsMemoryOfTheMachine) {
  const DeviceMemory memory = CpuDevice(1).memory();
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST(CpuDevice, AllocatesZeroedMemoryOfEveryKind) {
  CpuDevice device(1);
  for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kPinned, MemoryKind::kDevice}) {
    const Buffer buffer = device.allocate(100, kind);
    ASSERT_EQ(buffer.size(), 100U);
    EXPECT_TRUE(
        std::all_of(buffer.data(), buffer.data() + 100, [](std::byte b) { return b == std::byte{0}; }));
  }
}

// Weights that are a view of a mapped file stay one.
TEST(CpuDevice, ReturnsAnUploadedBufferAsItIs) {
  CpuDevice device(1);
  const auto stream = device.create_stream();
  Buffer buffer(100);
  const std::byte* data = buffer.data();
  EXPECT_EQ(device.upload(std::move(buffer), *stream).data(), data);
}

TEST(CpuDevice, DoesTheWorkOfAStreamAtOnce) {
  CpuDevice device(1);
  const auto stream = device.create_stream();
  const std::array<int32_t, 3> source = {1, 2, 3};
  std::array<int32_t, 3> target = {};
  stream->copy(target.data(), source.data(), sizeof(source));
  EXPECT_EQ(target, source);
  const Event event = stream->record();
  stream->zero(target.data(), sizeof(int32_t));
  EXPECT_EQ(target, (std::array<int32_t, 3>{0, 2, 3}));
  device.create_stream()->wait(event);
  stream->synchronize(event);
}

}  // namespace
}  // namespace quire
