// The ops in terms of CpuKernels: they take views and shapes, divide the work over the pool and call kernels
// with plain pointers. Compiled once for all instruction sets; tables.cc binds `run` to the kernels of each
// level. An op without `run` here uses its reference implementation on every level.
#pragma once

#include "backends/cpu/kernels.h"
#include "ops/op_table.h"

namespace quire::cpu {

Storage storage_of(DType t);  // kF32, kBF16 or kF16
Act act_of(Activation act);
KvFormat kv_format_of(DType t);  // is_kv_dtype
Gate gate_of(const CpuKernels& kernels, const PackedLinear& w);

// Packing and workspace sizes; see OpTable.
bool keeps_sparse_24(const CpuKernels& kernels, DType dtype, int64_t k);
int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k);
PackedLinear pack_linear(const CpuKernels& kernels, const OpContext& ctx, std::span<const TensorView> parts,
                         WeightFormat format);
size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                       int threads);
// Workspace for activations in the form of CpuKernels::prepare_x.
size_t linear_workspace_bytes(const CpuKernels& kernels);
// Bytes of workspace for top-k selection by an indexer.
size_t selection_bytes(int64_t max_seq_len, int32_t num_heads);

// Integer formats (linear_int.cc). The workspace holds rows of int8 activations, and for each thread a panel
// of weights that were converted to 8 bits. A product is computed in as many chunks of rows as it needs.
size_t int_workspace_bytes(const CpuKernels& kernels, int threads);
PackedLinear pack_linear_int(const CpuKernels& kernels, const OpContext& ctx,
                             std::span<const TensorView> parts, WeightFormat format);
void linear_int(const CpuKernels& kernels, const OpContext& ctx, const ops::Linear& op);

// Quantized matrices (linear_quantized.cc). If they have a column order, the workspace holds reordered rows
// of activations.
void linear_quantized(const CpuKernels& kernels, const OpContext& ctx, const ops::Linear& op);

// linear.cc
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Linear& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Embedding& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::PackedEmbedding& op);

// grouped_linear.cc
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::GroupedLinear& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::BatchedLinear& op);

// low_rank.cc. Its workspace holds the products of rows with the A of their adapters, and for experts the
// adapter of each row.
constexpr size_t kLowRankWorkspace = size_t{1} << 20;
constexpr size_t kLowRankRowBytes = sizeof(int32_t);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::AddLowRank& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::AddLowRankExperts& op);

// rows.cc
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::RmsNorm& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::LayerNorm& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Rope& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::GatedActivation& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Gate& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Activate& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Add& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::ScaleSoftcap& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::CombineRows& op);

// states.cc
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::DecayGates& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::CausalConv& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::SsmScan& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::DeltaRule& op);

// attention.cc
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::KvWrite& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::PagedAttention& op);

// select_keys.cc
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::TopkKeys& op);
void run(const CpuKernels& kernels, const OpContext& ctx, const ops::TopkBlocks& op);

}  // namespace quire::cpu
