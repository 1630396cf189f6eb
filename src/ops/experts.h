// Mixture of experts: routing, and the weighted sum of expert outputs.
#pragma once

#include <cstdint>
#include <span>

#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// How router logits become scores (scoring_func).
enum class ScoringFunc : uint8_t {
  kSoftmax,        // over all experts
  kSigmoid,        // per expert
  kSqrtSoftplus,   // per expert: sqrt(ln(1 + e^logit))
  kChosenSigmoid,  // the logits; weights are the sigmoids of the selected ones
  kChosenSoftmax,  // the logits; weights are a softmax over the selected ones
  kSparseMixer,    // the logits; a weight is the softmax over the remaining experts whose logit is near the
                   // selected one (PhiMoE)
};

// Which experts a row is routed to, and with what weights.
struct RouterParams {
  ScoringFunc scoring_func = ScoringFunc::kSoftmax;
  int32_t num_experts_per_tok = 1;                 // at most kMaxExperts
  const float* e_score_correction_bias = nullptr;  // [num_experts], used for selection only; or null
  // Experts form groups of equal size, of which the best `topk_group` take part. A group's
  // score is its best expert's, or the sum of its top 2.
  int32_t num_groups = 1;
  int32_t topk_group = 1;
  bool group_score_top2 = false;  // the sum of the top 2
  bool norm_topk_prob = false;    // weights are divided by their sum
  float routed_scaling_factor = 1.0F;
  bool hash_routing = false;  // RouteExperts::table has the experts of each token
  float near = 0.0F;  // kSparseMixer: the largest (best - logit) / max(|logit|, best) that counts as near
};
inline constexpr int64_t kMaxExperts = 1024;

namespace ops {

// Selects the experts of each row, best first; ties go to the lower id. With params.hash_routing, the experts
// are those of the row's token instead, and only the weights are computed.
struct RouteExperts {
  static constexpr const char* kName = "route_experts";
  std::span<int32_t> ids;  // [rows * num_experts_per_tok]
  TensorView weights;      // [rows, num_experts_per_tok]
  TensorView logits;       // [rows, num_experts]
  RouterParams params = {};
  std::span<const int32_t> tokens = {};  // [rows], in [0, vocab); params.hash_routing only
  std::span<const int32_t> table =
      {};  // [vocab * num_experts_per_tok]: tid2eid of DeepSeek-V4; params.hash_routing only
};
void check(const RouteExperts& op);
OpCost cost(const RouteExperts& op);
void run_reference(const OpContext& ctx, const RouteExperts& op);

// Groups the terms of a mixture of experts by expert. A term is a pair of a row and one of its experts;
// within an expert, rows ascend. A shared expert, which every row uses, adds a term with weight 1 to each
// row.
struct PermuteByExpert {
  static constexpr const char* kName = "permute_by_expert";
  std::span<const int32_t> ids;  // [rows * top_k]: the experts of each row, in [0, num_experts)
  TensorView weights;            // [rows, top_k], with a shared expert [rows, top_k + 1]; in place
  TensorView expert_scale = {};  // [num_experts], or null data: multiplies the weights of each expert
  // [rows * top_k, 1], or null data: gets the weights in permuted order, and 1 takes their place in `weights`
  // (apply_router_weight_on_input).
  TensorView input_weights = {};
  std::span<int32_t> offsets;        // [num_experts + 1]: the first term of each expert
  std::span<int32_t> permuted_rows;  // [rows * top_k]: the row of each term
  std::span<int32_t> positions;  // [elements of weights]: the index of each term in permuted order; those of
                                 // the shared expert follow all others
};
void check(const PermuteByExpert& op);
OpCost cost(const PermuteByExpert& op);
void run_reference(const OpContext& ctx, const PermuteByExpert& op);

// out[r, :] = (residual[r, :] +) sum over j of weights[r, j] * y[rows[r * k + j], :], in order of j.
struct CombineRows {
  static constexpr const char* kName = "combine_rows";
  TensorView out;                 // [num_rows, d]
  TensorView y;                   // [any, d]
  std::span<const int32_t> rows;  // [num_rows * k], rows of y
  TensorView weights;             // [num_rows, k]
  TensorView residual = {};       // as out, or null data; may be out
};
void check(const CombineRows& op);
OpCost cost(const CombineRows& op);
void run_reference(const OpContext& ctx, const CombineRows& op);

// The heads of a mixture of attention heads: a row has one for each of its top_k experts and each KV head,
// and attention expects those of a KV head next to each other. Copies, with e in [0, top_k),
//   rows[r, h * top_k + e, :] = terms[positions[r * top_k + e], h, :], or the other way round.
struct OrderHeads {
  static constexpr const char* kName = "order_heads";
  TensorView rows;                     // [rows, kv_heads * top_k, head_dim]
  TensorView terms;                    // [rows * top_k, kv_heads, head_dim]
  std::span<const int32_t> positions;  // [rows * top_k], as from PermuteByExpert
  bool to_terms = false;               // writes `terms`, not `rows`
};
void check(const OrderHeads& op);
OpCost cost(const OrderHeads& op);
void run_reference(const OpContext& ctx, const OrderHeads& op);

using ExpertOps = OpList<RouteExperts, PermuteByExpert, CombineRows, OrderHeads>;

}  // namespace ops
}  // namespace quire
