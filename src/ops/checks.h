// Shape checks of the ops, called once where a model is put together (and by tests), not for each step. Each
// throws Error naming the op and the shapes at fault.
#pragma once

#include <span>

#include "ops/op_table.h"

namespace quire {

// Whether PackedLinear::gate may be set.
bool can_gate(const PackedLinear& w);
void check_linear(const TensorView& out, const TensorView& x, const PackedLinear& w,
                  const TensorView& residual);
// ids are checked against the number of rows too.
void check_embedding(const TensorView& out, const TensorView& table, std::span<const int32_t> ids);
void check_embedding_packed(const TensorView& out, const PackedLinear& table, std::span<const int32_t> ids);
void check_norm(const TensorView& out, const TensorView& x, const TensorView& weight, const TensorView& bias);
void check_rope(const TensorView& x, std::span<const int32_t> positions, const TensorView& cos_sin);
void check_kv_write(const KvCacheView& cache, const TensorView& k, const TensorView& v,
                    std::span<const int64_t> slot_mapping);
void check_choose_keys(const KeyMask& chosen, const TensorView& q, const TensorView& weights,
                       const KvCacheView& keys, const AttentionBatch& batch, int32_t count, int32_t tokens);
void check_choose_blocks(const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                         const AttentionBatch& batch, const KeyBlocks& blocks);
void check_paged_attention(const TensorView& out, const TensorView& q, const KvCacheView& cache,
                           const AttentionBatch& batch);
void check_relative_attention(const TensorView& out, const TensorView& q, const TensorView& k,
                              const TensorView& v, const AttentionBatch& batch, const RelativeParams& params);
void check_gated_activation(const TensorView& out, const TensorView& gate_up);
void check_route_experts(std::span<const int32_t> ids, const TensorView& weights, const TensorView& logits,
                         const RouterParams& params);
void check_combine_rows(const TensorView& out, const TensorView& y, std::span<const int32_t> places,
                        const TensorView& weights, const TensorView& residual);
void check_stream_shares(const TensorView& in, const TensorView& out, const TensorView& scores,
                         const TensorView& base, const TensorView& scale);
void check_compress(const TensorView& out, const TensorView& values, const TensorView& gates,
                    const TensorView& bias, const StateBatch& batch, const StateView& state);

void check_causal_conv(const TensorView& x, const TensorView& weight, const TensorView& bias,
                       const StateBatch& batch, const StateView& state);
void check_ssm_scan(const TensorView& out, const TensorView& x, const TensorView& b, const TensorView& c,
                    const TensorView& decay, const TensorView& step, const TensorView& skip,
                    const StateBatch& batch, const StateView& state);
void check_selective_scan(const TensorView& out, const TensorView& x, const TensorView& step,
                          const TensorView& b, const TensorView& c, const TensorView& rate,
                          const TensorView& skip, const StateBatch& batch, const StateView& state);
void check_delta_rule(const TensorView& out, const TensorView& q, const TensorView& k, const TensorView& v,
                      const TensorView& decay, const TensorView& beta, const StateBatch& batch,
                      const StateView& state);

// The empty matrix that `parts` fill: n, k, format, and zeroed data of as many bytes as `packed_bytes` says.
// Throws Error when the parts do not fit together or the format is not one of weights.
PackedLinear make_packed(std::span<const TensorView> parts, WeightFormat format,
                         decltype(OpTable::packed_bytes) packed_bytes);
// The same of matrices of codes, in the layout of quant/coded_layout.h and with their column order and
// outliers.
PackedLinear make_packed_coded(std::span<const CodedMatrix* const> parts);

}  // namespace quire
