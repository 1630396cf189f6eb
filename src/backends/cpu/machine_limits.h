// Measures the peak throughput of this machine, which profiles compare ops with.
#pragma once

#include "backends/cpu/kernels.h"
#include "base/thread_pool.h"
#include "ops/profile.h"

namespace quire::cpu {

// Takes the best of several rounds on all threads of the pool, for memory reads beyond the caches and for
// each kind of product that the kernels use. Needs about a quarter of a second and, temporarily, 256 MiB.
MachineLimits measure_limits(const CpuKernels& kernels, ThreadPool& pool);

}  // namespace quire::cpu
