// The parts a decoder is made of: weights, and the equation as a free function. Weights are read-only after
// load.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nn/forward_batch.h"
#include "nn/rope.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// y = W x (+ bias)
struct Linear {
  PackedLinear weight;  // [out_features, in_features]
  // Where W's rows are stored in several formats: matrices with the same in_features whose outputs follow
  // those of `weight`, in order.
  std::vector<PackedLinear> more = {};

  int64_t out_features() const;
};
// residual.data non-null: out = W x (+ bias) + residual; residual may be out.
void apply(const OpTable& ops, const OpContext& ctx, const Linear& linear, const TensorView& out,
           const TensorView& x, const TensorView& residual = {});

// Rows of a table by id. Either `table` looks at the checkpoint's memory (or at `owned`), or `packed` is a
// matrix that serves as output embedding too, or one of codes.
struct Embedding {
  TensorView table;  // [vocab_size, hidden]
  Buffer owned;
  const PackedLinear* packed = nullptr;  // not owned, or own_packed
  std::unique_ptr<PackedLinear> own_packed = nullptr;
};
void apply(const OpTable& ops, const OpContext& ctx, const Embedding& embedding, const TensorView& out,
           std::span<const int32_t> ids);

enum class NormKind : uint8_t { kRms, kLayer };

struct Norm {
  NormKind kind = NormKind::kRms;
  float eps = 1e-6F;
  float weight_offset = 0.0F;  // kRms: added to the weight
  Buffer weight;               // float32 [size]; kEachHead: [heads, size]
  Buffer bias;                 // float32 [size] or empty; kLayer
  int64_t size = 0;
};
// Over the last dimension of x [rows, size] or [rows, heads, size]. out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const Norm& norm, const TensorView& out,
           const TensorView& x);

// x [rows, parts * size] in place, each part with its own row of the weights [parts, size].
void apply_each(const OpTable& ops, const OpContext& ctx, const Norm& norm, const TensorView& x);

// x [rows, n] as [rows, heads, n / heads].
TensorView head_view(const TensorView& x, int64_t heads);
// A buffer of floats as a vector; a view of nothing where it is empty.
TensorView vector_view(const Buffer& buffer, int64_t size);

// A buffer of floats as each of so many rows, to read from.
TensorView same_rows(const Buffer& buffer, int64_t rows, int64_t size);

// Over which dimensions queries and keys are normed before the rotation.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,     // each head, all with the same weights
  kEachHead,  // each head with its own
  kWhole,     // all heads at once
};

// What keys and values are divided by where the cache keeps them as 8-bit floats, which reach 448.
struct KvScales {
  float keys = 1.0F;
  float values = 1.0F;
};

// Grouped-query attention with its projections.
struct Attention {
  // [(num_heads + num_kv_heads) head_dim + num_kv_heads value_dim, hidden]: queries, keys, values; gates
  // behind the queries
  Linear qkv;
  Linear out;                  // [hidden, num_heads value_dim]
  std::optional<Norm> q_norm;  // over each head, or over all of them at once
  std::optional<Norm> k_norm;
  QkNorm qk_norm = QkNorm::kNone;
  bool norm_turned = false;      // the norms come behind the rotation
  std::optional<Norm> v_norm;    // over each value head
  std::optional<Norm> sub_norm;  // over all that the heads give, before the output projection
  bool shares_cache = false;     // keys and values are another layer's: qkv is queries alone
  Activation gate_activation = Activation::kSigmoid;
  int64_t gates = 0;  // what they become is multiplied with the result: q_size() of them, or num_heads
  // Scores that depend on distances, of whole sequences; the cache is not used.
  std::optional<RelativeParams> relative;
  Buffer relative_data;  // what relative points to, of this layer alone
  std::optional<KvScales> kv_scales;
  Buffer sinks;  // float32 [num_heads] or empty; params.sinks points to it
  AttentionParams params;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;  // head_dim at the most

  int64_t qkv_size() const {
    return keys_begin() + (shares_cache ? 0 : int64_t{num_kv_heads} * (head_dim + value_dim));
  }
  int64_t result_size() const { return int64_t{num_heads} * value_dim; }
  int64_t keys_begin() const { return q_size() + gates; }
  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
};
// out = W_out(attend(qkv(x))) (+ residual, which may be out). rope null: positions are not turned in. out may
// be x. Scratch: qkv [rows, qkv_size], heads [rows, result_size].
// chosen: AttentionParams::chosen.
void apply(const OpTable& ops, const OpContext& ctx, const Attention& attention, const Rope* rope,
           const TensorView& out, const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const TensorView& qkv, const TensorView& heads,
           const KeyMask& chosen = {});
// The same once qkv is what the projection gave.
void attend(const OpTable& ops, const OpContext& ctx, const Attention& attention, const Rope* rope,
            const TensorView& out, const TensorView& residual, const ForwardBatch& batch,
            const KvCacheView& cache, const TensorView& qkv, const TensorView& heads,
            const KeyMask& chosen = {});

// Gated: down(act(gate(x)) * up(x)); plain: down(act(up(x))).
struct Mlp {
  Linear up;    // gated: [2 intermediate, hidden], gates first; plain: [intermediate, hidden]
  Linear down;  // [hidden, intermediate]
  Activation activation = Activation::kSilu;
  bool gated = true;
  int64_t intermediate = 0;
  float gate_multiplier = 1.0F;                     // of gates, before the activation
  std::optional<Norm> sub_norm = std::nullopt;      // before the last product
  std::optional<XieluParams> xielu = std::nullopt;  // of a plain one, in the activation's place
  // Of a gated one: gates count only by how much they are so many deviations above their row's mean.
  std::optional<float> gate_deviations = std::nullopt;

  // Of a gated one: what the activation gives is this at the most, and ups lie between it and its negative;
  // 0: no limit.
  float limit = 0.0F;
  bool limit_first = false;  // of gates before the activation

  int64_t up_size() const { return gated ? 2 * intermediate : intermediate; }
};
// The product with `up` takes the activation over, where it can.
void fuse_gate(Mlp& mlp);
// out = mlp(x) (+ residual, which may be out). out may be x. Scratch: up [rows, up_size()], act [rows,
// intermediate] (not read for a plain one).
void apply(const OpTable& ops, const OpContext& ctx, const Mlp& mlp, const TensorView& out,
           const TensorView& x, const TensorView& residual, const TensorView& up, const TensorView& act);
// The same once the product with mlp.up is in `up`, or with the activation in `act`.
void finish(const OpTable& ops, const OpContext& ctx, const Mlp& mlp, const TensorView& out,
            const TensorView& residual, const TensorView& up, const TensorView& act);

// How what attention or MLP gave joins the hidden states: hidden += multiplier * norm(branch); with norm_sum
// hidden = norm(hidden + multiplier * branch). The hidden states are multiplied with `residual` before.
struct Join {
  std::optional<Norm> norm;
  float multiplier = 1.0F;
  float residual = 1.0F;
  bool norm_sum = false;

  // The sum is hidden + branch, which the projection before can do by itself; finish() is what is left then.
  bool plain() const { return (!norm || norm_sum) && multiplier == 1.0F && residual == 1.0F; }
};
// Changes branch as well.
void apply(const OpTable& ops, const OpContext& ctx, const Join& join, const TensorView& hidden,
           const TensorView& branch);
// Of a plain one, once hidden is the sum.
void finish(const OpTable& ops, const OpContext& ctx, const Join& join, const TensorView& hidden);

}  // namespace quire
