// How architectures interleave the rows of tensors that hold several parameters (RowLayoutFn).
#pragma once

#include "models/tensor_names.h"

namespace quire {

// q, k, v: for each key head its query heads, the key head, the value head (GPT-NeoX, Falcon, BLOOM).
RowLayout qkv_by_kv_head(const LayerSpec& layer, int64_t rows);
// q, k, v: four parts, each with the queries, the values and the keys of a fourth of the heads (CodeGen).
RowLayout qvk_by_fourth(const LayerSpec& layer, int64_t rows);
// gate, up: rows alternate (gpt-oss).
RowLayout gate_up_alternating(const LayerSpec& layer, int64_t rows);
// gate, up: stored up first.
RowLayout up_before_gate(const LayerSpec& layer, int64_t rows);
// MLA's kv_a_proj_with_mqa: stored with the rotary dimensions last, which the model has first.
RowLayout rope_after_latent(const LayerSpec& layer, int64_t rows);
// q, output gate: for each head the query, then its gates.
RowLayout q_gate_by_head(const LayerSpec& layer, int64_t rows);
// Lightning attention's in_proj: for each head the query, the key, the value.
RowLayout qkv_by_head(const LayerSpec& layer, int64_t rows);
// Gated delta nets, q, k, v, z: for each key head the query, the key, its values, their gates.
RowLayout qkvz_by_key_head(const LayerSpec& layer, int64_t rows);
// Gated delta nets, b, a: for each key head the values of b for its value heads, then those of a.
RowLayout ba_by_key_head(const LayerSpec& layer, int64_t rows);

}  // namespace quire
