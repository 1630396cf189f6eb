#include "backends/cpu/tables.h"

#include <algorithm>

#include "backends/cpu/drivers.h"
#include "backends/cpu/machine_limits.h"
#include "ops/reference.h"

namespace quire::cpu {
namespace {

CpuKernels make_avx2() {
  CpuKernels kernels{};
  fill_avx2(kernels);
  fill_coded_avx2(kernels);
  fill_coded_int_avx2(kernels);
  return kernels;
}

CpuKernels make_avx512() {
  CpuKernels kernels = make_avx2();
  fill_avx512(kernels);
  fill_coded_avx512(kernels);
  fill_coded_int_avx512(kernels);
  return kernels;
}

CpuKernels make_avx512_vnni() {
  CpuKernels kernels = make_avx512();
  fill_avx512_vnni(kernels);
  fill_coded_int_vnni(kernels);
  return kernels;
}

CpuKernels make_avx512_bf16() {
  CpuKernels kernels = make_avx512_vnni();
  fill_avx512_bf16(kernels);
  return kernels;
}

CpuKernels make_amx_bf16() {
  CpuKernels kernels = make_avx512_bf16();
  fill_amx_bf16(kernels);
  return kernels;
}

// Entries of OpTable carry no state, so each instruction set has its own set of them, bound to its kernels.
template <CpuKernels (*kMake)()>
struct Bound {
  static const CpuKernels& kernels() {
    static const CpuKernels made = kMake();
    return made;
  }
  static size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                                int threads) {
    return std::max(cpu::workspace_bytes(max_tokens, max_seq_len, num_heads, head_dim, threads),
                    std::max(linear_workspace_bytes(kernels()), int_workspace_bytes(kernels(), threads)));
  }
  static bool keeps_two_of_four(DType dtype, int64_t k) {
    return cpu::keeps_two_of_four(kernels(), dtype, k);
  }
  static PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts,
                                  WeightFormat format) {
    return cpu::pack_linear(kernels(), ctx, parts, format);
  }
  static void linear(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
                     const TensorView& residual) {
    cpu::linear(kernels(), ctx, out, x, w, residual);
  }
  static void embedding(const OpContext& ctx, const TensorView& out, const TensorView& table,
                        std::span<const int32_t> ids) {
    cpu::embedding(kernels(), ctx, out, table, ids);
  }
  static void embedding_packed(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                               std::span<const int32_t> ids) {
    cpu::embedding_packed(kernels(), ctx, out, table, ids);
  }
  static void rms_norm(const OpContext& ctx, const TensorView& out, const TensorView& x,
                       const TensorView& weight, float eps, float weight_offset) {
    cpu::rms_norm(kernels(), ctx, out, x, weight, eps, weight_offset);
  }
  static void layer_norm(const OpContext& ctx, const TensorView& out, const TensorView& x,
                         const TensorView& weight, const TensorView& bias, float eps) {
    cpu::layer_norm(kernels(), ctx, out, x, weight, bias, eps);
  }
  static void rope(const OpContext& ctx, const TensorView& x, std::span<const int32_t> positions,
                   const TensorView& cos_sin, RopeStyle style) {
    cpu::rope(kernels(), ctx, x, positions, cos_sin, style);
  }
  static void kv_write(const OpContext& ctx, const KvCacheView& cache, const TensorView& k,
                       const TensorView& v, std::span<const int64_t> slot_mapping) {
    cpu::kv_write(kernels(), ctx, cache, k, v, slot_mapping);
  }
  static void paged_attention(const OpContext& ctx, const TensorView& out, const TensorView& q,
                              const KvCacheView& cache, const AttentionBatch& batch,
                              const AttentionParams& params) {
    cpu::paged_attention(kernels(), ctx, out, q, cache, batch, params);
  }
  static void choose_keys(const OpContext& ctx, const KeyMask& chosen, const TensorView& q,
                          const TensorView& weights, const KvCacheView& keys, const AttentionBatch& batch,
                          int32_t count, int32_t tokens) {
    cpu::choose_keys(kernels(), ctx, chosen, q, weights, keys, batch, count, tokens);
  }
  static void choose_blocks(const OpContext& ctx, const KeyMask& chosen, const TensorView& q,
                            const KvCacheView& keys, const AttentionBatch& batch, const KeyBlocks& blocks) {
    cpu::choose_blocks(kernels(), ctx, chosen, q, keys, batch, blocks);
  }
  static void gated_activation(const OpContext& ctx, const TensorView& out, const TensorView& gate_up,
                               Activation act) {
    cpu::gated_activation(kernels(), ctx, out, gate_up, act);
  }
  static void activation(const OpContext& ctx, const TensorView& x, Activation act) {
    cpu::activation(kernels(), ctx, x, act);
  }
  static void add(const OpContext& ctx, const TensorView& x, const TensorView& y) {
    cpu::add(kernels(), ctx, x, y);
  }
  static void scale_softcap(const OpContext& ctx, const TensorView& x, float scale, float cap) {
    cpu::scale_softcap(kernels(), ctx, x, scale, cap);
  }
  static void combine_rows(const OpContext& ctx, const TensorView& out, const TensorView& y,
                           std::span<const int32_t> places, const TensorView& weights,
                           const TensorView& residual) {
    cpu::combine_rows(kernels(), ctx, out, y, places, weights, residual);
  }
  static void gate(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& gate,
                   Activation act) {
    cpu::gate(kernels(), ctx, out, x, gate, act);
  }
  static void decay_gates(const OpContext& ctx, const TensorView& decay, const TensorView& step,
                          const TensorView& bias, const TensorView& rate, const DecayParams& params) {
    cpu::decay_gates(kernels(), ctx, decay, step, bias, rate, params);
  }
  static void causal_conv(const OpContext& ctx, const TensorView& x, const TensorView& weight,
                          const TensorView& bias, Activation act, const StateBatch& batch,
                          const StateView& state) {
    cpu::causal_conv(kernels(), ctx, x, weight, bias, act, batch, state);
  }
  static void ssm_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& b,
                       const TensorView& c, const TensorView& decay, const TensorView& step,
                       const TensorView& skip, const StateBatch& batch, const StateView& state) {
    cpu::ssm_scan(kernels(), ctx, out, x, b, c, decay, step, skip, batch, state);
  }
  static void delta_rule(const OpContext& ctx, const TensorView& out, const TensorView& q,
                         const TensorView& k, const TensorView& v, const TensorView& decay,
                         const TensorView& beta, const StateBatch& batch, const StateView& state) {
    cpu::delta_rule(kernels(), ctx, out, q, k, v, decay, beta, batch, state);
  }

  static MachineLimits limits(ThreadPool& pool) { return measure_limits(kernels(), pool); }

  static OpTable table(const char* name) {
    OpTable t = reference_ops();
    t.name = name;
    t.workspace_bytes = workspace_bytes;
    t.keeps_two_of_four = keeps_two_of_four;
    t.packed_bytes = packed_bytes;
    t.pack_linear = pack_linear;
    t.linear = linear;
    t.embedding = embedding;
    t.embedding_packed = embedding_packed;
    t.rms_norm = rms_norm;
    t.layer_norm = layer_norm;
    t.rope = rope;
    t.kv_write = kv_write;
    t.paged_attention = paged_attention;
    t.choose_keys = choose_keys;
    t.choose_blocks = choose_blocks;
    t.gated_activation = gated_activation;
    t.activation = activation;
    t.add = add;
    t.scale_softcap = scale_softcap;
    t.combine_rows = combine_rows;
    t.gate = gate;
    t.decay_gates = decay_gates;
    t.causal_conv = causal_conv;
    t.ssm_scan = ssm_scan;
    t.delta_rule = delta_rule;
    return t;
  }
};

}  // namespace

Level avx2_level() {
  static const OpTable table = Bound<make_avx2>::table("avx2");
  return {&table, Bound<make_avx2>::limits};
}

Level avx512_level() {
  static const OpTable table = Bound<make_avx512>::table("avx512");
  return {&table, Bound<make_avx512>::limits};
}

Level avx512_vnni_level() {
  static const OpTable table = Bound<make_avx512_vnni>::table("avx512_vnni");
  return {&table, Bound<make_avx512_vnni>::limits};
}

Level avx512_bf16_level() {
  static const OpTable table = Bound<make_avx512_bf16>::table("avx512_bf16");
  return {&table, Bound<make_avx512_bf16>::limits};
}

Level amx_bf16_level() {
  static const OpTable table = Bound<make_amx_bf16>::table("amx_bf16");
  return {&table, Bound<make_amx_bf16>::limits};
}

MachineLimits generic_limits(ThreadPool& pool) {
  return measure_limits({}, pool);
}

}  // namespace quire::cpu
