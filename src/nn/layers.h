// The basic layers: a struct with the weights, and the equation as a free function. Weights are read-only
// after load.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nn/forward_batch.h"
#include "nn/norm_spec.h"
#include "nn/rope.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// y = W x (+ bias)
struct Linear {
  PackedLinear weight;  // [out_features, in_features]
  // If the rows of W have several formats: matrices with the same in_features, whose outputs follow those of
  // `weight` in order.
  std::vector<PackedLinear> more = {};

  int64_t out_features() const;
};
// out = W x (+ bias) (+ residual, which may be out).
void apply(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x,
           const TensorView& residual = {});

// Lookup of rows by id. Either `table` is a view of the checkpoint's memory or of `owned`, or `packed` is a
// quantized matrix or one that is also the language modeling head.
struct Embedding {
  TensorView table;  // [vocab_size, hidden]
  Buffer owned;
  const PackedLinear* packed = nullptr;  // own_packed, or the matrix of the language modeling head
  std::unique_ptr<PackedLinear> own_packed = nullptr;
};
void apply(const OpRunner& run, const Embedding& embedding, const TensorView& out,
           std::span<const int32_t> ids);

struct Norm {
  NormKind kind = NormKind::kRms;
  float eps = 1e-6F;
  float weight_offset = 0.0F;  // kRms: added to the weight
  Buffer weight;               // float32 [size], or [heads, size] with QkNorm::kPerHeadWeights
  Buffer bias;                 // float32 [size] or empty; kLayer
  int64_t size = 0;
};
// Normalizes the last dimension of x [rows, size] or [rows, heads, size]. out may be x.
void apply(const OpRunner& run, const Norm& norm, const TensorView& out, const TensorView& x);

// Normalizes x [rows, parts * size] in place, each part with its own row of the weights [parts, size].
void apply_each(const OpRunner& run, const Norm& norm, const TensorView& x);

// x [rows, n] as [rows, heads, n / heads].
TensorView head_view(const TensorView& x, int64_t heads);
// A float32 buffer as a vector; an empty view if the buffer is empty.
TensorView vector_view(const Buffer& buffer, int64_t size);

// A float32 buffer as a read-only matrix [rows, size] whose rows are all that buffer.
TensorView same_rows(const Buffer& buffer, int64_t rows, int64_t size);

// Keys and values are divided by these scales before an FP8 cache stores them (largest value 448).
struct KvScales {
  float keys = 1.0F;
  float values = 1.0F;
};

// Grouped-query attention with its projections.
struct Attention {
  // [(num_heads + num_kv_heads) head_dim + num_kv_heads value_dim + gates, hidden]: queries, output gates,
  // keys, values
  Linear qkv;
  Linear out;                  // [hidden, num_heads value_dim]
  std::optional<Norm> q_norm;  // as qk_norm says
  std::optional<Norm> k_norm;
  QkNorm qk_norm = QkNorm::kNone;
  bool norm_after_rope = false;  // QK norm is applied after RoPE
  std::optional<Norm> v_norm;    // over each value head
  std::optional<Norm> sub_norm;  // over the concatenated heads, before the output projection
  float clip_qkv = 0.0F;         // q, k and v are clamped to [-clip_qkv, clip_qkv] before RoPE; 0 = not
  bool shares_cache = false;     // KV sharing: reads the cache of another layer; qkv has queries only
  Activation gate_activation = Activation::kSigmoid;
  int64_t gates = 0;  // output gates, which multiply the result: q_size(), num_heads, or 0
  // Encoders: scores that depend on the distance between tokens. The cache is not used.
  std::optional<RelativeParams> relative;
  Buffer relative_data;  // tables of this layer that `relative` points to
  std::optional<KvScales> kv_scales;
  Buffer sinks;  // float32 [num_heads] or empty; params.sinks points to it
  AttentionParams params;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;  // at most head_dim

  int64_t qkv_size() const {
    return keys_begin() + (shares_cache ? 0 : int64_t{num_kv_heads} * (head_dim + value_dim));
  }
  int64_t result_size() const { return int64_t{num_heads} * value_dim; }
  int64_t keys_begin() const { return q_size() + gates; }
  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
};
// out = W_out(attend(qkv(x))) (+ residual, which may be out). rope null = NoPE layer. out may be x. Scratch:
// qkv [rows, qkv_size], heads [rows, result_size]. chosen: AttentionParams::chosen.
void apply(const OpRunner& run, const Attention& attention, const Rope* rope, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const TensorView& qkv, const TensorView& heads,
           const SparseMask& chosen = {});
// Same, if qkv already holds the output of the projection.
void attend(const OpRunner& run, const Attention& attention, const Rope* rope, const TensorView& out,
            const TensorView& residual, const ForwardBatch& batch, const KvCacheView& cache,
            const TensorView& qkv, const TensorView& heads, const SparseMask& chosen = {});

// Gated: down(act(gate(x)) * up(x)); plain: down(act(up(x))).
struct Mlp {
  Linear up;    // gated: [2 intermediate, hidden], gates first; plain: [intermediate, hidden]
  Linear down;  // [hidden, intermediate]
  Activation activation = Activation::kSilu;
  bool gated = true;
  int64_t intermediate = 0;
  float gate_multiplier = 1.0F;                     // factor on gates before the activation
  std::optional<Norm> sub_norm = std::nullopt;      // before the down projection
  std::optional<XieluParams> xielu = std::nullopt;  // plain only; replaces the activation
  // Gated only. Gaussian top-k: gates become max(0, gate - (mean + this * standard deviation)) over their
  // row.
  std::optional<float> activation_sparsity_std = std::nullopt;

  // Gated only. The activation's output is at most `limit`, ups are clamped to [-limit, limit]. 0 = no limit.
  float limit = 0.0F;
  bool limit_first = false;  // gates are clamped before the activation instead of after it

  int64_t up_size() const { return gated ? 2 * intermediate : intermediate; }
};
// Moves the activation into the epilogue of the product with `up`, if that is possible.
void fuse_gate(Mlp& mlp);
// out = mlp(x) (+ residual, which may be out). out may be x. Scratch: up [rows, up_size()], act [rows,
// intermediate], not used if the MLP is plain.
void apply(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
           const TensorView& residual, const TensorView& up, const TensorView& act);
// Same, if `up` already holds the product with mlp.up, or `act` that product with the activation applied.
void finish(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& residual,
            const TensorView& up, const TensorView& act);

// Adds the output of attention or MLP to the hidden states: hidden = residual * hidden + multiplier *
// norm(branch), or with norm_sum: hidden = norm(residual * hidden + multiplier * branch).
struct ResidualAdd {
  std::optional<Norm> norm;
  float multiplier = 1.0F;
  float residual = 1.0F;
  bool norm_sum = false;

  // The sum is hidden + branch, so the preceding projection can add it as its residual. Only finish() is left
  // to do then.
  bool plain() const { return (!norm || norm_sum) && multiplier == 1.0F && residual == 1.0F; }
};
// Overwrites branch.
void apply(const OpRunner& run, const ResidualAdd& join, const TensorView& hidden, const TensorView& branch);
// The rest of a plain add, if hidden already is the sum.
void finish(const OpRunner& run, const ResidualAdd& join, const TensorView& hidden);

}  // namespace quire
