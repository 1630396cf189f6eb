// Ops that compute each row independently: norms, RoPE, activations, sums.
#pragma once

#include <cstdint>
#include <span>

#include "ops/linear.h"
#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// The xIELU activation (arXiv 2411.13010): positive x^2 + slope x for x > 0, otherwise
// negative (e^min(x, limit) - 1 - x) + slope x.
struct XieluParams {
  float positive = 0.0F;
  float negative = 0.0F;
  float slope = 0.5F;
  float limit = -1e-6F;
};

enum class RopeStyle : uint8_t {
  kNeox,         // NeoX style: dimension i is rotated with i + rotary_dim / 2
  kInterleaved,  // GPT-J style: dimension 2i is rotated with 2i + 1
};

namespace ops {

// out = x / sqrt(mean(x^2) + eps) * (weight + weight_offset) over the last dimension.
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  TensorView out;     // as x; may be x
  TensorView x;       // [rows, d] or [rows, heads, d]
  TensorView weight;  // [d]
  float eps = 1e-6F;
  float weight_offset = 0.0F;
};
void check(const RmsNorm& op);
OpCost cost(const RmsNorm& op);
void run_reference(const OpContext& ctx, const RmsNorm& op);

// out = (x - mean) / sqrt(var + eps) * weight + bias over the last dimension.
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  TensorView out;        // as x; may be x
  TensorView x;          // [rows, d] or [rows, heads, d]
  TensorView weight;     // [d]
  TensorView bias = {};  // [d], or null data
  float eps = 1e-5F;
};
void check(const LayerNorm& op);
OpCost cost(const LayerNorm& op);
void run_reference(const OpContext& ctx, const LayerNorm& op);

// Rotates the first rotary_dim dimensions of each head, in place.
struct Rope {
  static constexpr const char* kName = "rope";
  TensorView x;                        // [rows, heads, head_dim]
  std::span<const int32_t> positions;  // [rows], in [0, max_positions)
  // [max_positions, rotary_dim]: rotary_dim / 2 cosines, then as many sines, times the attention factor
  TensorView cos_sin;
  RopeStyle style = RopeStyle::kNeox;
};
void check(const Rope& op);
OpCost cost(const Rope& op);
void run_reference(const OpContext& ctx, const Rope& op);

// out[r, i] = activation(gate_up[r, i]) * gate_up[r, d + i].
struct GatedActivation {
  static constexpr const char* kName = "gated_activation";
  TensorView out;      // [rows, d]
  TensorView gate_up;  // [rows, 2 d]
  Activation activation = Activation::kSilu;
};
void check(const GatedActivation& op);
OpCost cost(const GatedActivation& op);
void run_reference(const OpContext& ctx, const GatedActivation& op);

// out = activation(gate) * x. A gate with fewer columns than x applies each of its values to d / heads
// columns.
struct Gate {
  static constexpr const char* kName = "gate";
  TensorView out;   // [rows, d]; may be x, or gate if that has d columns
  TensorView x;     // [rows, d]
  TensorView gate;  // [rows, d] or [rows, heads]; rows may share memory (row_stride 0)
  Activation activation = Activation::kNone;
};
void check(const Gate& op);
OpCost cost(const Gate& op);
void run_reference(const OpContext& ctx, const Gate& op);

// x = activation(x), in place.
struct Activate {
  static constexpr const char* kName = "activate";
  TensorView x;  // [rows, d]
  Activation activation = Activation::kSilu;
};
void check(const Activate& op);
OpCost cost(const Activate& op);
void run_reference(const OpContext& ctx, const Activate& op);

// x = xIELU(x), in place.
struct Xielu {
  static constexpr const char* kName = "xielu";
  TensorView x;  // [rows, d]
  XieluParams params = {};
};
void check(const Xielu& op);
OpCost cost(const Xielu& op);
void run_reference(const OpContext& ctx, const Xielu& op);

// Gaussian top-k (Gemma 3n): x = max(0, x - (mean + std_multiplier * standard deviation)) in each row, in
// place.
struct GaussianTopk {
  static constexpr const char* kName = "gaussian_topk";
  TensorView x;  // [rows, d]
  float std_multiplier = 0.0F;
};
void check(const GaussianTopk& op);
OpCost cost(const GaussianTopk& op);
void run_reference(const OpContext& ctx, const GaussianTopk& op);

// x = min(high, max(low, x)), in place.
struct Clamp {
  static constexpr const char* kName = "clamp";
  TensorView x;  // [rows, d]
  float low = 0.0F;
  float high = 0.0F;
};
void check(const Clamp& op);
OpCost cost(const Clamp& op);
void run_reference(const OpContext& ctx, const Clamp& op);

// x *= sqrt(mean(target^2) / max(mean(x^2), min_mean_square)) in each row, in place: gives x the magnitude of
// target.
struct MatchRms {
  static constexpr const char* kName = "match_rms";
  TensorView x;       // [rows, d]
  TensorView target;  // [rows, d]; rows may share memory (row_stride 0)
  float min_mean_square = 0.0F;
};
void check(const MatchRms& op);
OpCost cost(const MatchRms& op);
void run_reference(const OpContext& ctx, const MatchRms& op);

// x += y.
struct Add {
  static constexpr const char* kName = "add";
  TensorView x;  // [rows, d]
  TensorView y;  // [rows, d]; rows may share memory (row_stride 0)
};
void check(const Add& op);
OpCost cost(const Add& op);
void run_reference(const OpContext& ctx, const Add& op);

// out[i, :] = x[rows[i], :].
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  TensorView out;                 // [rows.size(), d]
  TensorView x;                   // [any, d]
  std::span<const int32_t> rows;  // in [0, rows of x)
};
void check(const GatherRows& op);
OpCost cost(const GatherRows& op);
void run_reference(const OpContext& ctx, const GatherRows& op);

// x *= scale, then x = cap * tanh(x / cap) if cap > 0, in place.
struct ScaleSoftcap {
  static constexpr const char* kName = "scale_softcap";
  TensorView x;  // [rows, d]
  float scale = 1.0F;
  float cap = 0.0F;  // 0 = no soft cap
};
void check(const ScaleSoftcap& op);
OpCost cost(const ScaleSoftcap& op);
void run_reference(const OpContext& ctx, const ScaleSoftcap& op);

using RowOps = OpList<RmsNorm, LayerNorm, Rope, GatedActivation, Gate, Activate, Xielu, GaussianTopk, Clamp,
                      MatchRms, Add, GatherRows, ScaleSoftcap>;

}  // namespace ops
}  // namespace quire
