// LoRA adapters in a forward pass: what an adapter changes in the weights of a model, and which rows of a
// step use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/low_rank.h"

namespace quire {

// The weights of one adapter for one loaded model. A site is a weight in memory that an adapter can change;
// sites are numbered in the order in which the description of the model visits them (Linear::site). Owned by
// whoever loaded it; immutable, so that any number of steps may use it.
struct Adapter {
  std::vector<std::unique_ptr<const LowRank>> sites;  // by number; null or beyond the end = unchanged

  const LowRank* at(int32_t site) const {
    const auto index = static_cast<size_t>(site);
    return site < 0 || index >= sites.size() ? nullptr : sites[index].get();
  }
};

// The rows of a step that use one adapter.
struct AdapterUse {
  const Adapter* adapter = nullptr;
  std::span<const int32_t> rows;  // of the step, ascending
};

// The adapters of the rows that one call of a layer computes: rows [first_row, first_row + num_rows) of the
// step. Views only; the executor owns the arrays for the time of a step.
struct AdapterRows {
  std::span<const AdapterUse> uses;
  std::span<LowRankGroup> groups;  // scratch, as many as uses
  int64_t first_row = 0;
  int64_t num_rows = 0;

  // Rows [begin, end) of these.
  AdapterRows slice(int64_t begin, int64_t end) const {
    AdapterRows out = *this;
    out.first_row += begin;
    out.num_rows = end - begin;
    return out;
  }
};

}  // namespace quire
