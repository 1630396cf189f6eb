// What this machine can do at most, measured now: the figures that ops are held against.
#pragma once

#include "backends/cpu/kernels.h"
#include "base/thread_pool.h"
#include "ops/profile.h"

namespace quire::cpu {

// The best of some rounds on all the pool's threads: reading memory beyond the caches, and each kind of
// product that the kernels have. Takes a quarter of a second and, for that time, 256 MiB.
MachineLimits measure_limits(const CpuKernels& kernels, ThreadPool& pool);

}  // namespace quire::cpu
