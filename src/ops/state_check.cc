#include "ops/state_check.h"

#include <algorithm>

namespace quire {

void require_states(const ShapeCheck& shapes, const StateBatch& batch, const StateView& state, int64_t rows,
                    int64_t parts) {
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, seqs, " sequences, ", batch.cu_rows.size(), " row bounds, ",
                   batch.positions.size(), " positions, ", batch.blocks.size(), " blocks");
  };
  rule(batch.cu_rows.size() == seqs + 1 && batch.positions.size() == seqs &&
           batch.blocks.size() == seqs * static_cast<size_t>(batch.blocks_each),
       "the arrays of the state batch must match its number of sequences");
  rule(batch.cu_rows.front() == 0 && batch.cu_rows.back() == rows &&
           std::is_sorted(batch.cu_rows.begin(), batch.cu_rows.end()),
       "the sequences' rows must be contiguous up to the last row");
  shapes.require(state.base != nullptr && static_cast<int64_t>(state.parts.size()) == parts,
                 "the state has the wrong number of parts", state.parts.size(), " of ", parts);
  for (const StatePlace& place : state.parts) {
    shapes.require(
        place.block >= 0 && place.block < batch.blocks_each && place.offset >= 0 && place.offset % 64 == 0,
        "a part of the state must be aligned and in one of the sequence's blocks", "block ", place.block,
        " of ", batch.blocks_each, ", byte ", place.offset);
  }
}

double state_bytes(const StateBatch& batch, int64_t floats) {
  return 2.0 * sizeof(float) * static_cast<double>(batch.num_seqs) * static_cast<double>(floats);
}

}  // namespace quire
