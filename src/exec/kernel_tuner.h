// Chooses the variants of kernels (KernelTuning) that are the fastest on this machine, by measuring them on
// the model's own matrices. The choice changes no result. Used by the thread that loads a model.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "ops/op_table.h"

namespace quire {

class KernelTuner {
 public:
  // Matrices of at most this many bytes in all are read in a pass.
  static constexpr int64_t kMaxBytes = int64_t{128} << 20;
  // With fewer bytes, the weights stay in the caches, and prefetching does not matter.
  static constexpr int64_t kMinBytes = int64_t{32} << 20;

  struct Choice {
    KernelTuning tuning;
    double gain = 1.0;  // time of the slowest variant / time of the chosen one
    int64_t bytes = 0;  // weights that were read in a pass; 0 = nothing was measured
  };

  // Remembers a matrix if its products have variants. Its weights must stay where they are until choose().
  void add(const PackedLinear& matrix);
  // Multiplies one row by all matrices with each variant in turn, three times, or for 0.2 s. Returns the
  // default if the table has no variants, or if there are too few matrices.
  Choice choose(const OpTable& ops, ThreadPool& pool) const;

 private:
  std::vector<PackedLinear> matrices_;  // borrow their weights
  int64_t bytes_ = 0;
};

}  // namespace quire
