// Tokens whose embeddings an adapter replaces, as inputs and as outputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// Rows of an embedding that are replaced. Owned by an adapter. Read-only after load.
struct TrainedTokens {
  int64_t size = 0;           // elements of a row
  DType dtype = DType::kF32;  // type of the values: float32, bfloat16 or float16
  std::vector<int32_t> ids;   // ascending
  Buffer values;              // [ids, size]
};

// The rows of a step that use the tokens of one adapter.
struct TrainedTokensGroup {
  const TrainedTokens* tokens = nullptr;
  std::span<const int32_t> rows;  // ascending
};

namespace ops {

// For the rows r of each group, with i = r - first_row: out[i, :] = the values of token ids[i], if the group
// has it.
struct ReplaceEmbeddings {
  static constexpr const char* kName = "replace_embeddings";
  TensorView out;                              // [rows, size]
  std::span<const int32_t> ids;                // [rows]
  std::span<const TrainedTokensGroup> groups;  // no row is in two of them
  int64_t first_row = 0;
};
void check(const ReplaceEmbeddings& op);
OpCost cost(const ReplaceEmbeddings& op);
void run_reference(const OpContext& ctx, const ReplaceEmbeddings& op);

// For the rows r of each group and its tokens t, with i = r - first_row: out[i, t] = x[i, :] · the values of
// t, in float32, with sixteen partial sums.
struct ReplaceOutputs {
  static constexpr const char* kName = "replace_outputs";
  TensorView out;                              // [rows, vocabulary]
  TensorView x;                                // [rows, size]
  std::span<const TrainedTokensGroup> groups;  // no row is in two of them
  int64_t first_row = 0;
};
void check(const ReplaceOutputs& op);
OpCost cost(const ReplaceOutputs& op);
void run_reference(const OpContext& ctx, const ReplaceOutputs& op);

using TrainedTokenOps = OpList<ReplaceEmbeddings, ReplaceOutputs>;

}  // namespace ops
}  // namespace quire
