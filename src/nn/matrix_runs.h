// Divides the rows of a call into runs with one weight: the model's, or one that an adapter has instead.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "nn/adapter.h"

namespace quire {

// Consecutive rows of a call that have one weight.
template <typename Weight>
struct RowRun {
  int64_t begin = 0;  // within the call
  int64_t end = 0;
  const Weight* own = nullptr;  // null = the model's
};

// The runs of one call, in order of rows. Used for the time of the call. Weight: ReplacedMatrix,
// ReplacedNorm.
template <typename Weight>
class RowRuns {
 public:
  using BySite = std::map<int32_t, std::shared_ptr<const Weight>>;

  // weights: the member of AdapterWeights. rows: null = no adapters. Throws Error as check_rows().
  RowRuns(const AdapterRows* rows, BySite AdapterWeights::*weights, int32_t site, int64_t num_rows);

  // Whether any row of the call has a weight of its own.
  bool any() const { return any_; }
  // The next run; false after the last one.
  bool next(RowRun<Weight>& run) const;

 private:
  const Weight* weight_of(const AdapterUse& use) const;

  const AdapterRows* rows_;
  BySite AdapterWeights::*weights_;
  int32_t site_;
  bool any_ = false;
};

using MatrixRun = RowRun<ReplacedMatrix>;
using MatrixRuns = RowRuns<ReplacedMatrix>;
using NormRun = RowRun<ReplacedNorm>;
using NormRuns = RowRuns<ReplacedNorm>;

}  // namespace quire
