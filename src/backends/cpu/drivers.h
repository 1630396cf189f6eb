// The entries of OpTable in terms of CpuKernels: views and shapes in, ranges for the pool and plain pointers
// out. Compiled once for all instruction sets; tables.cc binds them to each.
#pragma once

#include "backends/cpu/kernels.h"
#include "ops/op_table.h"

namespace quire::cpu {

Storage storage_of(DType t);  // kF32, kBF16 or kF16
Act act_of(Activation act);
KvFormat kv_format_of(DType t);  // is_kv_dtype
Gate gate_of(const CpuKernels& kernels, const PackedLinear& w);

bool keeps_two_of_four(const CpuKernels& kernels, DType dtype, int64_t k);
int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k);
PackedLinear pack_linear(const CpuKernels& kernels, const OpContext& ctx, std::span<const TensorView> parts,
                         WeightFormat format);
// Scratch that `linear` needs: for activations in the form of CpuKernels::prepare_x.
size_t linear_workspace_bytes(const CpuKernels& kernels);
void linear(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
            const PackedLinear& w, const TensorView& residual);
void embedding(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
               const TensorView& table, std::span<const int32_t> ids);
void embedding_packed(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                      const PackedLinear& table, std::span<const int32_t> ids);

// The same of formats of whole numbers (linear_int.cc). Products take rows of int8 activations as they fit
// the workspace, which has so many bytes, with a panel of spread codes for each thread.
size_t int_workspace_bytes(const CpuKernels& kernels, int threads);
PackedLinear pack_linear_int(const CpuKernels& kernels, const OpContext& ctx,
                             std::span<const TensorView> parts, WeightFormat format);
void linear_int(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                const PackedLinear& w, const TensorView& residual);

// The same of matrices of codes (linear_coded.cc). Where columns have an order, so many rows of activations
// are put into it at once as fit the workspace.
void linear_coded(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                  const PackedLinear& w, const TensorView& residual);

void rms_norm(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
              const TensorView& weight, float eps, float weight_offset);
void layer_norm(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                const TensorView& weight, const TensorView& bias, float eps);
void rope(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x,
          std::span<const int32_t> positions, const TensorView& cos_sin, RopeStyle style);
void gated_activation(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                      const TensorView& gate_up, Activation act);
void activation(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x, Activation act);
void add(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x, const TensorView& y);
void scale_softcap(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x, float scale,
                   float cap);
void combine_rows(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& y,
                  std::span<const int32_t> places, const TensorView& weights, const TensorView& residual);

void gate(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
          const TensorView& gate, Activation act);

// States (states.cc).
void decay_gates(const CpuKernels& kernels, const OpContext& ctx, const TensorView& decay,
                 const TensorView& step, const TensorView& bias, const TensorView& rate,
                 const DecayParams& params);
void causal_conv(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x,
                 const TensorView& weight, const TensorView& bias, Activation act, const StateBatch& batch,
                 const StateView& state);
void ssm_scan(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
              const TensorView& b, const TensorView& c, const TensorView& decay, const TensorView& step,
              const TensorView& skip, const StateBatch& batch, const StateView& state);
void delta_rule(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& q,
                const TensorView& k, const TensorView& v, const TensorView& decay, const TensorView& beta,
                const StateBatch& batch, const StateView& state);

size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                       int threads);
void kv_write(const CpuKernels& kernels, const OpContext& ctx, const KvCacheView& cache, const TensorView& k,
              const TensorView& v, std::span<const int64_t> slot_mapping);
// Scratch that both ways of choosing keys need at the least.
size_t choice_bytes(int64_t max_seq_len, int32_t num_heads);
void choose_blocks(const CpuKernels& kernels, const OpContext& ctx, const KeyMask& chosen,
                   const TensorView& q, const KvCacheView& keys, const AttentionBatch& batch,
                   const KeyBlocks& blocks);
void choose_keys(const CpuKernels& kernels, const OpContext& ctx, const KeyMask& chosen, const TensorView& q,
                 const TensorView& weights, const KvCacheView& keys, const AttentionBatch& batch,
                 int32_t count, int32_t tokens);
void paged_attention(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                     const TensorView& q, const KvCacheView& cache, const AttentionBatch& batch,
                     const AttentionParams& params);

}  // namespace quire::cpu
