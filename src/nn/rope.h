// Rotary position embeddings: tables of cosines and sines with RoPE scaling, computed once at load.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/rope_spec.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// Inverse frequencies [rotary_dim / 2]: the angle per position of each pair of dimensions. Computed with the
// float32 operations of transformers (modeling_rope_utils), so that angles of high positions are equal too.
// kLongRope and kDynamic depend on the maximum sequence length, not on the length of a sequence, so cached
// keys stay valid.
std::vector<float> rope_inverse_frequencies(const RopeSpec& spec, int64_t max_positions = 0);
// The factor on cosines and sines.
double rope_attention_factor(const RopeSpec& spec, int64_t max_positions);

struct Rope {
  RopeStyle style = RopeStyle::kNeox;
  bool query_scale_only = false;  // scales queries, rotates nothing
  Buffer data;
  Buffer query_data;         // empty unless queries are scaled
  TensorView cos_sin;        // [max_positions, rotary_dim] float32: cosines, then sines
  TensorView query_cos_sin;  // likewise, for queries
};

// Computes positions in parallel on ctx's thread pool. max_positions is the longest sequence that the model
// supports, on which some scalings depend. num_rows: the tables have rows for positions [0, num_rows) only,
// whose values do not depend on it; 0 = max_positions.
Rope make_rope(const OpContext& ctx, const RopeSpec& spec, int64_t max_positions, int64_t num_rows = 0);
// Replaces each table by move(table), which has the same contents.
void move_tables(Rope& rope, const std::function<Buffer(Buffer)>& move);
// Rotates queries q [rows, heads, head_dim] and keys k [rows, kv_heads, head_dim] in place.
void apply(const OpRunner& run, const Rope& rope, const TensorView& q, const TensorView& k,
           std::span<const int32_t> positions);

void apply_to_queries(const OpRunner& run, const Rope& rope, const TensorView& q,
                      std::span<const int32_t> positions);

}  // namespace quire
