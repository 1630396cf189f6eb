// Ops that compute each row independently, on the thread pool.
#include <algorithm>

#include "backends/cpu/drivers.h"
#include "ops/parallel.h"

namespace quire::cpu {
Act act_of(Activation act) {
  switch (act) {
    case Activation::kSilu:
      return kActSilu;
    case Activation::kGelu:
      return kActGelu;
    case Activation::kGeluTanh:
      return kActGeluTanh;
    case Activation::kRelu:
      return kActRelu;
    case Activation::kReluSquared:
      return kActReluSquared;
    case Activation::kClampedSwish:
      return kActClampedSwish;
    case Activation::kUnclampedSwish:
      return kActUnclampedSwish;
    case Activation::kSigmoid:
      return kActSigmoid;
    case Activation::kSoftplus:
      return kActSoftplus;
    case Activation::kNone:
      return kActNone;
  }
  return kActSilu;
}

Gate gate_of(const CpuKernels& kernels, const PackedLinear& w) {
  return w.gate ? Gate{kernels.activate, act_of(*w.gate)} : Gate{};
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::RmsNorm& op) {
  const int64_t d = op.weight.shape[0];
  const int64_t size = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(size), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < size; i += d) {
        kernels.rms_norm(op.out.row<float>(r) + i, op.x.row<float>(r) + i, op.weight.as<float>(), d, op.eps,
                         op.weight_offset);
      }
    }
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::LayerNorm& op) {
  const int64_t d = op.weight.shape[0];
  const int64_t size = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(size), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < size; i += d) {
        kernels.layer_norm(op.out.row<float>(r) + i, op.x.row<float>(r) + i, op.weight.as<float>(),
                           op.bias.as<float>(), d, op.eps);
      }
    }
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Rope& op) {
  const int64_t heads = op.x.shape[1];
  const int64_t head_dim = op.x.shape[2];
  const int64_t half = op.cos_sin.shape[1] / 2;
  const auto kernel = op.style == RopeStyle::kNeox ? kernels.rope_neox : kernels.rope_interleaved;
  parallel_ranges(ctx, op.x.rows(), row_grain(heads * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* cosine = op.cos_sin.row<float>(op.positions[static_cast<size_t>(r)]);
      kernel(op.x.row<float>(r), heads, head_dim, cosine, cosine + half, half);
    }
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::GatedActivation& op) {
  const int64_t d = op.out.row_size();
  parallel_ranges(ctx, op.out.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* gate = op.gate_up.row<float>(r);
      kernels.activate(op.out.row<float>(r), gate, gate + d, d, act_of(op.activation));
    }
  });
}

namespace {

// One gate value for several adjacent columns.
void gate_heads(const CpuKernels& kernels, const OpContext& ctx, const ops::Gate& op) {
  const int64_t heads = op.gate.row_size();
  const int64_t wide = op.out.row_size() / heads;
  parallel_ranges(ctx, op.out.rows(), row_grain(4 * op.out.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        float factor = 0.0F;
        kernels.activate(&factor, op.gate.row<float>(r) + h, nullptr, 1, act_of(op.activation));
        float* to = op.out.row<float>(r) + h * wide;
        const float* from = op.x.row<float>(r) + h * wide;
        if (to != from) std::copy_n(from, wide, to);
        kernels.scale_softcap(to, wide, factor, 0.0F);
      }
    }
  });
}

}  // namespace

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Gate& op) {
  const int64_t d = op.out.row_size();
  if (op.gate.row_size() < d) return gate_heads(kernels, ctx, op);
  parallel_ranges(ctx, op.out.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      kernels.activate(op.out.row<float>(r), op.gate.row<float>(r), op.x.row<float>(r), d,
                       act_of(op.activation));
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Activate& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      kernels.activate(op.x.row<float>(r), op.x.row<float>(r), nullptr, d, act_of(op.activation));
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Add& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) kernels.add(op.x.row<float>(r), op.y.row<float>(r), d);
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::ScaleSoftcap& op) {
  const int64_t d = op.x.row_size();
  parallel_ranges(ctx, op.x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) kernels.scale_softcap(op.x.row<float>(r), d, op.scale, op.cap);
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::CombineRows& op) {
  const int64_t d = op.out.row_size();
  const int64_t k = op.weights.row_size();
  parallel_ranges(ctx, op.out.rows(), row_grain(k * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      kernels.combine(op.out.row<float>(r), op.residual.data == nullptr ? nullptr : op.residual.row<float>(r),
                      op.y.as<float>(), op.y.row_stride, op.rows.data() + r * k, op.weights.row<float>(r), k,
                      d);
    }
  });
}

}  // namespace quire::cpu
