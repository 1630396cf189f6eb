// The ops of the plain table that work on each row by itself, and the table.
#include <algorithm>
#include <cmath>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/softplus.h"
#include "quant/codec.h"

namespace quire {
namespace reference {

void rms_norm(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& weight,
              float eps, float weight_offset) {
  const int64_t d = weight.shape[0];
  const int64_t heads = x.row_size() / d;
  const float* w = weight.as<float>();
  parallel_ranges(ctx, x.rows(), row_grain(x.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * heads; i < end * heads; ++i) {
      const float* in = x.row<float>(i / heads) + (i % heads) * d;
      float* result = out.row<float>(i / heads) + (i % heads) * d;
      float sum = 0;
      for (int64_t j = 0; j < d; ++j) sum += in[j] * in[j];
      const float scale = 1.0F / std::sqrt(sum / static_cast<float>(d) + eps);
      for (int64_t j = 0; j < d; ++j) result[j] = in[j] * scale * (w[j] + weight_offset);
    }
  });
}

void layer_norm(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& weight,
                const TensorView& bias, float eps) {
  const int64_t d = weight.shape[0];
  const int64_t heads = x.row_size() / d;
  const float* w = weight.as<float>();
  const float* b = bias.as<float>();
  parallel_ranges(ctx, x.rows(), row_grain(x.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * heads; i < end * heads; ++i) {
      const float* in = x.row<float>(i / heads) + (i % heads) * d;
      float* result = out.row<float>(i / heads) + (i % heads) * d;
      float sum = 0;
      for (int64_t j = 0; j < d; ++j) sum += in[j];
      const float mean = sum / static_cast<float>(d);
      float squares = 0;
      for (int64_t j = 0; j < d; ++j) squares += (in[j] - mean) * (in[j] - mean);
      const float scale = 1.0F / std::sqrt(squares / static_cast<float>(d) + eps);
      for (int64_t j = 0; j < d; ++j) {
        const float value = (in[j] - mean) * scale * w[j];
        result[j] = b == nullptr ? value : value + b[j];
      }
    }
  });
}

void rope(const OpContext& ctx, const TensorView& x, std::span<const int32_t> positions,
          const TensorView& cos_sin, RopeStyle style) {
  const int64_t heads = x.shape[1];
  const int64_t d = x.shape[2];
  const int64_t half = cos_sin.shape[1] / 2;
  parallel_ranges(ctx, x.rows(), row_grain(heads * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* cosine = cos_sin.row<float>(positions[static_cast<size_t>(r)]);
      const float* sine = cosine + half;
      for (int64_t h = 0; h < heads; ++h) {
        float* head = x.row<float>(r) + h * d;
        for (int64_t i = 0; i < half; ++i) {
          float& a = style == RopeStyle::kHalves ? head[i] : head[2 * i];
          float& b = style == RopeStyle::kHalves ? head[i + half] : head[2 * i + 1];
          const float turned = a * cosine[i] - b * sine[i];
          b = b * cosine[i] + a * sine[i];
          a = turned;
        }
      }
    }
  });
}

float activate(float x, Activation act) {
  switch (act) {
    case Activation::kSilu:
      return x / (1.0F + std::exp(-x));
    case Activation::kGelu:
      return 0.5F * x * std::erfc(-x * 0.70710678118654752F);
    case Activation::kGeluTanh:
      return 0.5F * x * (1.0F + std::tanh(0.79788456080286536F * (x + 0.044715F * x * x * x)));
    case Activation::kRelu:
      return x < 0.0F ? 0.0F : x;
    case Activation::kReluSquared:
      return x < 0.0F ? 0.0F : x * x;
    case Activation::kSigmoid:
      return 1.0F / (1.0F + std::exp(-x));
    case Activation::kSoftplus:
      return softplus(x);
    case Activation::kNone:
      return x;
    case Activation::kClampedSwish: {
      const float gate = x > 7.0F ? 7.0F : x;
      return gate / (1.0F + std::exp(-1.702F * gate));
    }
  }
  return x;
}

float activate_gate(float gate, float up, Activation act) {
  if (act != Activation::kClampedSwish) return activate(gate, act) * up;
  return activate(gate, act) * ((up > 7.0F ? 7.0F : up < -7.0F ? -7.0F : up) + 1.0F);
}

void gated_activation(const OpContext& ctx, const TensorView& out, const TensorView& gate_up,
                      Activation act) {
  const int64_t d = out.row_size();
  parallel_ranges(ctx, out.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* gate = gate_up.row<float>(r);
      float* result = out.row<float>(r);
      for (int64_t i = 0; i < d; ++i) result[i] = activate_gate(gate[i], gate[d + i], act);
    }
  });
}

void activation(const OpContext& ctx, const TensorView& x, Activation act) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) row[i] = activate(row[i], act);
    }
  });
}

void xielu(const OpContext& ctx, const TensorView& x, const XieluParams& params) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) {
        const float v = row[i];
        const float curve = v > 0.0F ? params.positive * v * v
                                     : params.negative * (std::expm1(std::min(v, params.limit)) - v);
        row[i] = curve + params.slope * v;
      }
    }
  });
}

void clamp(const OpContext& ctx, const TensorView& x, float low, float high) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(2 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) row[i] = std::min(high, std::max(low, row[i]));
    }
  });
}

void relu_above(const OpContext& ctx, const TensorView& x, float deviations) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      float sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += row[i];
      const float mean = sum / static_cast<float>(d);
      float squares = 0;
      for (int64_t i = 0; i < d; ++i) squares += (row[i] - mean) * (row[i] - mean);
      const float least = mean + deviations * std::sqrt(squares / static_cast<float>(d));
      for (int64_t i = 0; i < d; ++i) row[i] = std::max(0.0F, row[i] - least);
    }
  });
}

void match_rms(const OpContext& ctx, const TensorView& x, const TensorView& like, float least) {
  const int64_t d = x.row_size();
  const auto mean_square = [d](const float* row) {
    float sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += row[i] * row[i];
    return sum / static_cast<float>(d);
  };
  parallel_ranges(ctx, x.rows(), row_grain(3 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      const float wanted = mean_square(like.row<float>(r));
      const float scale = std::sqrt(wanted / std::max(mean_square(row), least));
      for (int64_t i = 0; i < d; ++i) row[i] *= scale;
    }
  });
}

void add(const OpContext& ctx, const TensorView& x, const TensorView& y) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* to = x.row<float>(r);
      const float* from = y.row<float>(r);
      for (int64_t i = 0; i < d; ++i) to[i] += from[i];
    }
  });
}

void gather_rows(const OpContext& ctx, const TensorView& out, const TensorView& x,
                 std::span<const int32_t> rows) {
  const int64_t d = out.row_size();
  parallel_ranges(ctx, static_cast<int64_t>(rows.size()), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      std::copy_n(x.row<float>(rows[static_cast<size_t>(r)]), d, out.row<float>(r));
    }
  });
}

void scale_softcap(const OpContext& ctx, const TensorView& x, float scale, float cap) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) {
        row[i] *= scale;
        if (cap > 0.0F) row[i] = cap * std::tanh(row[i] / cap);
      }
    }
  });
}

}  // namespace reference

const OpTable& reference_ops() {
  static const OpTable table = {
      .name = "reference",
      .workspace_bytes = reference::workspace_bytes,
      .keeps_two_of_four = [](DType, int64_t) { return false; },
      .packed_bytes = packed_bytes,
      .pack_linear = reference::pack_linear,
      .pack_coded = reference::pack_coded,
      .linear = reference::linear,
      .embedding = reference::embedding,
      .embedding_packed = reference::embedding_packed,
      .rms_norm = reference::rms_norm,
      .layer_norm = reference::layer_norm,
      .rope = reference::rope,
      .kv_write = reference::kv_write,
      .paged_attention = reference::paged_attention,
      .choose_keys = reference::choose_keys,
      .choose_blocks = reference::choose_blocks,
      .relative_attention = reference::relative_attention,
      .gated_activation = reference::gated_activation,
      .activation = reference::activation,
      .xielu = reference::xielu,
      .relu_above = reference::relu_above,
      .clamp = reference::clamp,
      .match_rms = reference::match_rms,
      .add = reference::add,
      .gather_rows = reference::gather_rows,
      .scale_softcap = reference::scale_softcap,
      .route_experts = reference::route_experts,
      .combine_rows = reference::combine_rows,
      .stream_shares = reference::stream_shares,
      .gate = reference::gate,
      .decay_gates = reference::decay_gates,
      .causal_conv = reference::causal_conv,
      .ssm_scan = reference::ssm_scan,
      .selective_scan = reference::selective_scan,
      .delta_rule = reference::delta_rule,
      .compress = reference::compress,
  };
  return table;
}

}  // namespace quire
