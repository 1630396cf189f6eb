// Additions of low rank to grouped products: what LoRA adapters change in the experts of a layer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ops/low_rank.h"
#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// The rows of a step that one adapter changes.
struct LowRankExpertsGroup {
  std::span<const std::unique_ptr<const LowRank>> sites;  // the adapter's changes, by number; null = none
  std::span<const int32_t> rows;                          // ascending
};

namespace ops {

// For the terms t of each expert e, in [offsets[e], offsets[e + 1]), whose row rows[t] + first_row is in a
// group with a change at sites[e]: adds that change to out[t, :], as AddLowRank does. Its input is row t of
// x, or row rows[t] if x is by row. Offsets and rows are made by ops; the groups and sites are the host's.
struct AddLowRankExperts {
  static constexpr const char* kName = "add_low_rank_experts";
  TensorView out;                               // [terms, outputs]
  TensorView x;                                 // [terms, k], or [num_rows, k]
  std::span<const LowRankExpertsGroup> groups;  // no row is in two of them
  std::span<const int32_t> sites;               // [experts]: numbers in the groups' sites
  std::span<const int32_t> offsets;             // [at least experts + 1], ascending from 0, at most `terms`
  std::span<const int32_t> rows;                // [terms], in [0, num_rows)
  int64_t num_rows = 0;
  int64_t first_row = 0;
  bool by_row = false;

  // The change of the matrix of an expert; null = none.
  const LowRank* change(const LowRankExpertsGroup& group, size_t expert) const {
    const auto site = static_cast<size_t>(sites[expert]);
    return site < group.sites.size() ? group.sites[site].get() : nullptr;
  }
};
void check(const AddLowRankExperts& op);
OpCost cost(const AddLowRankExperts& op);
void run_reference(const OpContext& ctx, const AddLowRankExperts& op);

using LowRankExpertOps = OpList<AddLowRankExperts>;

}  // namespace ops
}  // namespace quire
