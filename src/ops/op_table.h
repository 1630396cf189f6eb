// Every operation that a model is made of, as a table of functions: one table for each device and instruction
// set. Models call through the table and never learn where they run. The tables are built by backends/;
// ops/reference.h is the plain one that the others are tested against.
//
// Contract of every entry:
// - Activations are float32 views [rows, ...] whose rows may be strided. `out` never overlaps an input unless
// it says so.
// - Shapes are checked by the caller once (ops/checks.h), not in the kernels.
// - An output element's value depends only on its own row (and, in attention, on the sequence's earlier
// rows), never on how
//   many rows there are, on their order, or on the number of threads: the order of every sum is fixed by the
//   element.
// - No entry allocates or makes a system call beyond waking the pool's threads.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "quant/weight_format.h"
#include "tensor/tensor.h"

namespace quire {

class OpProfile;
class ThreadPool;

// What an op runs with. Owned by the executor; one step at a time uses it.
struct OpContext {
  ThreadPool* pool = nullptr;  // null: the calling thread alone
  std::span<std::byte>
      workspace;  // scratch of at least OpTable::workspace_bytes(); contents mean nothing between calls
  OpProfile* profile = nullptr;  // where the calls of a timing table are noted (ops/profile.h)
};

// Of the layouts of all tables, and of how they round: raised whenever one changes. Files of packed weights
// know by it whether they are still what packing would give.
inline constexpr int32_t kPackedVersion = 3;

enum class Activation : uint8_t {
  kSilu,
  kGelu,
  kGeluTanh,
  kRelu,
  kReluSquared,
  kSigmoid,
  kSoftplus,  // ln(1 + e^x)
  kNone,      // x itself
  // Of gates alone: with g = min(gate, 7) and u = up between -7 and 7, g * sigmoid(1.702 g) * (u + 1)
  // (gpt-oss). Without an up, u = 0.
  kClampedSwish,
};

// A weight matrix W [n, k] in the layout that one table's `linear` reads. Made by OpTable::pack_linear or
// pack_coded of the same table.
struct PackedLinear {
  WeightFormat format;
  int64_t n = 0;        // output features
  int64_t k = 0;        // input features
  Buffer data;          // the packed weights; the layout is the table's own business
  Buffer bias;          // float32 [n], or empty
  Buffer column_order;  // int32 [k], or empty: packed column i meets x's column column_order[i]; coded only
  // What is added to single weights of codes (ops/outliers.h), or both empty: Outlier [...], row for row, and
  // where a row's begin, int64 [n + 1].
  Buffer outliers;
  Buffer outlier_rows;
  std::string_view label = "linear";  // what a profile calls it; lives as long as the program
  // W is gates above as many ups, and a product gate(x · gates) * (x · ups). Only where can_gate.
  std::optional<Activation> gate = std::nullopt;

  int64_t out_columns() const { return gate ? n / 2 : n; }
};

// An activation with learned numbers (xIELU, arXiv 2411.13010): positive x^2 + slope x where x > 0, else
// negative (e^min(x, limit) - 1 - x) + slope x.
struct XieluParams {
  float positive = 0.0F;
  float negative = 0.0F;
  float slope = 0.5F;
  float limit = -1e-6F;
};

enum class RopeStyle : uint8_t {
  kHalves,       // dimension i turns with i + rotary_dim / 2 (Llama as Hugging Face stores it, GPT-NeoX)
  kInterleaved,  // dimension 2i turns with 2i + 1 (GPT-J, Llama as Meta stores it)
};

// One layer's part of the KV pool. Element order inside a block is the table's own business; bytes are not:
// a block holds keys and values of block_size tokens for each layer, so whole blocks can be copied as bytes.
// int8 comes with a float32 scale for each token and key head, of the keys behind the keys and of the values
// behind the values: an element is its code times its scale. All parts begin at multiples of 4 bytes.
struct KvCacheView {
  std::byte* base = nullptr;  // block 0 of the pool
  int64_t block_stride = 0;   // bytes from one block to the next
  int64_t layer_offset =
      0;  // bytes from a block's begin to this layer's keys; its values follow them directly
  DType dtype = DType::kF32;  // is_kv_dtype (quant/codec.h)
  int32_t block_size = 0;     // tokens
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;   // of a key
  int32_t value_dim = 0;  // of a value, head_dim at the most; 0: head_dim
  // There are keys alone, and a value is the last dimensions of its key.
  bool values_in_keys = false;

  int32_t value_size() const { return value_dim > 0 ? value_dim : head_dim; }
};

// Whether keys and values of that type have scales.
inline bool kv_has_scales(DType dtype) {
  return dtype == DType::kI8;
}

// Bytes that the elements of one layer's keys, or of its values, of `dim` dimensions take in a block. Scales,
// where there are any, follow them: [num_kv_heads, block_size] float32.
inline int64_t kv_element_bytes(DType dtype, int32_t block_size, int32_t num_kv_heads, int32_t dim) {
  const int64_t bytes = int64_t{block_size} * num_kv_heads * dim * static_cast<int64_t>(dtype_size(dtype));
  return kv_has_scales(dtype) ? (bytes + 3) / 4 * 4 : bytes;
}

// The same with their scales: keys take so much, and then the values begin.
inline int64_t kv_part_bytes(DType dtype, int32_t block_size, int32_t num_kv_heads, int32_t dim) {
  const int64_t scales =
      kv_has_scales(dtype) ? int64_t{block_size} * num_kv_heads * static_cast<int64_t>(sizeof(float)) : 0;
  return kv_element_bytes(dtype, block_size, num_kv_heads, dim) + scales;
}

// Bytes that keys and values of one layer take in a block. value_dim 0: head_dim.
inline int64_t kv_bytes_per_block(DType dtype, int32_t block_size, int32_t num_kv_heads, int32_t head_dim,
                                  int32_t value_dim = 0) {
  return kv_part_bytes(dtype, block_size, num_kv_heads, head_dim) +
         kv_part_bytes(dtype, block_size, num_kv_heads, value_dim > 0 ? value_dim : head_dim);
}

// The sequences of a step, flat. Built once a step, read by every layer. Query row r of sequence s
// (cu_seqlens_q[s] <= r < cu_seqlens_q[s + 1]) stands at position seq_lens[s] - (cu_seqlens_q[s + 1] - r) and
// sees positions 0 up to its own (AttentionParams::bidirectional: all of the sequence).
struct AttentionBatch {
  int32_t num_seqs = 0;
  std::span<const int32_t> cu_seqlens_q;        // [num_seqs + 1]
  std::span<const int32_t> seq_lens;            // [num_seqs] tokens in the cache, this step's included
  std::span<const int32_t> block_table_indptr;  // [num_seqs + 1]
  std::span<const int32_t> block_table;         // [block_table_indptr[num_seqs]] block ids, CSR
  // Which sequences read the same blocks, so that these need to be read only once (ops/shared_prefix.h). A
  // hint: results are the same without. Both empty, or:
  std::span<const int32_t> shared_order =
      {};  // [num_seqs] the sequences, those that begin alike side by side
  std::span<const int32_t> shared_blocks = {};  // [num_seqs] leading blocks that shared_order[i] has in
                                                // common with shared_order[i + 1]; the last is 0
};

// Which positions each row of a batch attends to, of those that it would see anyway: bit p % 64 of word p /
// 64 of its row. Of words that hold none of these positions nothing is read.
struct KeyMask {
  uint64_t* words = nullptr;  // [rows, heads, stride]; null: all
  int64_t stride = 0;
  int64_t heads = 1;  // 1: the same positions for all key heads; else as many as there are

  uint64_t* row(int64_t r, int64_t key_head = 0) const {
    return words == nullptr ? nullptr : words + (r * heads + (heads > 1 ? key_head : 0)) * stride;
  }
};
// Of choose_keys and choose_blocks: dimensions of a head.
inline constexpr int64_t kMaxChoosingHead = 256;

// Positions that are chosen together: those of blocks of one size, from position 0 on.
struct KeyBlocks {
  int32_t size = 0;   // a multiple of 16
  int32_t count = 0;  // blocks of a row, at the most
  int32_t local = 0;  // that count whatever they are worth: the row's own and those before it
};

struct AttentionParams {
  float scale = 1.0F;  // multiplies q.k
  int32_t window = 0;  // sliding window in tokens (a query sees itself and window - 1 before it); 0: none
  int32_t chunk = 0;  // a query sees its own chunk of so many positions only, from its begin on; 0: none. Not
                      // together with a window
  // A query also sees what comes behind it, within a window as far as before it. All rows of a sequence are
  // in the batch. Not together with a chunk or ALiBi.
  bool bidirectional = false;
  float logit_softcap = 0;  // cap * tanh(score / cap); 0: none
  // Both [num_heads] float32, or null; the layer that has these parameters owns them.
  const float* alibi_slopes = nullptr;  // slope[h] * (key position - query position) is added to a score
  KeyMask chosen = {};
  const float* sinks = nullptr;  // a score that each query of head h has beside those of the keys: it takes
                                 // its share of the softmax and has no value
};

inline constexpr int64_t kMaxRelativeHead = 512;  // head_dim of relative_attention
// Scores of relative_attention: scale (q.k + q.keys[b] + k.queries[b]) + bias[head, b], where b is the bucket
// of the distance from the query to the key. What is null is left out; the layer that has these parameters
// owns them.
struct RelativeParams {
  float scale = 1.0F;
  std::span<const int32_t> buckets = {};  // [2 reach + 1] by distance, -reach first; beyond: as at reach
  int64_t num_buckets = 0;
  const float* bias = nullptr;     // [num_heads, num_buckets]
  const float* keys = nullptr;     // [num_buckets, num_heads, head_dim]
  const float* queries = nullptr;  // the same
};

// States of fixed size that some layers carry along each sequence: the inputs that a convolution still needs,
// the matrices of a recurrence. Every sequence has the same number of blocks for them, beside those of its
// keys and values; a layer's state is cut into parts, which lie in some of these blocks.
struct StatePlace {
  int32_t block = 0;   // which of a sequence's blocks
  int64_t offset = 0;  // bytes in it, a multiple of 64
};
struct StateView {
  std::byte* base = nullptr;                // block 0 of the pool
  int64_t block_stride = 0;                 // bytes from one block to the next
  std::span<const StatePlace> places = {};  // one for each part
};
// The sequences of a step whose states go on. Built once a step, read by every layer that has some. The
// states of a sequence whose first row stands at position 0 begin as zeros, whatever the memory holds.
struct StateBatch {
  int32_t num_seqs = 0;
  std::span<const int32_t> cu_rows;    // [num_seqs + 1] each one's rows, as AttentionBatch::cu_seqlens_q
  std::span<const int32_t> positions;  // [num_seqs] of its first row
  std::span<const int32_t> blocks;     // [num_seqs, blocks_each] block ids
  int32_t blocks_each = 0;
};

// Part `part` of the state of sequence `seq`, float32.
inline float* state_part(const StateView& view, const StateBatch& batch, int64_t seq, int64_t part) {
  const StatePlace& place = view.places[static_cast<size_t>(part)];
  const int64_t block = batch.blocks[static_cast<size_t>(seq * batch.blocks_each + place.block)];
  return reinterpret_cast<float*>(view.base + block * view.block_stride + place.offset);
}

// What a router's logits are turned into before experts are chosen.
enum class RouterScores : uint8_t {
  kSoftmax,        // over all experts
  kSigmoid,        // of each expert by itself
  kSqrtSoftplus,   // the same: sqrt(ln(1 + e^logit))
  kChosenSigmoid,  // the logits themselves; weights are the sigmoids of the chosen ones
  kChosenSoftmax,  // the logits themselves; weights are a softmax over the chosen ones
  kSparseMixer,    // the logits; a weight is the softmax over those not chosen before that come near it
                   // (PhiMoE)
};

// Which experts a row goes to, and with what weights.
struct RouterParams {
  RouterScores scores = RouterScores::kSoftmax;
  int32_t num_chosen = 1;             // of all experts; at most kMaxExperts of these
  const float* correction = nullptr;  // [num_experts] added to the scores for the choice alone; null: none
  // Experts stand in groups of one size, of which the best `chosen_groups` are looked at. A group is as good
  // as its best expert, or as its two best together.
  int32_t num_groups = 1;
  int32_t chosen_groups = 1;
  bool group_pairs = false;
  bool normalize = false;  // weights are divided by their sum
  float scale = 1.0F;      // then multiplied by this
  bool given = false;      // the ids are there already: nothing is chosen
  float near = 0.0F;       // kSparseMixer: (best - logit) / max(|logit|, best) up to which a logit counts
};
inline constexpr int64_t kMaxExperts = 1024;
inline constexpr int64_t kMaxConvTaps = 8;  // of causal_conv
inline constexpr int64_t kScanPanel = 64;   // channels of a part of selective_scan's state
inline constexpr int64_t kMaxStreams = 16;  // of stream_shares

// How streams of hidden states are mixed (OpTable::stream_shares).
struct StreamParams {
  int32_t rounds = 1;  // in which rows and columns of the mixing matrix are made to sum to 1
  float eps = 0.0F;
};

// How fast states fade (OpTable::decay_gates).
struct DecayParams {
  float low = 0.0F;
  float high = std::numeric_limits<float>::infinity();
  float bound = 0.0F;  // below 0: the least exponent there is; 0: there is none
};

struct OpTable {
  const char* name = "";  // "reference", "avx2", ...

  // Scratch the entries need at most, for a step of max_tokens rows, max_seq_len positions and these head
  // counts.
  size_t (*workspace_bytes)(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                            int threads);

  // Whether products with matrices of that type and that many columns are worth keeping two of four weights
  // for (WeightFormat::two_of_four).
  bool (*keeps_two_of_four)(DType dtype, int64_t k);

  // Bytes of the data that pack_linear and pack_coded make of a matrix [n, k].
  int64_t (*packed_bytes)(const WeightFormat& format, int64_t n, int64_t k);

  // Packs the rows of `parts` ([n_i, k] each, float32, bfloat16 or float16, all with one k) one below the
  // other into one matrix stored in `format` (check_weight_format). Conversions to floats round to nearest
  // even; whole numbers get the scales that quant/int_layout.h says. Where two of four weights are to be kept
  // the table must do so, and the parts must have no more (is_two_of_four). May allocate.
  PackedLinear (*pack_linear)(const OpContext&, std::span<const TensorView> parts, WeightFormat format);

  // The same of matrices of codes, which stay what they are (quant/coded_layout.h): all of one format, one k
  // and one column order. Throws Error where they are not, or where no kernel takes the format. May allocate.
  PackedLinear (*pack_coded)(const OpContext&, std::span<const CodedMatrix* const> parts);

  // out[m, n] = x[m, :] . w[n, :] (+ bias[n]) (+ residual[m, n] when residual.data; residual may be out
  // itself). Of a gated w, with s for these sums, out[m, i] = gate(s[m, i]) * s[m, n / 2 + i], and no
  // residual.
  void (*linear)(const OpContext&, const TensorView& out, const TensorView& x, const PackedLinear& w,
                 const TensorView& residual);

  // out[i, :] = table[ids[i], :], converted to float32. table: [vocab, hidden] float32, bfloat16 or float16.
  void (*embedding)(const OpContext&, const TensorView& out, const TensorView& table,
                    std::span<const int32_t> ids);
  // The same out of a packed matrix (tied embeddings are stored once) that has all its weights.
  void (*embedding_packed)(const OpContext&, const TensorView& out, const PackedLinear& table,
                           std::span<const int32_t> ids);

  // out = x / sqrt(mean(x^2) + eps) * (weight + weight_offset), over the last dimension of size
  // weight.shape[0]; x [rows, d] or [rows, heads, d] (each head by itself). weight float32. out may be x.
  void (*rms_norm)(const OpContext&, const TensorView& out, const TensorView& x, const TensorView& weight,
                   float eps, float weight_offset);
  // out = (x - mean) / sqrt(var + eps) * weight + bias; bias.data may be null. out may be x.
  void (*layer_norm)(const OpContext&, const TensorView& out, const TensorView& x, const TensorView& weight,
                     const TensorView& bias, float eps);

  // Turns x [rows, heads, head_dim] in place; the first rotary_dim dimensions of each head. cos_sin
  // [max_positions, rotary_dim] float32: rotary_dim/2 cosines, then rotary_dim/2 sines (attention factor
  // multiplied in).
  void (*rope)(const OpContext&, const TensorView& x, std::span<const int32_t> positions,
               const TensorView& cos_sin, RopeStyle style);

  // Stores k [rows, num_kv_heads, head_dim] and v [rows, num_kv_heads, value_dim] at slots (block id *
  // block_size + offset; -1 skips the row). v empty: the cache has keys alone.
  void (*kv_write)(const OpContext&, const KvCacheView& cache, const TensorView& k, const TensorView& v,
                   std::span<const int64_t> slot_mapping);
  // q [rows, num_heads, head_dim], out [rows, num_heads, value_dim]. Softmax attention over the cache (which
  // holds this step's keys already). num_heads is a multiple of cache.num_kv_heads; query head h reads key
  // head h / (num_heads / num_kv_heads).
  void (*paged_attention)(const OpContext&, const TensorView& out, const TensorView& q,
                          const KvCacheView& cache, const AttentionBatch& batch,
                          const AttentionParams& params);

  // Sets each row's bits of `chosen` to the `count` positions up to its own that score highest, of equal ones
  // to the first; to all of them where there are no more. A score is the sum over heads h of weights[row, h]
  // * max(0, q[row, h] . key). q [rows, heads, head_dim]; weights [rows, heads]; the cache has one key head,
  // keys alone, this step's already. A key stands for so many `tokens`, the last of which is the row's own at
  // the latest, and a block of the cache has keys for all that its tokens end.
  void (*choose_keys)(const OpContext&, const KeyMask& chosen, const TensorView& q, const TensorView& weights,
                      const KvCacheView& keys, const AttentionBatch& batch, int32_t count, int32_t tokens);

  // Sets the bits, up to a row's own position, of blocks that are worth most to each head by itself: as much
  // as the highest of the products q[row, head] . key of their positions. q [rows, heads, head_dim]; the
  // cache has one key head, keys alone, this step's already; chosen has as many heads.
  void (*choose_blocks)(const OpContext&, const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                        const AttentionBatch& batch, const KeyBlocks& blocks);

  // Softmax attention of whole sequences to themselves, both ways, whose scores depend on how far apart two
  // tokens are (RelativeParams); the cache is not looked at, all rows of a sequence are in the batch. out, q,
  // k, v: [rows, num_heads, head_dim]. out may be q.
  void (*relative_attention)(const OpContext&, const TensorView& out, const TensorView& q,
                             const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                             const RelativeParams& params);

  // out[r, i] = act(gate_up[r, i]) * gate_up[r, d + i]; gate_up [rows, 2 d], out [rows, d].
  void (*gated_activation)(const OpContext&, const TensorView& out, const TensorView& gate_up,
                           Activation act);
  // x = act(x), in place.
  void (*activation)(const OpContext&, const TensorView& x, Activation act);
  // In place.
  void (*xielu)(const OpContext&, const TensorView& x, const XieluParams& params);
  // x = max(0, x - mean - deviations * sqrt(mean((x - mean)^2))) over each row, in place.
  void (*relu_above)(const OpContext&, const TensorView& x, float deviations);
  // x = min(high, max(low, x)), in place.
  void (*clamp)(const OpContext&, const TensorView& x, float low, float high);
  // x *= sqrt(mean(like^2) / max(mean(x^2), least)), row by row, in place: x becomes as large as `like`.
  void (*match_rms)(const OpContext&, const TensorView& x, const TensorView& like, float least);
  // x += y.
  void (*add)(const OpContext&, const TensorView& x, const TensorView& y);
  // out[i, :] = x[rows[i], :].
  void (*gather_rows)(const OpContext&, const TensorView& out, const TensorView& x,
                      std::span<const int32_t> rows);
  // x = cap * tanh(x / cap), in place, after x *= scale.
  void (*scale_softcap)(const OpContext&, const TensorView& x, float scale, float cap);

  // The experts of each row, best first, ties to the lower number: ids [rows * num_chosen], weights [rows,
  // num_chosen]; logits [rows, num_experts].
  void (*route_experts)(const OpContext&, std::span<int32_t> ids, const TensorView& weights,
                        const TensorView& logits, const RouterParams& params);
  // out[r, :] = sum over j of weights[r, j] * y[places[r * k + j], :], in the order of j, (+ residual[r, :]
  // when residual.data, as its first term; residual may be out itself). weights [rows, k], y [any, d], out
  // [rows, d].
  void (*combine_rows)(const OpContext&, const TensorView& out, const TensorView& y,
                       std::span<const int32_t> places, const TensorView& weights,
                       const TensorView& residual);

  // Hyper-connections (arXiv 2512.24880): what s streams of hidden states give to a layer, and get of it. For
  // each row in[i] = sigmoid(scale[0] scores[i] + base[i]) + eps. The scores behind these make, scaled with
  // scale[1], s numbers post = 2 sigmoid(...), and scaled with scale[2] a matrix mix [s, s], the softmax of
  // each of its rows + eps, whose columns, then rows and columns in turn, are divided by their sums + eps.
  // out [rows, s (s + 1)] has for each stream k mix[0, k], ..., mix[s - 1, k], post[k]. scores [rows, s (s +
  // 2)] and scale [3], or [rows, s] and [1] where `out` is empty; base as wide as scores.
  void (*stream_shares)(const OpContext&, const TensorView& in, const TensorView& out,
                        const TensorView& scores, const TensorView& base, const TensorView& scale,
                        const StreamParams& params);

  // out = act(gate) * x; [rows, d] each, or a gate [rows, heads] of which each number counts for d / heads
  // columns of x. out may be x, or gate where it is as large.
  void (*gate)(const OpContext&, const TensorView& out, const TensorView& x, const TensorView& gate,
               Activation act);
  // step = min(high, max(low, ln(1 + e^(step + bias)))), in place; decay = e^(rate * step). With a bound:
  // step = 1 / (1 + e^(rate * (step + bias))), decay = e^(bound * step). step, decay [rows, heads]; bias,
  // rate [heads].
  void (*decay_gates)(const OpContext&, const TensorView& decay, const TensorView& step,
                      const TensorView& bias, const TensorView& rate, const DecayParams& params);
  // Each column of x [rows, d] by itself, in place: x[t] = act(bias + sum over j of weight[j] * x[t - taps +
  // 1
  // + j]), where earlier rows are those of the same sequence. weight [taps, d], bias [d] or null. The state
  // has one part [taps - 1, d]: the last inputs, oldest first.
  void (*causal_conv)(const OpContext&, const TensorView& x, const TensorView& weight, const TensorView& bias,
                      Activation act, const StateBatch& batch, const StateView& state);
  // The recurrence of Mamba 2 (arXiv 2405.21060, with one rate for each head), token by token: for each head
  // S[n, p] = decay S[n, p] + b[n] step x[p], then out[p] = skip x[p] + sum over n of c[n] S[n, p]. x, out
  // [rows, heads, p]; b, c [rows, groups, n], head h has group h / (heads / groups); decay, step [rows,
  // heads], or one row for all (row_stride 0); skip [heads]. The state has a part [n, p] for each head.
  void (*ssm_scan)(const OpContext&, const TensorView& out, const TensorView& x, const TensorView& b,
                   const TensorView& c, const TensorView& decay, const TensorView& step,
                   const TensorView& skip, const StateBatch& batch, const StateView& state);
  // The recurrence of Mamba (arXiv 2312.00752), token by token: with dt = ln(1 + e^step), for each channel d
  // S[n, d] = e^(rate[n, d] dt[d]) S[n, d] + b[n] dt[d] x[d], then out[d] = skip[d] x[d] + sum over n of c[n]
  // S[n, d]. x, step, out [rows, channels]; b, c [rows, n]; rate [n, channels]; skip [channels]. The state
  // has a part [n, kScanPanel] for each kScanPanel channels.
  void (*selective_scan)(const OpContext&, const TensorView& out, const TensorView& x, const TensorView& step,
                         const TensorView& b, const TensorView& c, const TensorView& rate,
                         const TensorView& skip, const StateBatch& batch, const StateView& state);
  // The gated delta rule (arXiv 2412.06464), token by token: for each value head d[v] = beta (v[v] - decay
  // sum over k of k[k] S[k, v]), S[k, v] = decay S[k, v] + k[k] d[v], then out[v] = sum over k of q[k] S[k,
  // v]. q, k [rows, key heads, k]; v, out [rows, heads, v]; head h has key head h / (heads / key heads);
  // decay, beta [rows, heads]. decay [rows, heads * k]: each k of a head has its own (arXiv 2510.26692). The
  // state has a part [k, v] for each head.
  void (*delta_rule)(const OpContext&, const TensorView& out, const TensorView& q, const TensorView& k,
                     const TensorView& v, const TensorView& decay, const TensorView& beta,
                     const StateBatch& batch, const StateView& state);
  // Windows of n tokens made into one row each: out[t, c] of the last token of a window is the sum over its
  // tokens j of values[j, c], weighed with the softmax over these of gates[j, c] + bias[j % n, c]; other rows
  // of out are zeros. values, gates [rows, d], bias [n, d], out [rows, d]. Where these have 2 d columns, a
  // window's first d columns count in the next window, together with the last d columns of that. The state
  // has one part, of compress_state() floats.
  void (*compress)(const OpContext&, const TensorView& out, const TensorView& values, const TensorView& gates,
                   const TensorView& bias, const StateBatch& batch, const StateView& state);
};

// Floats of the state of OpTable::compress: for each channel of a window that is not complete the highest
// gate, the sum of weights and the weighted sum.
inline int64_t compress_state(int64_t columns, bool overlap) {
  return 3 * columns * (overlap ? 2 : 1);
}

}  // namespace quire
