#include "nn/mlp.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/softplus.h"

namespace quire {
namespace {

// The quantile function of the standard normal distribution, by bisection.
double normal_quantile(double fraction) {
  double low = -40.0;
  double high = 40.0;
  constexpr int kSteps = 100;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    const double below = 0.5 * std::erfc(-middle / std::numbers::sqrt2);
    (below < fraction ? low : high) = middle;
  }
  return low;
}

XieluParams visit_xielu(ParamVisitor& visitor) {
  XieluParams params;
  const auto number = [&](ParamId id, bool optional, float value) {
    ParamSpec spec = replicated(id, 1);
    spec.optional = optional;
    visitor.scalar(spec, value);
    return value;
  };
  params.slope = number(mlp::kBeta, true, params.slope);
  params.limit = number(mlp::kEps, true, params.limit);
  // alpha_p and alpha_n are stored before softplus.
  params.positive = softplus(number(mlp::kAlphaP, false, 0.0F));
  params.negative = params.slope + softplus(number(mlp::kAlphaN, false, 0.0F));
  return params;
}

}  // namespace

void activate_gated(const OpRunner& run, const Mlp& mlp, const TensorView& up, const TensorView& act) {
  const MlpSpec& spec = mlp.spec;
  const TensorView gates = column_slice(up, 0, spec.intermediate_size);
  const TensorView ups = column_slice(up, spec.intermediate_size, 2 * spec.intermediate_size);
  if (spec.gate_multiplier != 1.0F) run(ops::ScaleSoftcap{.x = gates, .scale = spec.gate_multiplier});
  if (spec.activation_sparsity > 0.0)
    run(ops::GaussianTopk{.x = gates, .std_multiplier = mlp.activation_sparsity_std});
  if (spec.limit == 0.0F)
    return run(ops::GatedActivation{.out = act, .gate_up = up, .activation = spec.activation});
  if (!spec.limit_first) run(ops::Activate{.x = gates, .activation = spec.activation});
  run(ops::Clamp{.x = gates, .low = -std::numeric_limits<float>::infinity(), .high = spec.limit});
  run(ops::Clamp{.x = ups, .low = -spec.limit, .high = spec.limit});
  run(ops::Gate{.out = act,
                .x = ups,
                .gate = gates,
                .activation = spec.limit_first ? spec.activation : Activation::kNone});
}

void apply(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
           const TensorView& residual, const TensorView& up, const TensorView& act) {
  const bool gated = mlp.up.weight.gate.has_value();
  if (gated && apply_changed(run, mlp.up, up, x)) {
    activate_gated(run, mlp, up, act);
  } else {
    apply(run, mlp.up, gated ? act : up, x);
  }
  finish(run, mlp, out, residual, up, act);
}

TensorView activate(const OpRunner& run, const Mlp& mlp, const TensorView& up, const TensorView& act) {
  const MlpSpec& spec = mlp.spec;
  if (spec.gated) {
    if (!mlp.up.weight.gate) activate_gated(run, mlp, up, act);
  } else if (spec.xielu) {
    run(ops::Xielu{.x = up, .params = mlp.xielu});
  } else {
    run(ops::Activate{.x = up, .activation = spec.activation});
  }
  const TensorView& inner = spec.gated ? act : up;
  if (mlp.sub_norm) apply(run, *mlp.sub_norm, inner, inner);
  return inner;
}

void finish(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& residual,
            const TensorView& up, const TensorView& act) {
  apply(run, mlp.down, out, activate(run, mlp, up, act), residual);
}

void visit(const MlpSpec& spec, const MlpParams& params, const InputSpec& x, ParamVisitor& visitor,
           Mlp& mlp) {
  mlp.spec = spec;
  const auto project = [&](ParamId id) {
    return with_bias(after_norm(column_parallel(id, spec.intermediate_size, x.size), x.norm), spec.bias);
  };
  MatrixSpec up{.label = params.up_label, .fused = {project(params.up_proj)}};
  if (spec.gated) up.fused.insert(up.fused.begin(), project(params.gate_proj));
  visitor.matrix(up, mlp.up);
  ParamSpec down = row_parallel(params.down_proj, x.output_size(), spec.intermediate_size);
  down.bias = spec.bias || spec.down_bias;
  // Limits, clamped activations and norms do not scale with their input.
  const bool scales =
      spec.gated && spec.limit == 0.0F && !spec.sub_norm && spec.activation != Activation::kClampedSwish;
  if (params.move_scales && scales) down.input_proj = params.up_proj;
  visit_matrix(visitor, params.down_label, down, mlp.down);
  if (spec.sub_norm)
    visit_norm(visitor, mlp::kSubNorm, *spec.sub_norm, spec.intermediate_size, mlp.sub_norm.emplace());
  if (spec.activation_sparsity > 0.0)
    mlp.activation_sparsity_std = static_cast<float>(normal_quantile(spec.activation_sparsity));
  if (spec.xielu) mlp.xielu = visit_xielu(visitor);
  const bool plain_gates =
      spec.gate_multiplier == 1.0F && spec.activation_sparsity == 0.0 && spec.limit == 0.0F;
  if (params.fuse_gate && spec.gated && plain_gates && mlp.up.more.empty() && can_gate(mlp.up.weight))
    mlp.up.weight.gate = spec.activation;
}

}  // namespace quire
