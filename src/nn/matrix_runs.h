// Divides the rows of a call into runs with one matrix: the model's, or one that an adapter has instead.
#pragma once

#include <cstdint>

#include "nn/adapter.h"

namespace quire {

// Consecutive rows of a call that are multiplied by one matrix.
struct MatrixRun {
  int64_t begin = 0;  // within the call
  int64_t end = 0;
  const ReplacedMatrix* own = nullptr;  // null = the model's matrix
};

// The runs of one call, in order of rows. Used for the time of the call.
class MatrixRuns {
 public:
  // matrices: AdapterWeights::matrices or tables. rows: null = no adapters. Throws Error as check_rows().
  MatrixRuns(const AdapterRows* rows, MatricesBySite AdapterWeights::*matrices, int32_t site,
             int64_t num_rows);

  // Whether any row of the call has a matrix of its own.
  bool any() const { return any_; }
  // The next run; false after the last one.
  bool next(MatrixRun& run) const;

 private:
  const ReplacedMatrix* matrix_of(const AdapterUse& use) const;

  const AdapterRows* rows_;
  MatricesBySite AdapterWeights::*matrices_;
  int32_t site_;
  bool any_ = false;
};

}  // namespace quire
