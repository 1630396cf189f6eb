// Tests of the emulated device itself: what it promises to kernels, and the mistakes that it must report.
#include "../emulated/device.h"

#include <launch.cuh>
#include <ptx.cuh>

#include <cmath>

#include "emulated.h"

namespace {

void write_global_index(int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] += static_cast<int>(threadIdx.x);
}

TEST(EmulatedDevice, RunsEveryThreadOnce) {
  for (const uint64_t seed : {0, 1}) {
    emulated::set_seed(seed);
    std::vector<int> out(3 * 96, 1);
    launch(write_global_index, dim3{3, 1, 1}, 96, 0, nullptr, out.data());
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], 1 + static_cast<int>(i % 96));
  }
}

void copy_shared(float* out) {
  out[threadIdx.x] = shared_memory<float[64]>()[threadIdx.x];
}

TEST(EmulatedDevice, FillsSharedMemoryWithNan) {
  std::vector<float> out(64);
  launch(copy_shared, dim3{}, 64, 64 * sizeof(float), nullptr, out.data());
  for (const float x : out) EXPECT_TRUE(std::isnan(x));
}

void copy_too_early(float* out, const float* in) {
  auto& s = shared_memory<float[4]>();
  cp_async_16(s, in, true);
  cp_async_commit();
  out[0] = s[0];
  cp_async_wait<0>();
  out[1] = s[0];
}

TEST(EmulatedDevice, CompletesAsynchronousCopiesNoEarlierThanTheWait) {
  emulated::set_seed(0);
  const float in[4] = {1, 2, 3, 4};
  float out[2] = {};
  launch(copy_too_early, dim3{}, 1, 16, nullptr, static_cast<float*>(out), static_cast<const float*>(in));
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 1.0F);
}

void zero_fill(float* out) {
  auto& s = shared_memory<float[4]>();
  cp_async_16(s, nullptr, false);
  cp_async_commit();
  cp_async_wait<0>();
  for (int i = 0; i < 4; ++i) out[i] = s[i];
}

TEST(EmulatedDevice, ZeroFillsWithoutReading) {
  std::vector<float> out(4, 1.0F);
  launch(zero_fill, dim3{}, 1, 16, nullptr, out.data());
  EXPECT_EQ(out, std::vector<float>(4, 0.0F));
}

// ThreadSanitizer reports the threads that a failed launch leaves behind.
#ifndef __SANITIZE_THREAD__
void wait_for_different_things() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

TEST(EmulatedDevice, ReportsADeadlock) {
  EXPECT_THROW(launch(wait_for_different_things, dim3{}, 32, 0, nullptr), std::runtime_error);
}

void pass_different_masks() {
  __syncwarp(threadIdx.x < 16 ? ~0U : 0xffffU << 16);
}

TEST(EmulatedDevice, ReportsInconsistentMasks) {
  EXPECT_THROW(launch(pass_different_masks, dim3{}, 32, 0, nullptr), std::runtime_error);
}

#endif

#ifdef __SANITIZE_ADDRESS__
void write_past_shared_memory() {
  shared_memory<float[64]>()[threadIdx.x + 1] = 1;
}

TEST(EmulatedDeviceDeathTest, EndsSharedMemoryWhereTheLaunchSays) {
  EXPECT_DEATH(launch(write_past_shared_memory, dim3{}, 64, 64 * sizeof(float), nullptr),
               "heap-buffer-overflow");
}
#endif

#ifdef __SANITIZE_THREAD__
void race_between_warps(int* out) {
  if (threadIdx.x % 32 == 0) *out = static_cast<int>(threadIdx.x);
}

TEST(EmulatedDeviceDeathTest, ReportsARaceBetweenWarps) {
  int out = 0;
  EXPECT_DEATH(launch(race_between_warps, dim3{}, 64, 0, nullptr, &out), "data race");
}
#endif

}  // namespace
