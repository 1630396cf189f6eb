// The plain form of every op: what it means, in float32 and in the simplest order of summation. Kernels are
// tested against it, and it is the table of machines with no better instruction set ("generic"). Stateless;
// one step at a time, rows in parallel.
//
// Order: every sum runs from its first term to its last with one rounding for each product and one for each
// addition. Layouts: a packed matrix is cut into panels of 32 outputs, each [k][32], the last one padded with
// zeros; a KV block holds keys as [kv_head][head_dim][block_size], then values as
// [kv_head][block_size][head_dim], each followed by the scales of an int8 cache.
#pragma once

#include "ops/op_table.h"

namespace quire {

// Lives as long as the program.
const OpTable& reference_ops();

// The entries, for callers that want one of them. Contracts: op_table.h.
namespace reference {

size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                       int threads);
PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format);
void linear(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
            const TensorView& residual);
void embedding(const OpContext& ctx, const TensorView& out, const TensorView& table,
               std::span<const int32_t> ids);
void embedding_packed(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                      std::span<const int32_t> ids);
// The same of formats of whole numbers.
PackedLinear pack_linear_int(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format);
void linear_int(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
                const TensorView& residual);
void embedding_packed_int(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                          std::span<const int32_t> ids);
// The same of matrices of codes. Products are summed with one fused multiply-add each, first to last.
PackedLinear pack_coded(const OpContext& ctx, std::span<const CodedMatrix* const> parts);
void linear_coded(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
                  const TensorView& residual);
void embedding_packed_coded(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                            std::span<const int32_t> ids);
void rms_norm(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& weight,
              float eps, float weight_offset);
void layer_norm(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& weight,
                const TensorView& bias, float eps);
void rope(const OpContext& ctx, const TensorView& x, std::span<const int32_t> positions,
          const TensorView& cos_sin, RopeStyle style);
void kv_write(const OpContext& ctx, const KvCacheView& cache, const TensorView& k, const TensorView& v,
              std::span<const int64_t> slot_mapping);
void choose_keys(const OpContext& ctx, const KeyMask& chosen, const TensorView& q, const TensorView& weights,
                 const KvCacheView& keys, const AttentionBatch& batch, int32_t count, int32_t tokens);
void choose_blocks(const OpContext& ctx, const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                   const AttentionBatch& batch, const KeyBlocks& blocks);
void paged_attention(const OpContext& ctx, const TensorView& out, const TensorView& q,
                     const KvCacheView& cache, const AttentionBatch& batch, const AttentionParams& params);
void relative_attention(const OpContext& ctx, const TensorView& out, const TensorView& q, const TensorView& k,
                        const TensorView& v, const AttentionBatch& batch, const RelativeParams& params);
void gated_activation(const OpContext& ctx, const TensorView& out, const TensorView& gate_up, Activation act);
void activation(const OpContext& ctx, const TensorView& x, Activation act);
void xielu(const OpContext& ctx, const TensorView& x, const XieluParams& params);
void clamp(const OpContext& ctx, const TensorView& x, float low, float high);
void relu_above(const OpContext& ctx, const TensorView& x, float deviations);
void match_rms(const OpContext& ctx, const TensorView& x, const TensorView& like, float least);
void add(const OpContext& ctx, const TensorView& x, const TensorView& y);
void gather_rows(const OpContext& ctx, const TensorView& out, const TensorView& x,
                 std::span<const int32_t> rows);
void scale_softcap(const OpContext& ctx, const TensorView& x, float scale, float cap);
void route_experts(const OpContext& ctx, std::span<int32_t> ids, const TensorView& weights,
                   const TensorView& logits, const RouterParams& params);
void combine_rows(const OpContext& ctx, const TensorView& out, const TensorView& y,
                  std::span<const int32_t> places, const TensorView& weights, const TensorView& residual);
void stream_shares(const OpContext& ctx, const TensorView& in, const TensorView& out,
                   const TensorView& scores, const TensorView& base, const TensorView& scale,
                   const StreamParams& params);
void gate(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& gate,
          Activation act);
void decay_gates(const OpContext& ctx, const TensorView& decay, const TensorView& step,
                 const TensorView& bias, const TensorView& rate, const DecayParams& params);
void causal_conv(const OpContext& ctx, const TensorView& x, const TensorView& weight, const TensorView& bias,
                 Activation act, const StateBatch& batch, const StateView& state);
void ssm_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& b,
              const TensorView& c, const TensorView& decay, const TensorView& step, const TensorView& skip,
              const StateBatch& batch, const StateView& state);
void selective_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& step,
                    const TensorView& b, const TensorView& c, const TensorView& rate, const TensorView& skip,
                    const StateBatch& batch, const StateView& state);
void delta_rule(const OpContext& ctx, const TensorView& out, const TensorView& q, const TensorView& k,
                const TensorView& v, const TensorView& decay, const TensorView& beta, const StateBatch& batch,
                const StateView& state);
void compress(const OpContext& ctx, const TensorView& out, const TensorView& values, const TensorView& gates,
              const TensorView& bias, const StateBatch& batch, const StateView& state);

// The activation functions themselves, and what they make of a gate and an up.
float activate(float x, Activation act);
float activate_gate(float gate, float up, Activation act);

}  // namespace reference
}  // namespace quire
