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
  fill_quantized_avx2(kernels);
  fill_quantized_int_avx2(kernels);
  return kernels;
}

CpuKernels make_avx512() {
  CpuKernels kernels = make_avx2();
  fill_avx512(kernels);
  fill_quantized_avx512(kernels);
  fill_quantized_int_avx512(kernels);
  return kernels;
}

CpuKernels make_avx512_vnni() {
  CpuKernels kernels = make_avx512();
  fill_avx512_vnni(kernels);
  fill_quantized_int_vnni(kernels);
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
  fill_amx_int8(kernels);
  return kernels;
}

template <class Args>
concept HasKernel = requires(const CpuKernels& kernels, const OpContext& ctx, const Args& args) {
  cpu::run(kernels, ctx, args);
};

// Entries of an op table are stateless functions, so each level has its own functions, bound to its kernels.
template <CpuKernels (*kMake)()>
struct Bound {
  static const CpuKernels& kernels() {
    static const CpuKernels made = kMake();
    return made;
  }
  template <class Args>
  static void run(const OpContext& ctx, const Args& args) {
    cpu::run(kernels(), ctx, args);
  }
  static size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                                int threads) {
    return std::max({cpu::workspace_bytes(max_tokens, max_seq_len, num_heads, head_dim, threads),
                     linear_workspace_bytes(kernels()), int_workspace_bytes(kernels(), threads),
                     kLowRankWorkspace + kLowRankRowBytes * static_cast<size_t>(max_tokens)});
  }
  static bool keeps_sparse_24(DType dtype, int64_t k) { return cpu::keeps_sparse_24(kernels(), dtype, k); }
  static PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts,
                                  WeightFormat format) {
    return cpu::pack_linear(kernels(), ctx, parts, format);
  }
  static MachineLimits limits(ThreadPool& pool) { return measure_limits(kernels(), pool); }

  static OpTable table(const char* name) {
    OpTable t = reference_ops();
    t.name = name;
    t.workspace_bytes = workspace_bytes;
    t.keeps_sparse_24 = keeps_sparse_24;
    t.packed_bytes = packed_bytes;
    t.pack_linear = pack_linear;
    t.has_variants = true;
    for_each_op(AllOps{}, [&t]<class Args>() {
      if constexpr (HasKernel<Args>) t.set<Args>(run<Args>);
    });
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
