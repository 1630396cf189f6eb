#include "ops/profile.h"

#include <algorithm>

#include "base/clock.h"
#include "quant/activation_digits.h"
#include "quant/coded_layout.h"

namespace quire {
namespace {

constexpr double kFloat = sizeof(float);

// Runs `op` and notes it.
template <typename F>
void timed(const OpContext& ctx, ProfileEvent event, F&& op) {
  OpProfile& profile = *ctx.profile;
  event.begin_s = monotonic_seconds();
  op(profile.inner());
  event.seconds = monotonic_seconds() - event.begin_s;
  if (event.peak_flop_per_s == 0) event.peak_flop_per_s = profile.limits().f32_flop_per_s;
  profile.add(event);
}

// An op that touches `tensors` arrays of x's size once, with `flop` operations for each element.
ProfileEvent elementwise(std::string_view name, const TensorView& x, double tensors, double flop) {
  const auto elements = static_cast<double>(x.shape.numel());
  return {.name = name, .bytes = tensors * elements * kFloat, .flop = flop * elements, .rows = x.rows()};
}

double peak_of(const MachineLimits& limits, const WeightFormat& format) {
  // Each digit of an activation is an int8 product (quant/activation_digits.h).
  const int digits = num_activation_digits(format.activations);
  if (is_coded(format) && digits > 1 && coded_numbers(format.coded))
    return std::max(limits.f32_flop_per_s, limits.int8_flop_per_s / digits);
  if (format.activations == ActivationFormat::kInt8 && limits.int8_flop_per_s > 0)
    return limits.int8_flop_per_s;
  if (format.dtype == DType::kBF16 && limits.bf16_flop_per_s > 0) return limits.bf16_flop_per_s;
  return limits.f32_flop_per_s;
}

void linear(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
            const TensorView& residual) {
  if (const auto& listener = ctx.profile->input_listener()) listener(x, w);
  const auto m = static_cast<double>(x.rows());
  const auto n = static_cast<double>(w.n);
  const auto k = static_cast<double>(w.k);
  const ProfileEvent event = {
      .name = w.label,
      .bytes = static_cast<double>(w.data.size()) +
               (m * k + static_cast<double>(out.shape.numel()) * (residual.data ? 2 : 1)) * kFloat,
      .flop = 2 * m * n * k,
      .peak_flop_per_s = peak_of(ctx.profile->limits(), w.format),
      .rows = x.rows(),
      .columns = w.n,
      .depth = w.k,
  };
  timed(ctx, event, [&](const OpTable& ops) { ops.linear(ctx, out, x, w, residual); });
}

PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format) {
  return ctx.profile->inner().pack_linear(ctx, parts, format);
}

PackedLinear pack_coded(const OpContext& ctx, std::span<const CodedMatrix* const> parts) {
  return ctx.profile->inner().pack_coded(ctx, parts);
}

void embedding(const OpContext& ctx, const TensorView& out, const TensorView& table,
               std::span<const int32_t> ids) {
  ProfileEvent event = elementwise("embedding", out, 1, 0);
  event.bytes += static_cast<double>(out.shape.numel()) * static_cast<double>(dtype_size(table.dtype));
  timed(ctx, event, [&](const OpTable& ops) { ops.embedding(ctx, out, table, ids); });
}

void embedding_packed(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                      std::span<const int32_t> ids) {
  ProfileEvent event = elementwise("embedding", out, 1, 0);
  event.bytes +=
      static_cast<double>(table.data.size()) / static_cast<double>(table.n) * static_cast<double>(out.rows());
  timed(ctx, event, [&](const OpTable& ops) { ops.embedding_packed(ctx, out, table, ids); });
}

void rms_norm(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& weight,
              float eps, float weight_offset) {
  timed(ctx, elementwise("norm", x, 2, 4),
        [&](const OpTable& ops) { ops.rms_norm(ctx, out, x, weight, eps, weight_offset); });
}

void layer_norm(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& weight,
                const TensorView& bias, float eps) {
  timed(ctx, elementwise("norm", x, 2, 8),
        [&](const OpTable& ops) { ops.layer_norm(ctx, out, x, weight, bias, eps); });
}

void rope(const OpContext& ctx, const TensorView& x, std::span<const int32_t> positions,
          const TensorView& cos_sin, RopeStyle style) {
  timed(ctx, elementwise("rope", x, 2, 3),
        [&](const OpTable& ops) { ops.rope(ctx, x, positions, cos_sin, style); });
}

// Bytes that one token's keys and values of one layer take.
double token_bytes(const KvCacheView& cache) {
  const auto part = [&cache](int32_t dim) {
    return static_cast<double>(kv_part_bytes(cache.dtype, cache.block_size, cache.num_kv_heads, dim));
  };
  return (part(cache.head_dim) + (cache.values_in_keys ? 0.0 : part(cache.value_size()))) / cache.block_size;
}

void kv_write(const OpContext& ctx, const KvCacheView& cache, const TensorView& k, const TensorView& v,
              std::span<const int64_t> slot_mapping) {
  ProfileEvent event = elementwise("kv write", k, 2, 0);
  event.bytes += token_bytes(cache) * static_cast<double>(k.rows());
  timed(ctx, event, [&](const OpTable& ops) { ops.kv_write(ctx, cache, k, v, slot_mapping); });
}

void paged_attention(const OpContext& ctx, const TensorView& out, const TensorView& q,
                     const KvCacheView& cache, const AttentionBatch& batch, const AttentionParams& params) {
  ProfileEvent event = elementwise("attention", q, 2, 0);
  double seen = 0;  // pairs of a query row and a position it sees
  for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
    const double rows = batch.cu_seqlens_q[s + 1] - batch.cu_seqlens_q[s];
    const double length = batch.seq_lens[s];
    double window = params.window > 0 ? params.window : length;
    // Of the positions of its chunk that a row sees, on average.
    if (params.chunk > 0) window = std::min(length, std::max(1.0, 0.5 * params.chunk));
    seen += rows * std::min(window, length - (rows - 1) / 2);
    event.bytes += std::min(length, window + rows - 1) * token_bytes(cache);
  }
  // A product and a sum for each dimension of q.k and of p.v.
  event.flop = 2 * seen * static_cast<double>(q.shape[1]) * (cache.head_dim + cache.value_size());
  timed(ctx, event, [&](const OpTable& ops) { ops.paged_attention(ctx, out, q, cache, batch, params); });
}

// Of choices of keys, each of so many tokens, by queries q where a row sees more than `least` of them.
ProfileEvent choice(const TensorView& q, const KvCacheView& keys, const AttentionBatch& batch, int64_t least,
                    int32_t tokens = 1) {
  ProfileEvent event = elementwise("choice of keys", q, 1, 0);
  double seen = 0;  // pairs of a row that has to choose and a position it sees
  for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
    const double length = batch.seq_lens[s];
    const double most = static_cast<double>(least) * tokens;
    if (length <= most) continue;
    const double rows = std::min<double>(batch.cu_seqlens_q[s + 1] - batch.cu_seqlens_q[s], length - most);
    seen += rows * (length - (rows - 1) / 2) / tokens;
    event.bytes += length / tokens * token_bytes(keys);
  }
  event.flop = 2 * seen * static_cast<double>(q.shape[1]) * keys.head_dim;
  return event;
}

void choose_keys(const OpContext& ctx, const KeyMask& chosen, const TensorView& q, const TensorView& weights,
                 const KvCacheView& keys, const AttentionBatch& batch, int32_t count, int32_t tokens) {
  timed(ctx, choice(q, keys, batch, count, tokens),
        [&](const OpTable& ops) { ops.choose_keys(ctx, chosen, q, weights, keys, batch, count, tokens); });
}

void choose_blocks(const OpContext& ctx, const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                   const AttentionBatch& batch, const KeyBlocks& blocks) {
  timed(ctx, choice(q, keys, batch, int64_t{blocks.count} * blocks.size),
        [&](const OpTable& ops) { ops.choose_blocks(ctx, chosen, q, keys, batch, blocks); });
}

void relative_attention(const OpContext& ctx, const TensorView& out, const TensorView& q, const TensorView& k,
                        const TensorView& v, const AttentionBatch& batch, const RelativeParams& params) {
  ProfileEvent event = elementwise("attention", q, 4, 0);
  for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
    const double rows = batch.cu_seqlens_q[s + 1] - batch.cu_seqlens_q[s];
    event.flop += (params.keys != nullptr ? 8 : 4) * rows * rows * static_cast<double>(q.row_size());
  }
  timed(ctx, event, [&](const OpTable& ops) { ops.relative_attention(ctx, out, q, k, v, batch, params); });
}

void gated_activation(const OpContext& ctx, const TensorView& out, const TensorView& gate_up,
                      Activation act) {
  timed(ctx, elementwise("activation", out, 3, 8),
        [&](const OpTable& ops) { ops.gated_activation(ctx, out, gate_up, act); });
}

void activation(const OpContext& ctx, const TensorView& x, Activation act) {
  timed(ctx, elementwise("activation", x, 2, 8), [&](const OpTable& ops) { ops.activation(ctx, x, act); });
}

void xielu(const OpContext& ctx, const TensorView& x, const XieluParams& params) {
  timed(ctx, elementwise("activation", x, 2, 8), [&](const OpTable& ops) { ops.xielu(ctx, x, params); });
}

void relu_above(const OpContext& ctx, const TensorView& x, float deviations) {
  timed(ctx, elementwise("activation", x, 2, 6),
        [&](const OpTable& ops) { ops.relu_above(ctx, x, deviations); });
}

void clamp(const OpContext& ctx, const TensorView& x, float low, float high) {
  timed(ctx, elementwise("activation", x, 2, 6), [&](const OpTable& ops) { ops.clamp(ctx, x, low, high); });
}

void match_rms(const OpContext& ctx, const TensorView& x, const TensorView& like, float least) {
  timed(ctx, elementwise("norm", x, 3, 5), [&](const OpTable& ops) { ops.match_rms(ctx, x, like, least); });
}

void add(const OpContext& ctx, const TensorView& x, const TensorView& y) {
  timed(ctx, elementwise("add", x, 3, 1), [&](const OpTable& ops) { ops.add(ctx, x, y); });
}

void gather_rows(const OpContext& ctx, const TensorView& out, const TensorView& x,
                 std::span<const int32_t> rows) {
  timed(ctx, elementwise("gather rows", out, 2, 0),
        [&](const OpTable& ops) { ops.gather_rows(ctx, out, x, rows); });
}

void scale_softcap(const OpContext& ctx, const TensorView& x, float scale, float cap) {
  timed(ctx, elementwise("scale logits", x, 2, 8),
        [&](const OpTable& ops) { ops.scale_softcap(ctx, x, scale, cap); });
}

void route_experts(const OpContext& ctx, std::span<int32_t> ids, const TensorView& weights,
                   const TensorView& logits, const RouterParams& params) {
  timed(ctx, elementwise("route experts", logits, 1, 8.0 + params.num_chosen),
        [&](const OpTable& ops) { ops.route_experts(ctx, ids, weights, logits, params); });
}

void combine_rows(const OpContext& ctx, const TensorView& out, const TensorView& y,
                  std::span<const int32_t> places, const TensorView& weights, const TensorView& residual) {
  const auto k = static_cast<double>(weights.row_size());
  timed(ctx, elementwise("combine experts", out, k + (residual.data ? 2 : 1), 2 * k),
        [&](const OpTable& ops) { ops.combine_rows(ctx, out, y, places, weights, residual); });
}

void stream_shares(const OpContext& ctx, const TensorView& in, const TensorView& out,
                   const TensorView& scores, const TensorView& base, const TensorView& scale,
                   const StreamParams& params) {
  timed(ctx, elementwise("stream shares", scores, 2, 8.0 + 4.0 * params.rounds),
        [&](const OpTable& ops) { ops.stream_shares(ctx, in, out, scores, base, scale, params); });
}

void gate(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& gate,
          Activation act) {
  timed(ctx, elementwise("gate", out, 3, 8), [&](const OpTable& ops) { ops.gate(ctx, out, x, gate, act); });
}

void decay_gates(const OpContext& ctx, const TensorView& decay, const TensorView& step,
                 const TensorView& bias, const TensorView& rate, const DecayParams& params) {
  timed(ctx, elementwise("decay gates", step, 3, 32),
        [&](const OpTable& ops) { ops.decay_gates(ctx, decay, step, bias, rate, params); });
}

// What a sequence's states add to the bytes of a call: read once, written once.
double state_bytes(const StateBatch& batch, int64_t floats) {
  return 2 * kFloat * static_cast<double>(batch.num_seqs) * static_cast<double>(floats);
}

void causal_conv(const OpContext& ctx, const TensorView& x, const TensorView& weight, const TensorView& bias,
                 Activation act, const StateBatch& batch, const StateView& state) {
  ProfileEvent event = elementwise("convolution", x, 2, 2 * static_cast<double>(weight.rows()) + 8);
  event.bytes += state_bytes(batch, weight.shape.numel());
  timed(ctx, event, [&](const OpTable& ops) { ops.causal_conv(ctx, x, weight, bias, act, batch, state); });
}

void ssm_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& b,
              const TensorView& c, const TensorView& decay, const TensorView& step, const TensorView& skip,
              const StateBatch& batch, const StateView& state) {
  const auto n = static_cast<double>(b.shape[2]);
  ProfileEvent event = elementwise("state space scan", x, 2, 5 * n);
  event.bytes += state_bytes(batch, x.row_size() * b.shape[2]);
  timed(ctx, event,
        [&](const OpTable& ops) { ops.ssm_scan(ctx, out, x, b, c, decay, step, skip, batch, state); });
}

void selective_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& step,
                    const TensorView& b, const TensorView& c, const TensorView& rate, const TensorView& skip,
                    const StateBatch& batch, const StateView& state) {
  ProfileEvent event = elementwise("selective scan", x, 3, 16 * static_cast<double>(b.row_size()));
  event.bytes += state_bytes(batch, rate.shape.numel());
  timed(ctx, event,
        [&](const OpTable& ops) { ops.selective_scan(ctx, out, x, step, b, c, rate, skip, batch, state); });
}

void delta_rule(const OpContext& ctx, const TensorView& out, const TensorView& q, const TensorView& k,
                const TensorView& v, const TensorView& decay, const TensorView& beta, const StateBatch& batch,
                const StateView& state) {
  const auto depth = static_cast<double>(k.shape[2]);
  ProfileEvent event = elementwise("delta rule", v, 2, 7 * depth);
  event.bytes += state_bytes(batch, v.row_size() * k.shape[2]);
  timed(ctx, event,
        [&](const OpTable& ops) { ops.delta_rule(ctx, out, q, k, v, decay, beta, batch, state); });
}

void compress(const OpContext& ctx, const TensorView& out, const TensorView& values, const TensorView& gates,
              const TensorView& bias, const StateBatch& batch, const StateView& state) {
  timed(ctx, elementwise("compress keys", values, 3, 12),
        [&](const OpTable& ops) { ops.compress(ctx, out, values, gates, bias, batch, state); });
}

}  // namespace

OpProfile::OpProfile(const OpTable& inner, const MachineLimits& limits, size_t max_events)
    : inner_(inner), table_(inner), limits_(limits) {
  events_.reserve(max_events);
  table_.pack_linear = quire::pack_linear;
  table_.pack_coded = quire::pack_coded;
  table_.linear = quire::linear;
  table_.embedding = quire::embedding;
  table_.embedding_packed = quire::embedding_packed;
  table_.rms_norm = quire::rms_norm;
  table_.layer_norm = quire::layer_norm;
  table_.rope = quire::rope;
  table_.kv_write = quire::kv_write;
  table_.paged_attention = quire::paged_attention;
  table_.choose_keys = quire::choose_keys;
  table_.choose_blocks = quire::choose_blocks;
  table_.relative_attention = quire::relative_attention;
  table_.gated_activation = quire::gated_activation;
  table_.activation = quire::activation;
  table_.xielu = quire::xielu;
  table_.relu_above = quire::relu_above;
  table_.clamp = quire::clamp;
  table_.match_rms = quire::match_rms;
  table_.add = quire::add;
  table_.gather_rows = quire::gather_rows;
  table_.scale_softcap = quire::scale_softcap;
  table_.route_experts = quire::route_experts;
  table_.combine_rows = quire::combine_rows;
  table_.stream_shares = quire::stream_shares;
  table_.gate = quire::gate;
  table_.decay_gates = quire::decay_gates;
  table_.causal_conv = quire::causal_conv;
  table_.ssm_scan = quire::ssm_scan;
  table_.selective_scan = quire::selective_scan;
  table_.delta_rule = quire::delta_rule;
  table_.compress = quire::compress;
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
