// Properties of one layer of a mechanism that other code depends on, besides its KV cache (nn/kv_shape.h) and
// its recurrent state. A mechanism that differs from the defaults has a function of its spec:
//   MixerTraits mixer_traits(const Spec& spec);
// and one that contains grouped-query attention also
//   const AttentionSpec* grouped_attention(const Spec& spec);
#pragma once

#include <cstdint>

#include "nn/kv_shape.h"

namespace quire {

struct MixerTraits {
  // The keys and values that later tokens read: those of the last `window` tokens, or, if `chunked`, of the
  // chunk of `window` tokens that a token is in. 0 = all.
  int32_t window = 0;
  bool chunked = false;

  // Sparse attention: masks of selected keys per token (SparseMask); 0 = every query attends to all keys of
  // its window.
  int64_t masks = 0;
  bool shares_selection = false;  // the keys are those that an earlier layer selected

  // Attention to compressed keys, which need a mask and slots of their own.
  bool compresses_keys = false;
  int32_t tokens_per_indexed_key = 1;  // a block has an integer number of the keys of the indexer

  // Whether a factor may be moved between parameters of the layer, and from its input into the norm before
  // it.
  bool scales_move = true;
  bool input_scales_move = true;

  // forward() overwrites its input and adds no residual.
  bool overwrites_input = false;

  // The attention heads that a report shows; no heads = those of the KV cache.
  KvShape reported_heads = {};
};

}  // namespace quire
