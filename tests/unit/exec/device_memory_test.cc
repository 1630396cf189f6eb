// Memory on both sides of a device, on the CPU and on a device with memory of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "device/mirrored_buffer.h"
#include "exec/step_arrays.h"
#include "nn/layers.h"
#include "unit/exec/guarded_device.h"

namespace quire {
namespace {

constexpr std::array<int32_t, 4> kValues = {1, 2, 3, 4};

TEST(MirroredBuffer, IsOneBufferIfTheDeviceSharesTheHostsMemory) {
  CpuDevice device(1);
  MirroredBuffer buffer(device, sizeof(kValues));
  EXPECT_EQ(buffer.host(), buffer.device());
}

TEST(MirroredBuffer, CopiesBetweenTheHostAndADeviceWithMemoryOfItsOwn) {
  test::GuardedDevice device(1);
  const auto stream = device.create_stream();
  MirroredBuffer buffer(device, sizeof(kValues));
  ASSERT_NE(buffer.host(), buffer.device());
  std::memcpy(buffer.host(), kValues.data(), sizeof(kValues));
  buffer.copy_to_device(*stream, 2 * sizeof(int32_t));
  std::fill_n(buffer.host(), buffer.size(), std::byte{0});
  buffer.copy_to_host(*stream, buffer.size());
  stream->synchronize(stream->record());
  std::array<int32_t, 4> back = {};
  std::memcpy(back.data(), buffer.host(), sizeof(back));
  EXPECT_EQ(back, (std::array<int32_t, 4>{1, 2, 0, 0}));
  EXPECT_EQ(device.counts().copies_to_device, 1);
  EXPECT_EQ(device.counts().copies_to_host, 1);
}

// The guarded device finds mistakes that have no effect on the CPU.
TEST(GuardedDeviceDeathTest, EndsTheProgramIfTheHostReadsItsMemory) {
  test::GuardedDevice device(1);
  const Buffer buffer = device.allocate(100, MemoryKind::kDevice);
  EXPECT_DEATH(static_cast<void>(buffer.as<volatile float>()[0]), "");
}

TEST(GuardedDevice, BringsResultsOnlyWhenTheHostWaits) {
  test::GuardedDevice device(1);
  const auto stream = device.create_stream();
  const Buffer on_device = device.upload(filled(1, 5.0F), *stream);
  Buffer pinned = device.allocate(sizeof(float), MemoryKind::kPinned);
  stream->copy(pinned.data(), on_device.data(), sizeof(float));
  EXPECT_EQ(pinned.as<float>()[0], 0.0F);
  stream->synchronize(stream->record());
  EXPECT_EQ(pinned.as<float>()[0], 5.0F);
}

TEST(StepArrays, TravelInOneCopy) {
  test::GuardedDevice device(1);
  const auto stream = device.create_stream();
  StepArrays arrays(device);
  arrays.start(StepArrays::bytes_of<int32_t>(4) + StepArrays::bytes_of<int64_t>(1));
  const StepArray<int32_t> first = arrays.take<int32_t>(4);
  const StepArray<int64_t> second = arrays.take<int64_t>(1);
  std::ranges::copy(kValues, first.host.begin());
  second.host[0] = 77;
  arrays.upload(*stream);
  EXPECT_EQ(device.counts().copies_to_device, 1);
  Buffer back = device.allocate(sizeof(int64_t), MemoryKind::kPinned);
  stream->copy(back.data(), second.device.data(), sizeof(int64_t));
  stream->synchronize(stream->record());
  EXPECT_EQ(back.as<int64_t>()[0], 77);
}

TEST(StepArrays, KeepTheirMemoryUntilAStepNeedsMore) {
  CpuDevice device(1);
  StepArrays arrays(device);
  arrays.start(1000);
  const auto* before = arrays.take<int32_t>(1).device.data();
  arrays.start(500);
  EXPECT_EQ(arrays.take<int32_t>(1).device.data(), before);
  arrays.start(5000);
  EXPECT_EQ(arrays.take<int32_t>(1000).host.size(), 1000U);
}

TEST(StepArrays, RefuseMoreThanTheStepHasPlanned) {
  CpuDevice device(1);
  StepArrays arrays(device);
  arrays.start(StepArrays::bytes_of<int32_t>(4));
  arrays.take<int32_t>(4);
  EXPECT_THROW(arrays.take<int32_t>(1), Error);
}

}  // namespace
}  // namespace quire
