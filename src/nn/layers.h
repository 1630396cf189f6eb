// The basic layers: a struct with the weights, and the equation as a free function. Weights are read-only
// after load.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nn/norm_spec.h"
#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

// y = W x (+ bias)
struct Linear {
  PackedLinear weight;  // [out_features, in_features]
  // If the rows of W have several formats: matrices with the same in_features, whose outputs follow those of
  // `weight` in order.
  std::vector<PackedLinear> more = {};
  int32_t site = -1;  // its number among the sites of adapters (nn/adapter.h)

  int64_t out_features() const;
};
// out = W x (+ bias) (+ residual, which may be out), and what the adapters of the rows add.
void apply(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x,
           const TensorView& residual = {});
// The same without the activation of a gated matrix, if an adapter changes one of the rows: changes come
// before the activation. Returns false, and does nothing, if none does.
bool apply_changed(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x);

// Terms that are sorted by group (ops::GroupedLinear), and the row that each is of.
struct GroupedTerms {
  std::span<const int32_t> offsets;
  std::span<const int32_t> rows;  // [terms], in [0, num_rows)
  int64_t num_rows = 0;           // rows that the call computes
  bool by_row = false;            // inputs are those of the rows; otherwise each term has its own
};

// Linear layers with the same numbers of inputs and outputs that one op applies: those of all experts, or of
// all heads. Filled when they have been loaded; they outlive it and stay where they are.
class LinearGroup {
 public:
  void add(const Linear& linear);
  // out[t, :] = W_g x[t, :], or W_g x[rows[t], :], for the terms t of group g, and what the adapters of the
  // rows add.
  void apply_grouped(const OpRunner& run, const TensorView& out, const TensorView& x,
                     const GroupedTerms& terms) const;
  // The same without the activation of gated matrices, if an adapter changes one of the layers for one of the
  // rows, as apply_changed().
  bool apply_changed_grouped(const OpRunner& run, const TensorView& out, const TensorView& x,
                             const GroupedTerms& terms) const;
  // out[:, part i] = W_i x[:, part i] (ops::BatchedLinear), and what the adapters of the rows add. All layers
  // must be single matrices of one shape.
  void apply_batched(const OpRunner& run, const TensorView& out, const TensorView& x) const;

 private:
  // Matrices with the same outputs. If the rows of a layer have several formats, it has several; an entry
  // is null if that layer is divided in another way.
  struct Piece {
    int64_t begin = 0;  // first output
    std::vector<const PackedLinear*> matrices;
  };
  static Piece& piece_for(std::vector<Piece>& pieces, int64_t begin, const PackedLinear& w);
  // Adds a matrix of the layer `size_`.
  void place(std::vector<Piece>& pieces, int64_t begin, const PackedLinear& w);

  void multiply_grouped(const OpRunner& run, std::span<const Piece> pieces, const TensorView& out,
                        const TensorView& x, const GroupedTerms& terms) const;
  std::span<const LowRankExpertsGroup> changes_of(const OpRunner& run, const GroupedTerms& terms) const;
  void add_changes(const OpRunner& run, std::span<const LowRankExpertsGroup> changes, const TensorView& out,
                   const TensorView& x, const GroupedTerms& terms) const;

  std::vector<Piece> pieces_;
  std::deque<PackedLinear> plain_;   // gated matrices without their gates; they stay where they are
  std::vector<Piece> plain_pieces_;  // pieces of `plain_`; empty if no matrix is gated
  std::vector<int32_t> sites_;       // Linear::site of each layer
  int64_t size_ = 0;
};

// Lookup of rows by id. Either `table` is a view of the checkpoint's memory or of `owned`, or `packed` is a
// quantized matrix or one that is also the language modeling head.
struct Embedding {
  TensorView table;  // [vocab_size, hidden]
  Buffer owned;
  const PackedLinear* packed = nullptr;  // own_packed, or the matrix of the language modeling head
  std::unique_ptr<PackedLinear> own_packed = nullptr;
  int32_t site = -1;  // as in Linear; if it is also the language modeling head, the number of that
};
// The rows of the ids, and what the adapters of the rows change.
void apply(const OpRunner& run, const Embedding& embedding, const TensorView& out,
           std::span<const int32_t> ids);

struct Norm {
  NormKind kind = NormKind::kRms;
  float eps = 1e-6F;
  float weight_offset = 0.0F;  // kRms: added to the weight
  Buffer weight;               // float32 [size], or [heads, size] with QkNorm::kPerHeadWeights
  Buffer bias;                 // float32 [size] or empty; kLayer
  int64_t size = 0;
  int32_t site = -1;  // its number among the norms that adapters can replace (nn/adapter.h)
};
// Normalizes the last dimension of x [rows, size] or [rows, heads, size], with the weights that the adapters
// of the rows have instead. out may be x.
void apply(const OpRunner& run, const Norm& norm, const TensorView& out, const TensorView& x);

// Normalizes x [rows, parts * size] in place, each part with its own row of the weights [parts, size].
void apply_each(const OpRunner& run, const Norm& norm, const TensorView& x);

// x [rows, n] as [rows, heads, n / heads].
TensorView head_view(const TensorView& x, int64_t heads);
// A float32 buffer as a vector; an empty view if the buffer is empty.
TensorView vector_view(const Buffer& buffer, int64_t size);

// A float32 buffer as a read-only matrix [rows, size] whose rows are all that buffer.
TensorView same_rows(const Buffer& buffer, int64_t rows, int64_t size);
// A float32 buffer [count] with the same value everywhere.
Buffer filled(int64_t count, float value);

// Keys and values are divided by these scales before an FP8 cache stores them (largest value 448).
struct KvScales {
  float keys = 1.0F;
  float values = 1.0F;
};

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
