// What this machine can do at most, measured: the figures that those of the ops are read against.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace quire::bench {

// Runs `rounds` rounds of independent fused multiply-adds in registers on each thread; returns the floating
// point operations done.
double fma_rounds(ThreadPool& pool, int64_t rounds);

// The same with products of bfloat16 pairs; 0 where the processor has no instruction for them.
double bf16_rounds(ThreadPool& pool, int64_t rounds);

// The same with products of four bytes each; whole-number operations. 0 where there is no instruction for
// them.
double vnni_rounds(ThreadPool& pool, int64_t rounds);

// Sums `bytes` at `data` (a multiple of 4096) on all threads, each a part of its own; returns the sum.
float read_all(ThreadPool& pool, const float* data, int64_t bytes);

}  // namespace quire::bench
