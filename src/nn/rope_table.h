// RoPE tables with fewer rows than the model has positions.
#pragma once

#include <cstdint>

#include "nn/rope.h"

namespace quire {

// As make_rope(ctx, spec, max_positions), with rows for positions [0, num_rows) only. max_positions is the
// longest sequence that the model supports, on which some scalings depend. The values of the rows do not
// depend on num_rows.
Rope make_rope(const OpContext& ctx, const RopeSpec& spec, int64_t max_positions, int64_t num_rows);

}  // namespace quire
