// The indexer of sparse attention: parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"

namespace quire {

namespace indexer {
inline constexpr ParamId kQProj{"indexer.wq_b"};
inline constexpr ParamId kQNorm{"indexer.q_norm"};
inline constexpr ParamId kKProj{"indexer.wk"};
inline constexpr ParamId kKNorm{"indexer.k_norm"};
inline constexpr ParamId kWeightsProj{"indexer.weights_proj"};
}  // namespace indexer

struct IndexerSizes {
  int32_t heads = 0;  // 0 = no indexer
  int32_t dim = 0;
  int32_t count = 0;  // index_topk: keys, or blocks, per query
  int32_t block = 0;  // keys per block; 0 = single keys are selected
  int32_t local = 0;  // KeyBlocks::local

  // Sequences up to this length attend to all keys.
  int64_t tokens() const { return int64_t{count} * (block > 0 ? block : 1); }
  int64_t masks() const { return block > 0 ? heads : 1; }  // masks per token
};

}  // namespace quire
