// Kernels of integer weights, and their entries of the kernel table for one type of dot products.

// clang-format off
#include "backends/cpu/kernels/quantize_rows.inc.h"
#include "backends/cpu/kernels/split_rows.inc.h"
#include "backends/cpu/kernels/linear_int.inc.h"
#include "backends/cpu/kernels/linear_int_float.inc.h"
#include "backends/cpu/kernels/pack_int.inc.h"
#include "backends/cpu/kernels/fold_group_scales.inc.h"
// clang-format on

template <class D, int kKind>
void fill_int_kind(CpuKernels& t) {
  t.linear_int[kKind] = linear_int<D, kKind>;
  t.linear_int_float[kKind] = linear_int_float<D, kKind>;
}

template <class D>
void fill_int(CpuKernels& t) {
  t.int_block_rows = D::kBlockRows;
  t.int8_zero = D::kInt8Zero;
  t.quantize_rows = quantize_rows<typename D::V>;
  t.split_rows = split_rows<typename D::V>;
  t.pack_int = pack_int<D>;
  fill_int_kind<D, kInt8Rows>(t);
  fill_int_kind<D, kInt8Groups>(t);
  fill_int_kind<D, kInt4>(t);
  fill_int_kind<D, kInt4ZeroPoints>(t);
  t.linear_int[kInt4TwoLevel] = linear_int<D, kInt4TwoLevel>;
}
