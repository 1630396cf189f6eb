// Shared by the checks and costs of the ops with recurrent states.
#pragma once

#include <cstdint>

#include "ops/recurrent.h"
#include "ops/shape_check.h"

namespace quire {

// The sequences' rows cover `rows` rows, and the state has `parts` parts in the blocks of each sequence.
void require_states(const ShapeCheck& shapes, const StateBatch& batch, const StateView& state, int64_t rows,
                    int64_t parts);

// Bytes to read and write a state of `floats` floats per sequence once.
double state_bytes(const StateBatch& batch, int64_t floats);

}  // namespace quire
