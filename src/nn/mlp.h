// Feed-forward layers and experts. Gated: down(act(gate(x)) * up(x)); plain: down(act(up(x))).
#pragma once

#include <optional>
#include <string_view>

#include "nn/mlp_spec.h"
#include "nn/params.h"

namespace quire {

// Weights are read-only after load.
struct Mlp {
  MlpSpec spec;
  Linear up;    // gated: [2 intermediate, hidden], gates first; plain: [intermediate, hidden]
  Linear down;  // [hidden, intermediate]
  std::optional<Norm> sub_norm;  // before the down projection
  XieluParams xielu;             // if spec.xielu
  // With spec.activation_sparsity. Gaussian top-k: gates become max(0, gate - (mean + this * standard
  // deviation)) over their row.
  float activation_sparsity_std = 0.0F;
};
// out = mlp(x) (+ residual, which may be out). out may be x. Scratch: up [rows, up_size()], act [rows,
// intermediate], not used if the MLP is plain.
void apply(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
           const TensorView& residual, const TensorView& up, const TensorView& act);
// Same as apply, if `up` already holds the product with mlp.up, or `act` that product with the activation
// applied.
void finish(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& residual,
            const TensorView& up, const TensorView& act);

// The input of the down projection: `up` with the activation and the norm applied. With a fused gate, `act`
// already holds the activation. Returns act, or up if the MLP is plain.
TensorView activate(const OpRunner& run, const Mlp& mlp, const TensorView& up, const TensorView& act);

// The activation of a gated MLP on its own: act = act(gates) * ups. up [rows, 2 intermediate] is overwritten.
void activate_gated(const OpRunner& run, const Mlp& mlp, const TensorView& up, const TensorView& act);

// Names and labels of the matrices: a dense MLP, an expert and a shared expert differ in nothing else.
struct MlpParams {
  ParamId gate_proj = mlp::kGateProj;
  ParamId up_proj = mlp::kUpProj;
  ParamId down_proj = mlp::kDownProj;
  std::string_view up_label = "mlp up";
  std::string_view down_label = "mlp down";
  bool move_scales = true;  // AWQ may move scales between up_proj and down_proj
  bool fuse_gate = true;    // the activation moves into the product with `up`, if that is possible
};
void visit(const MlpSpec& spec, const MlpParams& params, const InputSpec& x, ParamVisitor& visitor, Mlp& mlp);

}  // namespace quire
