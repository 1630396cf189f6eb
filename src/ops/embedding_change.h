// Changes of low rank to looked-up rows: what a LoRA adapter adds to an embedding.
#pragma once

#include <cstdint>
#include <span>

#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// The change to an embedding [vocab_size, size]: scale · A B is added to it. Owned by an adapter. Read-only
// after load.
struct EmbeddingChange {
  int64_t vocab_size = 0;
  int64_t size = 0;
  int64_t rank = 0;
  float scale = 1.0F;
  DType dtype = DType::kF32;  // type of a and b: float32, bfloat16 or float16
  Buffer a;                   // [vocab_size, rank]
  Buffer b;                   // [rank, size]
};

// The rows of a step whose embeddings one adapter changes.
struct EmbeddingGroup {
  const EmbeddingChange* change = nullptr;
  std::span<const int32_t> rows;  // ascending
};

namespace ops {

// For the rows r of each group, with i = r - first_row:
//   out[i, n] += Σ_j (scale · a[ids[i], j]) b[j, n]
// in float32, j in ascending order, out updated once.
struct AddEmbeddingChanges {
  static constexpr const char* kName = "add_embedding_changes";
  TensorView out;                          // [rows, size]
  std::span<const int32_t> ids;            // [rows]
  std::span<const EmbeddingGroup> groups;  // no row is in two of them
  int64_t first_row = 0;
};
void check(const AddEmbeddingChanges& op);
OpCost cost(const AddEmbeddingChanges& op);
void run_reference(const OpContext& ctx, const AddEmbeddingChanges& op);

using EmbeddingChangeOps = OpList<AddEmbeddingChanges>;

}  // namespace ops
}  // namespace quire
