// Products of a few rows that share parallel loops: those of a layer's experts, or of the heads of latent
// attention. Each has two phases, between which its activations are in workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels.h"
#include "ops/op_table.h"

namespace quire::cpu {

// out[i, :] = x[i, :] · w, as in ops::Linear.
struct SmallProduct {
  const PackedLinear& w;
  TensorView out;                 // [m, w.out_columns()]
  TensorView x;                   // [any, w.k]
  const int32_t* rows = nullptr;  // [m]: the rows of x that are multiplied; null = its first m rows
  KernelTuning tuning = {};

  int64_t m() const { return out.rows(); }
  int64_t row(int64_t i) const { return rows == nullptr ? i : rows[i]; }
  // The product of its rows, gathered as `x_rows`.
  ops::Linear of_rows(const TensorView& x_rows) const { return {.out = out, .x = x_rows, .w = w}; }
};

// Maximum number of rows of such a product. More rows occupy all threads on their own.
constexpr int64_t kMaxSmallRows = 47;

// Whether the product may be one of several. Matrices with a column order or outliers are multiplied alone.
bool is_small(const SmallProduct& product);

// The two phases for a family of weight formats.
struct SmallForm {
  // Bytes of workspace between the phases.
  int64_t (*prepared_bytes)(const CpuKernels& kernels, const SmallProduct& product);
  // First phase: writes the activations to memory aligned to 64, in the form that the kernels read.
  void (*prepare)(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory);
  // Second phase: multiplies panels [begin, end) of panels_to_cut. Different panels may be multiplied at the
  // same time.
  void (*multiply)(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory, int64_t begin,
                   int64_t end);
};
extern const SmallForm kSmallFloat;      // linear.cc
extern const SmallForm kSmallInt;        // linear_int.cc
extern const SmallForm kSmallQuantized;  // linear_quantized.cc
const SmallForm& form_of(const SmallProduct& product);

// Rows that kernels read by a stride need memory of their own if they are not consecutive.
int64_t gathered_bytes(const SmallProduct& product);  // a multiple of 64; 0 = they are read in place
// The rows, after copying them to `memory` if they need it.
TensorView gather(const SmallProduct& product, std::byte* memory);
// The same after a call of gather().
TensorView gathered(const SmallProduct& product, std::byte* memory);

}  // namespace quire::cpu
