// Integer ids that several layers use.
#pragma once

#include <cstdint>

#include "quire/sampling_params.h"  // TokenId

namespace quire {

using BlockId = int32_t;  // index into the KV pool, 0 .. num_blocks - 1; -1 = no block
using SeqId =
    int64_t;  // a sequence in the engine; sample i of a request has the id of its first sequence + i
using RequestId = int64_t;  // a request in the engine, numbered in order of arrival

}  // namespace quire
