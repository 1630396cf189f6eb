#include "ops/reference.h"

#include <algorithm>
#include <cmath>

#include "ops/softplus.h"

namespace quire {
namespace reference {

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
    case Activation::kUnclampedSwish:
      return x / (1.0F + std::exp(-1.702F * x));
    case Activation::kClampedSwish: {
      const float gate = x > 7.0F ? 7.0F : x;
      return gate / (1.0F + std::exp(-1.702F * gate));
    }
  }
  return x;
}

float activate_gate(float gate, float up, Activation act) {
  if (act == Activation::kUnclampedSwish) return activate(gate, act) * (up + 1.0F);
  if (act != Activation::kClampedSwish) return activate(gate, act) * up;
  return activate(gate, act) * ((up > 7.0F ? 7.0F : up < -7.0F ? -7.0F : up) + 1.0F);
}

// The scores of one query per thread; one row of activations as int8.
size_t workspace_bytes(int64_t /*max_tokens*/, int64_t max_seq_len, int32_t /*num_heads*/,
                       int32_t /*head_dim*/, int threads) {
  constexpr size_t kIntRowBytes = size_t{1} << 20;
  return std::max(kIntRowBytes,
                  static_cast<size_t>(max_seq_len) * static_cast<size_t>(threads) * sizeof(float));
}

}  // namespace reference

const OpTable& reference_ops() {
  static const OpTable table = [] {
    OpTable made = {.name = "reference",
                    .workspace_bytes = reference::workspace_bytes,
                    .keeps_sparse_24 = [](DType, int64_t) { return false; },
                    .packed_bytes = packed_bytes,
                    .pack_linear = reference::pack_linear,
                    .pack_quantized = reference::pack_quantized};
    for_each_op(AllOps{}, [&]<class Args>() { made.set<Args>(ops::run_reference); });
    return made;
  }();
  return table;
}

}  // namespace quire
