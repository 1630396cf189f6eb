#include "exec/kernel_tuner.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/clock.h"
#include "quant/quant_layout.h"

namespace quire {
namespace {

// The first is chosen unless another one is clearly faster.
constexpr std::array<KernelTuning, 2> kVariants = {{{.prefetch_into_l2 = true}, {.prefetch_into_l2 = false}}};
constexpr double kClearly = 0.98;

constexpr int kPasses = 3;
constexpr double kMaxSeconds = 0.2;  // no pass starts later

bool has_variants(const PackedLinear& matrix) {
  if (is_integer(matrix.format)) return true;
  return is_quantized(matrix.format) && integer_values(matrix.format.quantized).has_value();
}

}  // namespace

void KernelTuner::add(const PackedLinear& matrix) {
  const auto bytes = static_cast<int64_t>(matrix.data.size());
  if (!has_variants(matrix) || bytes_ + bytes > kMaxBytes) return;
  bytes_ += bytes;
  PackedLinear& own = matrices_.emplace_back();
  own.format = matrix.format;
  own.format.outlier_threshold = 0.0F;
  own.n = matrix.n;
  own.k = matrix.k;
  own.data = Buffer::borrowed({matrix.data.data(), matrix.data.size()}, nullptr);
}

KernelTuner::Choice KernelTuner::choose(const OpTable& ops, ThreadPool& pool) const {
  if (!ops.has_variants || bytes_ < kMinBytes) return {};
  int64_t widest = 0;
  int64_t deepest = 0;
  for (const PackedLinear& matrix : matrices_) {
    widest = std::max(widest, matrix.n);
    deepest = std::max(deepest, matrix.k);
  }
  const Buffer x(static_cast<size_t>(deepest) * sizeof(float));  // zeros
  Buffer out(static_cast<size_t>(widest) * sizeof(float));
  Buffer workspace(ops.workspace_bytes(1, 1, 1, 1, pool.num_threads()));
  OpContext ctx{&pool, {workspace.data(), workspace.size()}};
  const auto seconds_of = [&](const KernelTuning& tuning) {
    ctx.tuning = tuning;
    const double begin = monotonic_seconds();
    for (const PackedLinear& matrix : matrices_) {
      ops.run(ctx, ops::Linear{.out = make_view(out.data(), DType::kF32, {1, matrix.n}),
                               .x = make_view(const_cast<std::byte*>(x.data()), DType::kF32, {1, matrix.k}),
                               .w = matrix});
    }
    return monotonic_seconds() - begin;
  };
  std::array<double, kVariants.size()> fastest;
  fastest.fill(std::numeric_limits<double>::max());
  const double begin = monotonic_seconds();
  // The variants alternate, so that a change of the machine's load meets all of them.
  for (int pass = 0; pass < kPasses && (pass == 0 || monotonic_seconds() - begin < kMaxSeconds); ++pass) {
    for (size_t v = 0; v < kVariants.size(); ++v) fastest[v] = std::min(fastest[v], seconds_of(kVariants[v]));
  }
  size_t best = 0;
  for (size_t v = 1; v < kVariants.size(); ++v) {
    if (fastest[v] < kClearly * fastest[best]) best = v;
  }
  return {kVariants[best], *std::ranges::max_element(fastest) / fastest[best], bytes_};
}

}  // namespace quire
