// The small integers that name things across layers.
#pragma once

#include <cstdint>

#include "quire/sampling_params.h"  // TokenId

namespace quire {

using BlockId = int32_t;  // a block of the KV pool, 0 .. num_blocks-1; -1 is no block
using SeqId =
    int64_t;  // one sequence in the engine; sample i of a request has the id of its first sequence + i
using RequestId = int64_t;  // one request in the engine, given in order of arrival

}  // namespace quire
