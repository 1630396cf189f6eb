#include "nn/matrix_runs.h"

#include <algorithm>

namespace quire {

template <typename Weight>
RowRuns<Weight>::RowRuns(const AdapterRows* rows, BySite AdapterWeights::*weights, int32_t site,
                         int64_t num_rows)
    : rows_(rows), weights_(weights), site_(site) {
  if (rows == nullptr || site < 0) return;
  check_rows(*rows, num_rows);
  any_ = std::ranges::any_of(rows->uses, [this](const AdapterUse& use) { return weight_of(use) != nullptr; });
}

template <typename Weight>
const Weight* RowRuns<Weight>::weight_of(const AdapterUse& use) const {
  return at_site(use.adapter->*weights_, site_);
}

template <typename Weight>
bool RowRuns<Weight>::next(RowRun<Weight>& run) const {
  const int64_t first = rows_->first_row + run.end;
  const int64_t last = rows_->first_row + rows_->num_rows;
  if (first == last) return false;
  int64_t end = last;  // end of a run with the model's weight
  run = {.begin = run.end, .end = 0, .own = nullptr};
  for (const AdapterUse& use : rows_->uses) {
    const Weight* own = weight_of(use);
    if (own == nullptr) continue;
    auto row = std::ranges::lower_bound(use.rows, first);
    if (row == use.rows.end()) continue;
    if (*row > first) {
      end = std::min<int64_t>(end, *row);
      continue;
    }
    run.own = own;
    for (end = first; row != use.rows.end() && *row == end && end < last; ++row) ++end;
    break;
  }
  run.end = end - rows_->first_row;
  return true;
}

template class RowRuns<ReplacedMatrix>;
template class RowRuns<ReplacedNorm>;

}  // namespace quire
