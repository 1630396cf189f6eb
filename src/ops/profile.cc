#include "ops/profile.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "quant/activation_slices.h"
#include "quant/quant_layout.h"

namespace quire {
namespace {

double peak_of(const MachineLimits& limits, const WeightFormat& format) {
  // Each int8 slice of an activation is a product of its own (quant/activation_slices.h).
  const int slices = num_activation_slices(format.activations);
  if (is_quantized(format) && slices > 1 && integer_values(format.quantized))
    return std::max(limits.f32_flop_per_s, limits.int8_flop_per_s / slices);
  if (format.activations == ActivationFormat::kInt8 && limits.int8_flop_per_s > 0)
    return limits.int8_flop_per_s;
  if (format.dtype == DType::kBF16 && limits.bf16_flop_per_s > 0) return limits.bf16_flop_per_s;
  return limits.f32_flop_per_s;
}

// Passes the input of each matrix of a product to the listener.
void report_inputs(const OpProfile::InputListener& listener, const ops::Linear& op) {
  listener(op.x, op.w);
}

void report_inputs(const OpProfile::InputListener& listener, const ops::GroupedLinear& op) {
  for (size_t g = 0; g < op.matrices.size(); ++g) {
    const PackedLinear* w = op.matrices[g];
    const int64_t begin = op.offsets[g];
    const int64_t end = op.offsets[g + 1];
    if (w == nullptr || begin == end) continue;
    if (op.rows.empty()) {
      listener(row_slice(op.x, begin, end), *w);
      continue;
    }
    std::vector<float> rows(static_cast<size_t>((end - begin) * w->k));
    const TensorView x = make_view(rows.data(), DType::kF32, {end - begin, w->k});
    const auto of_group = op.rows.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    run_reference({}, ops::GatherRows{.out = x, .x = op.x, .rows = of_group});
    listener(x, *w);
  }
}

void report_inputs(const OpProfile::InputListener& listener, const ops::BatchedLinear& op) {
  int64_t i = 0;
  for (const PackedLinear* w : op.matrices) {
    listener(column_slice(op.x, i * w->k, (i + 1) * w->k), *w);
    ++i;
  }
}

template <class Args>
concept HasMatrices = requires(const OpProfile::InputListener& listener, const Args& args) {
  report_inputs(listener, args);
};

template <class Args>
void run_timed(const OpContext& ctx, const Args& args) {
  OpProfile& profile = *ctx.profile;
  if constexpr (HasMatrices<Args>) {
    if (const auto& listener = profile.input_listener()) report_inputs(listener, args);
  }
  const OpCost op_cost = cost(args);
  ProfileEvent event = {.name = op_cost.label,
                        .begin_s = monotonic_seconds(),
                        .bytes = op_cost.bytes,
                        .flop = op_cost.flop,
                        .peak_flop_per_s = op_cost.weights != nullptr
                                               ? peak_of(profile.limits(), *op_cost.weights)
                                               : profile.limits().f32_flop_per_s,
                        .rows = op_cost.rows,
                        .columns = op_cost.columns,
                        .depth = op_cost.depth};
  profile.inner().run(ctx, args);
  event.seconds = monotonic_seconds() - event.begin_s;
  profile.add(event);
}

PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format) {
  return ctx.profile->inner().pack_linear(ctx, parts, format);
}

PackedLinear pack_quantized(const OpContext& ctx, std::span<const QuantizedMatrix* const> parts) {
  return ctx.profile->inner().pack_quantized(ctx, parts);
}

}  // namespace

OpProfile::OpProfile(const OpTable& inner, const MachineLimits& limits, size_t max_events)
    : inner_(inner), table_(inner), limits_(limits) {
  events_.reserve(max_events);
  table_.checks_shapes = false;  // the inner table checks
  table_.pack_linear = quire::pack_linear;
  table_.pack_quantized = quire::pack_quantized;
  for_each_op(AllOps{}, [this]<class Args>() { table_.set<Args>(run_timed<Args>); });
}

void OpProfile::add(const ProfileEvent& event) {
  if (events_.size() == events_.capacity()) {
    ++num_dropped_;
  } else {
    events_.push_back(event);
  }
}

double OpProfile::least_seconds(const ProfileEvent& event) const {
  const double reading = limits_.read_bytes_per_s > 0 ? event.bytes / limits_.read_bytes_per_s : 0;
  const double computing = event.peak_flop_per_s > 0 ? event.flop / event.peak_flop_per_s : 0;
  return std::max(reading, computing);
}

}  // namespace quire
