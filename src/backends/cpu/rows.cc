// Ops that work on each row by itself, over the pool.
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

void rms_norm(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
              const TensorView& weight, float eps, float weight_offset) {
  const int64_t d = weight.shape[0];
  const int64_t size = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(size), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < size; i += d) {
        kernels.rms_norm(out.row<float>(r) + i, x.row<float>(r) + i, weight.as<float>(), d, eps,
                         weight_offset);
      }
    }
  });
}

void layer_norm(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                const TensorView& weight, const TensorView& bias, float eps) {
  const int64_t d = weight.shape[0];
  const int64_t size = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(size), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < size; i += d) {
        kernels.layer_norm(out.row<float>(r) + i, x.row<float>(r) + i, weight.as<float>(), bias.as<float>(),
                           d, eps);
      }
    }
  });
}

void rope(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x,
          std::span<const int32_t> positions, const TensorView& cos_sin, RopeStyle style) {
  const int64_t heads = x.shape[1];
  const int64_t head_dim = x.shape[2];
  const int64_t half = cos_sin.shape[1] / 2;
  const auto kernel = style == RopeStyle::kHalves ? kernels.rope_halves : kernels.rope_interleaved;
  parallel_ranges(ctx, x.rows(), row_grain(heads * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* cosine = cos_sin.row<float>(positions[static_cast<size_t>(r)]);
      kernel(x.row<float>(r), heads, head_dim, cosine, cosine + half, half);
    }
  });
}

void gated_activation(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                      const TensorView& gate_up, Activation act) {
  const int64_t d = out.row_size();
  parallel_ranges(ctx, out.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* gate = gate_up.row<float>(r);
      kernels.activate(out.row<float>(r), gate, gate + d, d, act_of(act));
    }
  });
}

namespace {

// One gate for some columns side by side.
void gate_heads(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                const TensorView& gate, Activation act) {
  const int64_t heads = gate.row_size();
  const int64_t wide = out.row_size() / heads;
  parallel_ranges(ctx, out.rows(), row_grain(4 * out.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        float share = 0.0F;
        kernels.activate(&share, gate.row<float>(r) + h, nullptr, 1, act_of(act));
        float* to = out.row<float>(r) + h * wide;
        const float* from = x.row<float>(r) + h * wide;
        if (to != from) std::copy_n(from, wide, to);
        kernels.scale_softcap(to, wide, share, 0.0F);
      }
    }
  });
}

}  // namespace

void gate(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
          const TensorView& gate, Activation act) {
  const int64_t d = out.row_size();
  if (gate.row_size() < d) return gate_heads(kernels, ctx, out, x, gate, act);
  parallel_ranges(ctx, out.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      kernels.activate(out.row<float>(r), gate.row<float>(r), x.row<float>(r), d, act_of(act));
  });
}

void activation(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x, Activation act) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      kernels.activate(x.row<float>(r), x.row<float>(r), nullptr, d, act_of(act));
  });
}

void add(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x, const TensorView& y) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) kernels.add(x.row<float>(r), y.row<float>(r), d);
  });
}

void scale_softcap(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x, float scale,
                   float cap) {
  const int64_t d = x.row_size();
  parallel_ranges(ctx, x.rows(), row_grain(4 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) kernels.scale_softcap(x.row<float>(r), d, scale, cap);
  });
}

void combine_rows(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& y,
                  std::span<const int32_t> places, const TensorView& weights, const TensorView& residual) {
  const int64_t d = out.row_size();
  const int64_t k = weights.row_size();
  parallel_ranges(ctx, out.rows(), row_grain(k * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      kernels.combine(out.row<float>(r), residual.data == nullptr ? nullptr : residual.row<float>(r),
                      y.as<float>(), y.row_stride, places.data() + r * k, weights.row<float>(r), k, d);
    }
  });
}

}  // namespace quire::cpu
