#include "nn/attention_params.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

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

void visit_qk_norms(const AttentionSpec& spec, ParamVisitor& visitor, Attention& attention) {
  attention.qk_norm = spec.qk_norm;
  attention.norm_after_rope = spec.qk_norm_after_rope;
  if (spec.qk_norm == QkNorm::kNone) return;
  const auto visit_one = [&](ParamId id, int32_t heads, std::optional<Norm>& result) {
    const int64_t all = int64_t{heads} * spec.head_dim;
    result = make_norm(spec.qk_norm_spec, spec.qk_norm == QkNorm::kFullProjection ? all : spec.head_dim);
    ParamSpec param = with_bias(replicated(id, result->size), spec.qk_norm_spec.bias);
    if (spec.qk_norm == QkNorm::kPerHeadWeights) param.out = all;
    if (spec.qk_norm == QkNorm::kPerHeadWeights) param.pieces = heads;
    if (spec.qk_norm_weights) return visit_norm(visitor, param, *result);
    *result = unit_norm(spec.head_dim, spec.qk_norm_spec.eps);
  };
  visit_one(attention::kQNorm, spec.num_heads, attention.q_norm);
  if (spec.kv_sharing_layer < 0) visit_one(attention::kKNorm, spec.num_kv_heads, attention.k_norm);
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

KvShape kv_shape(const AttentionSpec& spec) {
  return {spec.num_kv_heads, spec.head_dim, spec.value_dim, spec.num_heads};
}

int64_t kv_bytes(const AttentionSpec& spec, DType dtype, int32_t block_size) {
  if (spec.kv_sharing_layer >= 0) return 0;
  const int64_t own = kv_bytes_per_block(dtype, block_size, spec.num_kv_heads, spec.head_dim, spec.value_dim);
  return spec.indexer ? own + kv_part_bytes(dtype, block_size, 1, spec.indexer->dim) : own;
}

void visit_norm(ParamVisitor& visitor, ParamSpec spec, Norm& norm) {
  if (spec.out == 0) spec.out = norm.size;
  if (!spec.fill) spec.fill = 1.0F - norm.weight_offset;
  VectorSpec vector{.fused = {std::move(spec)}};
  if (norm.kind == NormKind::kLayer && norm.weight_offset != 0.0F) {
    vector.transform = [offset = norm.weight_offset](Buffer stored) {
      const auto count = static_cast<int64_t>(stored.size() / sizeof(float));
      for (int64_t i = 0; i < count; ++i) stored.as<float>()[i] += offset;
      return stored;
    };
  }
  visitor.vector(vector, norm.weight, &norm.bias);
}

Norm make_norm(const NormSpec& spec, int64_t size) {
  return {.kind = spec.kind, .eps = spec.eps, .weight_offset = spec.weight_offset, .size = size};
}

void visit_norm(ParamVisitor& visitor, ParamId id, const NormSpec& spec, int64_t size, Norm& norm) {
  norm = make_norm(spec, size);
  visit_norm(visitor, with_bias(replicated(id, size), spec.bias), norm);
}

Norm unit_norm(int64_t size, float eps) {
  Norm norm;
  norm.eps = eps;
  norm.size = size;
  norm.weight = Buffer(static_cast<size_t>(size) * sizeof(float));
  std::fill_n(norm.weight.as<float>(), size, 1.0F);
  return norm;
}

void visit(const AttentionSpec& spec, const InputSpec& x, ParamVisitor& visitor, Attention& attention) {
  const bool own_kv = spec.kv_sharing_layer < 0;
  const auto project = [&](ParamId id, int32_t heads, int64_t dim) {
    return with_bias(after_norm(column_parallel(id, heads * dim, x.size, dim), x.norm), spec.qkv_bias);
  };
  MatrixSpec qkv{.label = "qkv", .fused = {project(attention::kQProj, spec.num_heads, spec.head_dim)}};
  if (spec.num_gates > 0) {
    const int64_t per_head = spec.num_gates / spec.num_heads;
    qkv.fused.push_back(with_bias(project(attention::kOutputGate, spec.num_heads, per_head), false));
  }
  if (own_kv) {
    const ParamSpec k = project(attention::kKProj, spec.num_kv_heads, spec.head_dim);
    qkv.fused.push_back(k);
    qkv.fused.push_back(spec.k_eq_v ? k : project(attention::kVProj, spec.num_kv_heads, spec.value_dim));
  }
  visitor.matrix(qkv, attention.qkv);

  ParamSpec o = row_parallel(attention::kOProj, x.output_size(), int64_t{spec.num_heads} * spec.value_dim,
                             spec.value_dim);
  o.bias = spec.o_bias;
  const bool plain_values = spec.num_kv_heads == spec.num_heads && !spec.k_eq_v && !spec.v_norm_eps;
  if (plain_values && !spec.sub_norm) o.input_proj = attention::kVProj;
  visit_matrix(visitor, "attention out", o, attention.out);

  visit_qk_norms(spec, visitor, attention);
  if (spec.sub_norm)
    visit_norm(visitor, attention::kSubNorm, *spec.sub_norm, spec.q_size(), attention.sub_norm.emplace());
  if (spec.v_norm_eps && own_kv) attention.v_norm = unit_norm(spec.head_dim, *spec.v_norm_eps);
  attention.shares_cache = !own_kv;
  attention.clip_qkv = spec.clip_qkv;
  attention.gates = spec.num_gates;
  attention.gate_activation = spec.gate_activation;
  attention.params = spec.params;
  if (spec.sinks) {
    visit_vector(visitor, replicated(attention::kSinks, spec.num_heads), attention.sinks);
    attention.params.sinks = attention.sinks.as<float>();
  }
  visitor.kv_scales(own_kv ? x.layer : spec.kv_sharing_layer, attention.kv_scales);
  attention.num_heads = spec.num_heads;
  attention.num_kv_heads = spec.num_kv_heads;
  attention.head_dim = spec.head_dim;
  attention.value_dim = spec.value_dim;
}

void visit(const MlpSpec& spec, const MlpParams& params, const InputSpec& x, ParamVisitor& visitor,
           Mlp& mlp) {
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

  mlp.activation = spec.activation;
  mlp.gated = spec.gated;
  mlp.intermediate = spec.intermediate_size;
  if (spec.sub_norm)
    visit_norm(visitor, mlp::kSubNorm, *spec.sub_norm, spec.intermediate_size, mlp.sub_norm.emplace());
  mlp.gate_multiplier = spec.gate_multiplier;
  mlp.limit = spec.limit;
  mlp.limit_first = spec.limit_first;
  if (spec.activation_sparsity > 0.0)
    mlp.activation_sparsity_std = static_cast<float>(normal_quantile(spec.activation_sparsity));
  if (spec.xielu) mlp.xielu = visit_xielu(visitor);
}

}  // namespace quire
