// Declarations that all ops share: the context that an op runs in, its cost, and the entries of an op table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/weight_format.h"
#include "tensor/tensor.h"

namespace quire {

class DeviceStream;
class OpProfile;
class ThreadPool;

// Variants of kernels, of which one is faster on some processors and another on others. They give the same
// bits. exec/kernel_tuner.h chooses by measuring.
struct KernelTuning {
  // Integer products of a few rows prefetch weights into the L2 cache, not into L1.
  bool prefetch_into_l2 = true;

  friend bool operator==(const KernelTuning&, const KernelTuning&) = default;
};

// The context that an op runs in. Owned by the executor; used by one step at a time.
struct OpContext {
  ThreadPool* pool = nullptr;      // null = run on the calling thread only
  std::span<std::byte> workspace;  // at least OpTable::workspace_bytes(); contents do not outlive a call
  OpProfile* profile = nullptr;    // where a profiling table records its calls (ops/profile.h)
  KernelTuning tuning = {};
  DeviceStream* stream = nullptr;  // where an op of a step is submitted; null while a model is loaded
};

// The least work that a call of an op must do.
struct OpCost {
  std::string_view label;  // name in profiles; lives as long as the program, or as the model for a matrix
  double bytes = 0;        // read and written, each byte once
  double flop = 0;
  int64_t rows = 0;
  int64_t columns = 0;                    // matrix products: output features
  int64_t depth = 0;                      // matrix products: input features
  const WeightFormat* weights = nullptr;  // matrix products: the format of the weights
};

// The cost of an op that reads or writes `tensors` float32 arrays of x's size once, with `flop` operations
// per element.
inline OpCost elementwise_cost(std::string_view label, const TensorView& x, double tensors, double flop) {
  const auto elements = static_cast<double>(x.shape.numel());
  return {.label = label,
          .bytes = tensors * elements * static_cast<double>(sizeof(float)),
          .flop = flop * elements,
          .rows = x.rows()};
}

// An entry of an op table. Args is the op's argument struct, declared with its contract, shape check and cost
// in the header of the op's family.
template <class Args>
using Op = void (*)(const OpContext&, const Args&);

// A list of ops, each named by its argument struct.
template <class... Args>
struct OpList {};

template <class... Lists>
struct ConcatOps;
template <class... Args>
struct ConcatOps<OpList<Args...>> {
  using List = OpList<Args...>;
};
template <class... A, class... B, class... Rest>
struct ConcatOps<OpList<A...>, OpList<B...>, Rest...> : ConcatOps<OpList<A..., B...>, Rest...> {};

// f.template operator()<Args>() for each op of the list.
template <class... Args, class F>
void for_each_op(OpList<Args...> /*list*/, F&& f) {
  (f.template operator()<Args>(), ...);
}

}  // namespace quire
