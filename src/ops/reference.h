// The reference table: every op in float32 and in the simplest order of summation, as run_reference of its
// family defines it. Kernels are tested against it, and it is the table of machines without a better
// instruction set ("generic"). Stateless; one step at a time, rows in parallel.
//
// Order: every sum runs from its first term to its last with one rounding per product and one per addition.
// Layouts: a packed matrix is cut into panels of 32 outputs, each [k][32], the last one padded with zeros; a
// KV block holds keys as [kv_head][head_dim][block_size], then values as [kv_head][block_size][head_dim],
// each followed by the scales of an int8 cache.
#pragma once

#include "ops/op_table.h"

namespace quire {

// Lives as long as the program.
const OpTable& reference_ops();

namespace reference {

size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                       int threads);
PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format);
// Products with integer formats.
PackedLinear pack_linear_int(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format);
void linear_int(const OpContext& ctx, const ops::Linear& op);
void embedding_packed_int(const OpContext& ctx, const ops::PackedEmbedding& op);
// Products with quantized matrices; sums have one fused multiply-add per term, first to last.
PackedLinear pack_quantized(const OpContext& ctx, std::span<const QuantizedMatrix* const> parts);
void linear_quantized(const OpContext& ctx, const ops::Linear& op);
void embedding_packed_quantized(const OpContext& ctx, const ops::PackedEmbedding& op);

// The activation functions, and their product with `up`.
float activate(float x, Activation act);
float activate_gate(float gate, float up, Activation act);

}  // namespace reference
}  // namespace quire
