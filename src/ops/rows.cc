// Shape checks, costs and reference implementations of the ops that compute each row independently.
#include "ops/rows.h"

#include <algorithm>
#include <cmath>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/shape_check.h"
#include "ops/softplus.h"
#include "quant/codec.h"

namespace quire {
namespace {

void require_norm(const char* op, const TensorView& out, const TensorView& x, const TensorView& weight,
                  const TensorView& bias) {
  const ShapeCheck shapes(op, {{"out", &out}, {"x", &x}, {"weight", &weight}, {"bias", &bias}});
  shapes.require_f32({&out, &x, &weight});
  shapes.require(weight.shape.rank() == 1 && weight.shape[0] > 0 && x.shape.rank() > 1 &&
                     x.shape[x.shape.rank() - 1] == weight.shape[0],
                 "weight must have x's last dimension");
  shapes.require(out.shape == x.shape, "out must have x's shape");
  shapes.require(bias.data == nullptr || bias.shape == weight.shape, "bias must have the weight's shape");
}

void require_in_place(const char* op, const TensorView& x) {
  const ShapeCheck shapes(op, {{"x", &x}});
  shapes.require_f32({&x});
  shapes.require(x.shape.rank() >= 2, "x must have rows and columns");
}

void require_same_shape(const char* op, const TensorView& x, const char* name, const TensorView& other) {
  const ShapeCheck shapes(op, {{"x", &x}, {name, &other}});
  shapes.require_f32({&x, &other}, {&other});
  shapes.require(x.rows() == other.rows() && x.row_size() == other.row_size(),
                 "both operands must have the same shape");
}

}  // namespace

namespace ops {

void check(const RmsNorm& op) {
  require_norm(op.kName, op.out, op.x, op.weight, {});
}

OpCost cost(const RmsNorm& op) {
  return elementwise_cost("norm", op.x, 2, 4);
}

void run_reference(const OpContext& ctx, const RmsNorm& op) {
  const int64_t d = op.weight.shape[0];
  const int64_t heads = op.x.row_size() / d;
  const float* w = op.weight.as<float>();
  parallel_ranges(ctx, op.x.rows(), row_grain(op.x.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * heads; i < end * heads; ++i) {
      const float* in = op.x.row<float>(i / heads) + (i % heads) * d;
      float* result = op.out.row<float>(i / heads) + (i % heads) * d;
      float sum = 0;
      for (int64_t j = 0; j < d; ++j) sum += in[j] * in[j];
      const float scale = 1.0F / std::sqrt(sum / static_cast<float>(d) + op.eps);
      for (int64_t j = 0; j < d; ++j) result[j] = in[j] * scale * (w[j] + op.weight_offset);
    }
  });
}

void check(const LayerNorm& op) {
  require_norm(op.kName, op.out, op.x, op.weight, op.bias);
}

OpCost cost(const LayerNorm& op) {
  return elementwise_cost("norm", op.x, 2, 8);
}

void run_reference(const OpContext& ctx, const LayerNorm& op) {
  const int64_t d = op.weight.shape[0];
  const int64_t heads = op.x.row_size() / d;
  const float* w = op.weight.as<float>();
  const float* b = op.bias.as<float>();
  parallel_ranges(ctx, op.x.rows(), row_grain(op.x.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * heads; i < end * heads; ++i) {
      const float* in = op.x.row<float>(i / heads) + (i % heads) * d;
      float* result = op.out.row<float>(i / heads) + (i % heads) * d;
      float sum = 0;
      for (int64_t j = 0; j < d; ++j) sum += in[j];
      const float mean = sum / static_cast<float>(d);
      float squares = 0;
      for (int64_t j = 0; j < d; ++j) squares += (in[j] - mean) * (in[j] - mean);
      const float scale = 1.0F / std::sqrt(squares / static_cast<float>(d) + op.eps);
      for (int64_t j = 0; j < d; ++j) {
        const float value = (in[j] - mean) * scale * w[j];
        result[j] = b == nullptr ? value : value + b[j];
      }
    }
  });
}

void check(const Rope& op) {
  const ShapeCheck shapes(op.kName, {{"x", &op.x}, {"cos_sin", &op.cos_sin}});
  shapes.require_f32({&op.x, &op.cos_sin});
  shapes.require(op.x.shape.rank() == 3 && op.cos_sin.shape.rank() == 2,
                 "x must be [rows, heads, head_dim] and cos_sin [positions, rotary_dim]");
  shapes.require(op.cos_sin.shape[1] % 2 == 0 && op.cos_sin.shape[1] <= op.x.shape[2],
                 "rotary_dim must be even and at most head_dim");
  shapes.require(static_cast<int64_t>(op.positions.size()) == op.x.rows(), "each row needs one position",
                 "positions [", op.positions.size(), "]");
  shapes.require_indices("position", op.positions, op.cos_sin.rows());
}

OpCost cost(const Rope& op) {
  return elementwise_cost("rope", op.x, 2, 3);
}

void run_reference(const OpContext& ctx, const Rope& op) {
  const int64_t heads = op.x.shape[1];
  const int64_t d = op.x.shape[2];
  const int64_t half = op.cos_sin.shape[1] / 2;
  parallel_ranges(ctx, op.x.rows(), row_grain(heads * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* cosine = op.cos_sin.row<float>(op.positions[static_cast<size_t>(r)]);
      const float* sine = cosine + half;
      for (int64_t h = 0; h < heads; ++h) {
        float* head = op.x.row<float>(r) + h * d;
        for (int64_t i = 0; i < half; ++i) {
          float& a = op.style == RopeStyle::kNeox ? head[i] : head[2 * i];
          float& b = op.style == RopeStyle::kNeox ? head[i + half] : head[2 * i + 1];
          const float rotated = a * cosine[i] - b * sine[i];
          b = b * cosine[i] + a * sine[i];
          a = rotated;
        }
      }
    }
  });
}

void check(const GatedActivation& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"gate_up", &op.gate_up}});
  shapes.require_f32({&op.out, &op.gate_up});
  shapes.require(op.out.rows() == op.gate_up.rows() && op.gate_up.row_size() == 2 * op.out.row_size(),
                 "gate_up must have out's rows and twice its columns");
}

OpCost cost(const GatedActivation& op) {
  return elementwise_cost("activation", op.out, 3, 8);
}

void run_reference(const OpContext& ctx, const GatedActivation& op) {
  const int64_t d = op.out.row_size();
  parallel_ranges(ctx, op.out.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* gate = op.gate_up.row<float>(r);
      float* result = op.out.row<float>(r);
      for (int64_t i = 0; i < d; ++i)
        result[i] = reference::activate_gate(gate[i], gate[d + i], op.activation);
    }
  });
}

void check(const Gate& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}, {"gate", &op.gate}});
  shapes.require_f32({&op.out, &op.x, &op.gate}, {&op.gate});
  shapes.require(op.x.rows() == op.out.rows() && op.x.row_size() == op.out.row_size(),
                 "x must have out's shape");
  shapes.require(op.gate.rows() == op.out.rows() && op.gate.row_size() > 0 &&
                     op.out.row_size() % op.gate.row_size() == 0,
                 "gate must be [rows, d] or [rows, heads], with heads that divide d");
}

OpCost cost(const Gate& op) {
  return elementwise_cost("gate", op.out, 3, 8);
}

void run_reference(const OpContext& ctx, const Gate& op) {
  const int64_t d = op.out.row_size();
  const int64_t columns = d / op.gate.row_size();  // columns per gate
  parallel_ranges(ctx, op.out.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < d; ++i)
        op.out.row<float>(r)[i] = reference::activate_gate(op.gate.row<float>(r)[i / columns],
                                                           op.x.row<float>(r)[i], op.activation);
    }
  });
}

void check(const Activate& op) {
  require_in_place(op.kName, op.x);
}

OpCost cost(const Activate& op) {
  return elementwise_cost("activation", op.x, 2, 8);
}

void run_reference(const OpContext& ctx, const Activate& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = op.x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) row[i] = reference::activate(row[i], op.activation);
    }
  });
}

void check(const Xielu& op) {
  require_in_place(op.kName, op.x);
}

OpCost cost(const Xielu& op) {
  return elementwise_cost("activation", op.x, 2, 8);
}

void run_reference(const OpContext& ctx, const Xielu& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = op.x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) {
        const float v = row[i];
        const float curve = v > 0.0F ? op.params.positive * v * v
                                     : op.params.negative * (std::expm1(std::min(v, op.params.limit)) - v);
        row[i] = curve + op.params.slope * v;
      }
    }
  });
}

void check(const Clamp& op) {
  const ShapeCheck shapes(op.kName, {{"x", &op.x}});
  shapes.require_f32({&op.x});
  shapes.require(op.low <= op.high, "low must be at most high", op.low, " and ", op.high);
}

OpCost cost(const Clamp& op) {
  return elementwise_cost("activation", op.x, 2, 6);
}

void run_reference(const OpContext& ctx, const Clamp& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(2 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = op.x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) row[i] = std::min(op.high, std::max(op.low, row[i]));
    }
  });
}

void check(const GaussianTopk& op) {
  require_in_place(op.kName, op.x);
}

OpCost cost(const GaussianTopk& op) {
  return elementwise_cost("activation", op.x, 2, 6);
}

void run_reference(const OpContext& ctx, const GaussianTopk& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = op.x.row<float>(r);
      float sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += row[i];
      const float mean = sum / static_cast<float>(d);
      float squares = 0;
      for (int64_t i = 0; i < d; ++i) squares += (row[i] - mean) * (row[i] - mean);
      const float threshold = mean + op.std_multiplier * std::sqrt(squares / static_cast<float>(d));
      for (int64_t i = 0; i < d; ++i) row[i] = std::max(0.0F, row[i] - threshold);
    }
  });
}

void check(const MatchRms& op) {
  require_same_shape(op.kName, op.x, "target", op.target);
}

OpCost cost(const MatchRms& op) {
  return elementwise_cost("norm", op.x, 3, 5);
}

void run_reference(const OpContext& ctx, const MatchRms& op) {
  const int64_t d = op.x.row_size();
  const auto mean_square = [d](const float* row) {
    float sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += row[i] * row[i];
    return sum / static_cast<float>(d);
  };
  parallel_ranges(ctx, op.x.rows(), row_grain(3 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = op.x.row<float>(r);
      const float target = mean_square(op.target.row<float>(r));
      const float scale = std::sqrt(target / std::max(mean_square(row), op.min_mean_square));
      for (int64_t i = 0; i < d; ++i) row[i] *= scale;
    }
  });
}

void check(const Add& op) {
  require_same_shape(op.kName, op.x, "y", op.y);
}

OpCost cost(const Add& op) {
  return elementwise_cost("add", op.x, 3, 1);
}

void run_reference(const OpContext& ctx, const Add& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* to = op.x.row<float>(r);
      const float* from = op.y.row<float>(r);
      for (int64_t i = 0; i < d; ++i) to[i] += from[i];
    }
  });
}

void check(const GatherRows& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}});
  shapes.require_f32({&op.out, &op.x});
  shapes.require(
      op.out.rows() == static_cast<int64_t>(op.rows.size()) && op.out.row_size() == op.x.row_size(),
      "out must be [rows.size(), columns of x]", "rows [", op.rows.size(), "]");
  shapes.require_indices("row", op.rows, op.x.rows());
}

OpCost cost(const GatherRows& op) {
  return elementwise_cost("gather rows", op.out, 2, 0);
}

void run_reference(const OpContext& ctx, const GatherRows& op) {
  const int64_t d = op.out.row_size();
  parallel_ranges(ctx, static_cast<int64_t>(op.rows.size()), row_grain(d),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t r = begin; r < end; ++r) {
                      std::copy_n(op.x.row<float>(op.rows[static_cast<size_t>(r)]), d, op.out.row<float>(r));
                    }
                  });
}

void check(const ScaleSoftcap& op) {
  require_in_place(op.kName, op.x);
}

OpCost cost(const ScaleSoftcap& op) {
  return elementwise_cost("scale logits", op.x, 2, 8);
}

void run_reference(const OpContext& ctx, const ScaleSoftcap& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = op.x.row<float>(r);
      for (int64_t i = 0; i < d; ++i) {
        row[i] *= op.scale;
        if (op.cap > 0.0F) row[i] = op.cap * std::tanh(row[i] / op.cap);
      }
    }
  });
}

}  // namespace ops
}  // namespace quire
