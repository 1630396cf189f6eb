// Every operation that a model consists of, as a table of functions: one table for each device and
// instruction set. Models call ops through the table and do not depend on the device. The tables are built by
// backends/; ops/reference.h is the plain one that the others are tested against.
//
// Contract of every op, in addition to the one at its argument struct:
// - Activations are float32 views [rows, ...] whose rows may be strided. An output never overlaps an input
//   unless the struct says so.
// - Kernels do not check shapes. checked() returns a table that does; tests run models through it.
// - An output element depends only on its own row (in attention and recurrent layers, on the sequence's rows
//   up to it). It does not depend on the number or order of rows or on the number of threads: the order of
//   every sum is fixed by the element.
// - Memory that arguments refer to (views, pointers, spans) is the device's, and stays as it is until the op
//   has run. The arguments themselves, and structs that they refer to, have been read when the call returns.
// - No op allocates, or makes a system call other than to wake the pool's threads.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>

#include "ops/attention.h"
#include "ops/compressed_keys.h"
#include "ops/embedding_change.h"
#include "ops/experts.h"
#include "ops/linear.h"
#include "ops/low_rank.h"
#include "ops/low_rank_experts.h"
#include "ops/op.h"
#include "ops/recurrent.h"
#include "ops/rows.h"
#include "ops/streams.h"
#include "ops/trained_tokens.h"
#include "quant/weight_format.h"
#include "tensor/tensor.h"

namespace quire {

// All ops. Profiling, shape checks, the tables and the tests are templates over this list.
using AllOps = ConcatOps<ops::LinearOps, ops::LowRankOps, ops::LowRankExpertOps, ops::RowOps,
                         ops::AttentionOps, ops::ExpertOps, ops::RecurrentOps, ops::CompressedKeyOps,
                         ops::StreamOps, ops::EmbeddingChangeOps, ops::TrainedTokenOps>::List;

// Version of all packed layouts and of their rounding; raised with every change. Files of packed weights are
// valid for one version only.
inline constexpr int32_t kPackedVersion = 3;

template <class List>
struct OpEntries;
template <class... Args>
struct OpEntries<OpList<Args...>> {
  std::tuple<Op<Args>...> entries{};
};

struct OpTable {
  const char* name = "";  // "reference", "avx2", ...

  // Workspace that the ops need at most, for steps of max_tokens rows, max_seq_len positions and these heads.
  size_t (*workspace_bytes)(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                            int threads) = nullptr;

  // Whether products with 2:4 sparse matrices of that type and number of columns are faster if the zeros are
  // not stored (WeightFormat::sparse_24).
  bool (*keeps_sparse_24)(DType dtype, int64_t k) = nullptr;

  // Size in bytes of the data that pack_linear and pack_quantized return for a matrix [n, k].
  int64_t (*packed_bytes)(const WeightFormat& format, int64_t n, int64_t k) = nullptr;

  // Packs the rows of `parts` ([n_i, k] each, float32, bfloat16 or float16, all with the same k), stacked in
  // order, into one matrix stored in `format` (check_weight_format). Conversions to floats round to nearest
  // even; integers get the scales defined in quant/int_layout.h. For a 2:4 sparse format, keeps_sparse_24
  // must hold and the parts must be sparse (is_sparse_24). May allocate.
  PackedLinear (*pack_linear)(const OpContext&, std::span<const TensorView> parts,
                              WeightFormat format) = nullptr;

  // The same for quantized matrices, whose values are kept (quant/quant_layout.h). All parts have the same
  // format, k and column order. Throws Error if they do not, or if no kernel supports the format. May
  // allocate.
  PackedLinear (*pack_quantized)(const OpContext&, std::span<const QuantizedMatrix* const> parts) = nullptr;

  OpEntries<AllOps> ops = {};
  bool checks_shapes = false;  // run() calls the op's check first
  bool has_variants = false;   // the kernels follow OpContext::tuning

  template <class Args>
  void run(const OpContext& ctx, const Args& args) const {
    if (checks_shapes) check(args);
    entry<Args>()(ctx, args);
  }
  template <class Args>
  Op<Args> entry() const {
    return std::get<Op<Args>>(ops.entries);
  }
  template <class Args>
  void set(Op<Args> op) {
    std::get<Op<Args>>(ops.entries) = op;
  }
};

// The same table, except that every op checks its shapes first and throws Error with the op, the operands,
// their shapes and the rule that they violate.
inline OpTable checked(OpTable table) {
  table.checks_shapes = true;
  return table;
}

struct AdapterRows;  // nn/adapter.h

// The table and context of a step: run(ops::Add{.x = x, .y = y}).
struct OpRunner {
  const OpTable& table;
  const OpContext& ctx;
  // Adapters of the rows of all calls, which layers apply; null = none.
  const AdapterRows* adapters = nullptr;

  template <class Args>
  void operator()(const Args& args) const {
    table.run(ctx, args);
  }
};

}  // namespace quire
