// Matrix products and embedding lookups.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/op.h"
#include "quant/weight_format.h"
#include "tensor/tensor.h"

namespace quire {

enum class Activation : uint8_t {
  kSilu,
  kGelu,
  kGeluTanh,
  kRelu,
  kReluSquared,
  kSigmoid,
  kSoftplus,  // ln(1 + e^x)
  kNone,      // identity
  // For gates only (gpt-oss): with g = min(gate, 7) and u = up clamped to [-7, 7], g * sigmoid(1.702 g) *
  // (u + 1). Without an up, u = 0.
  kClampedSwish,
  // The same without the clamps, which the caller applies.
  kUnclampedSwish,
};

// A weight matrix W [n, k] in the layout that the `linear` of one op table reads. Created by
// OpTable::pack_linear or pack_quantized of the same table; owned by the model. Read-only after load.
struct PackedLinear {
  WeightFormat format;
  int64_t n = 0;        // output features
  int64_t k = 0;        // input features
  Buffer data;          // the packed weights; the layout is private to the table
  Buffer bias;          // float32 [n], or empty
  Buffer column_order;  // int32 [k], or empty: packed column i multiplies column column_order[i] of x;
                        // quantized matrices only (act-order)
  // Values added to single quantized weights (ops/outliers.h), or both empty: Outlier [...], row by row, and
  // the first outlier of each row, int64 [n + 1].
  Buffer outliers;
  Buffer outlier_rows;
  std::string_view label = "linear";  // name in profiles; lives as long as the program
  // Set if W stacks n / 2 gate rows on n / 2 up rows and the product is gate(x · gates) * (x · ups). Requires
  // can_gate.
  std::optional<Activation> gate = std::nullopt;

  int64_t out_columns() const { return gate ? n / 2 : n; }
};

// Whether PackedLinear::gate may be set.
bool can_gate(const PackedLinear& w);

// The same matrix without a gate. It borrows the memory of w.
PackedLinear without_gate(const PackedLinear& w);

// The first of matrices that may be null; null if all are.
const PackedLinear* first_matrix(std::span<const PackedLinear* const> matrices);

namespace ops {

// out[m, n] = x[m, :] · w[n, :] (+ bias[n]) (+ residual[m, n]). With w.gate and s for these sums,
// out[m, i] = gate(s[m, i]) * s[m, n / 2 + i], and there is no residual.
struct Linear {
  static constexpr const char* kName = "linear";
  TensorView out;  // [rows, w.out_columns()]
  TensorView x;    // [rows, w.k]
  const PackedLinear& w;
  TensorView residual = {};  // as out, or null data; may be out
};
void check(const Linear& op);
OpCost cost(const Linear& op);
void run_reference(const OpContext& ctx, const Linear& op);

// Products of groups of rows, each group with a matrix of its own (the experts of a layer). Term t of the
// groups is a row of x, and
//   out[t, :] = x[rows[t], :] · matrices[g]   for t in [offsets[g], offsets[g + 1]),
// each as in Linear. Terms of a group without a matrix, and past the last group, are left as they are.
struct GroupedLinear {
  static constexpr const char* kName = "grouped_linear";
  TensorView out;                                 // [terms, out_columns()]
  TensorView x;                                   // [any, k]
  std::span<const PackedLinear* const> matrices;  // with equal n, k and gate; null = none, but not all
  std::span<const int32_t> offsets;    // [at least matrices + 1], ascending from 0, at most `terms`
  std::span<const int32_t> rows = {};  // [terms]: rows of x; empty = term t is row t
};
void check(const GroupedLinear& op);
OpCost cost(const GroupedLinear& op);
void run_reference(const OpContext& ctx, const GroupedLinear& op);

// Products of parts of a row, each part with a matrix of its own (the heads of latent attention):
// out[m, part i] = x[m, part i] · matrices[i], each as in Linear.
struct BatchedLinear {
  static constexpr const char* kName = "batched_linear";
  TensorView out;                                 // [rows, matrices * n]
  TensorView x;                                   // [rows, matrices * k]
  std::span<const PackedLinear* const> matrices;  // one or more, with equal n and k, and without gate
};
void check(const BatchedLinear& op);
OpCost cost(const BatchedLinear& op);
void run_reference(const OpContext& ctx, const BatchedLinear& op);

// out[i, :] = table[ids[i], :], converted to float32.
struct Embedding {
  static constexpr const char* kName = "embedding";
  TensorView out;                // [ids, hidden]
  TensorView table;              // [vocab, hidden], float32, bfloat16 or float16
  std::span<const int32_t> ids;  // in [0, vocab)
};
void check(const Embedding& op);
OpCost cost(const Embedding& op);
void run_reference(const OpContext& ctx, const Embedding& op);

// The same from a packed matrix (a tied embedding is stored once). Not for 2:4 sparse matrices.
struct PackedEmbedding {
  static constexpr const char* kName = "packed_embedding";
  TensorView out;                // [ids, table.k]
  const PackedLinear& table;     // [vocab, hidden]
  std::span<const int32_t> ids;  // in [0, vocab)
};
void check(const PackedEmbedding& op);
OpCost cost(const PackedEmbedding& op);
void run_reference(const OpContext& ctx, const PackedEmbedding& op);

using LinearOps = OpList<Linear, GroupedLinear, BatchedLinear, Embedding, PackedEmbedding>;

}  // namespace ops
}  // namespace quire
