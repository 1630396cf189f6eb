// Shape check, cost and reference implementation of additions of low rank to grouped products.
#include "ops/low_rank_experts.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "ops/shape_check.h"

namespace quire::ops {
namespace {

// Calls use(term, its change) for all terms that have a change.
template <class Use>
void each_change(const AddLowRankExperts& op, const Use& use) {
  for (size_t e = 0; e < op.sites.size(); ++e) {
    for (int32_t t = op.offsets[e]; t < op.offsets[e + 1]; ++t) {
      const auto row = static_cast<int32_t>(op.rows[static_cast<size_t>(t)] + op.first_row);
      for (const LowRankExpertsGroup& group : op.groups) {
        const LowRank* change = op.change(group, e);
        if (change != nullptr && std::ranges::binary_search(group.rows, row)) use(int64_t{t}, *change);
      }
    }
  }
}

}  // namespace

void check(const AddLowRankExperts& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}});
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, op.sites.size(), " experts, offsets [", op.offsets.size(), "], rows [",
                   op.rows.size(), "] of ", op.num_rows);
  };
  shapes.require_f32({&op.out, &op.x});
  rule(op.offsets.size() > op.sites.size(), "offsets must have one more element than there are experts");
  for (size_t e = 0; e < op.sites.size(); ++e)
    rule(op.offsets[e] <= op.offsets[e + 1], "the offsets must ascend");
  const int64_t terms = op.offsets[op.sites.size()];
  rule(op.offsets[0] == 0 && terms <= op.out.rows(), "out must have a row for each term");
  rule(terms <= static_cast<int64_t>(op.rows.size()), "rows must have an element for each term");
  shapes.require_indices("row", op.rows.first(static_cast<size_t>(terms)), op.num_rows);
  rule((op.by_row ? op.num_rows : terms) <= op.x.rows(), "x must have all rows");
  for (const LowRankExpertsGroup& group : op.groups) {
    rule(ascend_within(group.rows, op.first_row, op.first_row + op.num_rows),
         "the rows of a group must ascend within the call's");
    for (size_t e = 0; e < op.sites.size(); ++e) {
      const LowRank* change = op.change(group, e);
      if (change == nullptr) continue;
      shapes.require(change->k == op.x.row_size(), "the change must have x's columns, it has ", change->k);
      rule(is_complete(*change, op.out.row_size()), "the pieces must fit out and the buffers");
    }
  }
}

OpCost cost(const AddLowRankExperts& op) {
  OpCost cost{.label = "adapters", .columns = op.out.row_size(), .depth = op.x.row_size()};
  const LowRank* last = nullptr;
  each_change(op, [&](int64_t /*term*/, const LowRank& change) {
    ++cost.rows;
    cost.flop += 2.0 * static_cast<double>(change.elements());
    cost.bytes += static_cast<double>(op.x.row_size() + 2 * change.outputs()) * sizeof(float);
    // An expert's terms follow each other.
    if (&change != last) cost.bytes += static_cast<double>(change.a.size() + change.b.size());
    last = &change;
  });
  return cost;
}

void run_reference(const OpContext& ctx, const AddLowRankExperts& op) {
  static constexpr std::array<int32_t, 1> kFirst = {0};
  each_change(op, [&](int64_t term, const LowRank& change) {
    const int64_t row = op.by_row ? op.rows[static_cast<size_t>(term)] : term;
    const std::array<LowRankGroup, 1> groups = {{{&change, kFirst}}};
    run_reference(ctx, AddLowRank{.out = row_slice(op.out, term, term + 1),
                                  .x = row_slice(op.x, row, row + 1),
                                  .groups = groups});
  });
}

}  // namespace quire::ops
