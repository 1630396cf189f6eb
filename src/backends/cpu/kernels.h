// The inner functions of one instruction set, as a table. Arguments are plain pointers and numbers: each file
// in isa/ is compiled for its own instruction set, so it must not use inline functions that other files
// share. The surrounding code (views, partitioning, workspace) is compiled once: linear.cc, rows.cc,
// states.cc, attention.cc, select_keys.cc.
//
// All are pure functions of their arguments and may be called on any thread. Results do not depend on how
// rows or columns are grouped into calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/activation_slices.h"

namespace quire::cpu {

// Index of a storage format in the kernel tables.
enum Storage : int { kStorageF32, kStorageBF16, kStorageF16, kNumStorages };
// Index of a KV cache format in the kernel tables.
enum KvFormat : int { kKvF32, kKvBF16, kKvF16, kKvE4M3, kKvE5M2, kKvI8, kNumKvFormats };
enum Act : int {
  kActSilu,
  kActGelu,
  kActGeluTanh,
  kActRelu,
  kActReluSquared,
  kActClampedSwish,
  kActUnclampedSwish,
  kActSigmoid,
  kActSoftplus,
  kActNone
};

// Output columns per panel of packed weights. The elements of a panel are ordered as follows:
//   float32   along K: columns 0 to 31 of element 0, columns 0 to 31 of element 1, ...
//   float16   like float32
//   bfloat16  two elements along K at a time: 32-bit lanes 0 to 31, one per column, with the first
//             element in the low half and the second in the high half; an odd K is padded with zeros
// The last panel is padded with columns of zeros.
constexpr int64_t kPanel = 32;

// K as stored in a panel of the format, including padding.
constexpr int64_t padded_k(Storage storage, int64_t k) {
  return storage == kStorageBF16 ? (k + 1) / 2 * 2 : k;
}

// out = act(gate) * up. If up is null, out = act(gate).
using ActivateRow = void (*)(float* out, const float* gate, const float* up, int64_t n, Act act);

// Fused activation of a gated product. The rows of W are the gates, then the ups, in full panels each; the
// output is act(gate) * up. The same thread computes a gate panel before the corresponding up panel.
struct Gate {
  ActivateRow apply = nullptr;  // null = not gated, W is one matrix
  Act act = kActNone;
};

// How kernels of integer products prefetch weights that a single pass reads.
struct WeightPrefetch {
  int64_t bytes;  // distance
  bool into_l2;   // not into L1
};

struct LinearArgs {
  const void* x;     // [rows, k] float32, or the output of CpuKernels::prepare_x
  int64_t x_stride;  // in float32 elements, or in 32-bit pairs
  float* out;        // [rows, n]; if gated, [rows, n / 2]
  int64_t out_stride;
  const float* residual;  // [rows, n] or null; may alias out; null if gated
  int64_t residual_stride;
  const float* bias;  // [n] or null
  const void* weights;
  int64_t n;
  int64_t k;
  Gate gate;
};

// Storage of integer weights (quant/int_layout.h): int8 with one scale per row, int8 with one scale per group
// along K, int4 with the zero point in the middle, int4 with zero points per group, int4 with second-level
// integer scales.
enum IntKind : int { kInt8Rows, kInt8Groups, kInt4, kInt4ZeroPoints, kInt4TwoLevel, kNumIntKinds };

// Rows of activations as int8, or float32 activations split into int8 slices (quant/activation_slices.h).
// Rows are grouped into blocks that a kernel multiplies at once. In a block, the elements of all rows are
// interleaved, and the slices of a row are stored like additional rows. A block of `rows` rows that starts at
// row `first` begins at codes + first * slices * depth, scales + first * num_units, sums + first * slices *
// num_units. For products on tile registers (CpuKernels::linear_int_tiles), a row has its codes one after the
// other, `depth` apart from those of the next row.
struct IntActivations {
  const float* x;  // [rows, k]
  int64_t x_stride;
  int64_t k;
  int64_t depth;       // k rounded up to 8
  int64_t group;       // elements along K that share a scale
  int64_t unit;        // elements along K per exact-accumulation block
  int64_t num_units;   // exact-accumulation blocks per row
  int64_t slices;      // per element: 1, kInt16Slices or kFloatSlices
  int32_t zero_point;  // offset of the stored weights; `sums` contains the negated sums of activations times
                       // this offset
  int8_t* codes;       // [depth / 4][rows][slices][4] per block; for tiles [rows][depth]
  float* scales;       // [num_units][rows] per block
  float* totals;       // [num_units][rows] per block: scales times the joined sums
  int32_t* sums;       // [num_units][rows][slices] per block
};

struct IntLinearArgs {
  IntActivations in;  // only x is read for products with float activations
  const std::byte* weights;
  int64_t panel_bytes;
  int64_t group_bytes;
  int64_t header_bytes;
  int64_t group;            // elements along K that share a weight scale
  int64_t second_level_at;  // kInt4TwoLevel: offset in a group of the second-level scales, one per in.unit
                            // elements
  const std::byte* next;    // memory to prefetch while many rows are multiplied; null = the next panel
  WeightPrefetch prefetch;  // with few rows
  int64_t n;
  float* out;  // as in LinearArgs
  int64_t out_stride;
  const float* residual;
  int64_t residual_stride;
  const float* bias;
  Gate gate;
};

// The rows of one block that are multiplied by a panel, and the index of this block among all blocks that use
// the panel.
struct IntBlock {
  int64_t row;
  int64_t rows;
  int64_t index;
  int64_t count;
};

// Blocks [first, first + num) of `count` blocks of nearly equal size that `rows` rows are divided into. Block
// b begins with row rows * b / count.
struct IntBlocks {
  int64_t rows;
  int64_t count;
  int64_t first;
  int64_t num;  // at most kMaxIntBlocks
};
constexpr int64_t kMaxIntBlocks = 32;
// Maximum number of rows of a block for tile registers.
constexpr int64_t kIntTileBlock = 32;

// Maximum number of second-level scales per group.
constexpr int64_t kMaxSecondLevelScales = 8;

// Conversion of a panel of int4 weights with second-level scales into int8 weights with the same groups and
// scales.
struct IntFoldArgs {
  const std::byte* from;
  int64_t k;
  int64_t group;
  int64_t second_level_group;
  int64_t second_level_at;  // offset in a group
  int64_t header_bytes;     // header size of a group
  int64_t group_bytes;
  std::byte* to;
  int64_t to_header_bytes;
  int64_t to_group_bytes;
};

// One panel of 32 rows of W to be quantized to integers.
struct IntPackArgs {
  float* weights;  // [k][32]; overwritten
  std::byte* dst;
  int64_t k;
  int64_t group;
  int64_t step;  // elements along K per 128-byte line of weights: 4 or 8
  int64_t header_bytes;
  int64_t group_bytes;
  bool row_scale;
  bool zero_points;
  int64_t second_level_group;  // 0 = no second-level scales
  int64_t second_level_at;     // offset in a group
  float max_second_level_scale;
  const float* candidates;  // IntCandidates
  int num_candidates;
  float low;
  float high;
};

// Types of quantized values other than integers: entries of a table, e4m3 computed arithmetically, entries of
// a table per row.
enum QuantizedValues : int { kQuantizedTable, kQuantizedE4M3, kQuantizedRowTable, kNumQuantizedValues };
// Storage types of block scales.
enum QuantizedScales : int { kQuantizedF32, kQuantizedF16, kQuantizedBF16 };

// Offsets of the parts of a block (quant/quant_layout.h).
struct QuantizedHeader {
  int64_t minima;
  int64_t group_scales;
  int64_t group_minima;
  int64_t group_zero_points;
  int64_t codes;
};

// A product with a quantized matrix. Its K dimension is in packed order, and so are the columns of x.
struct QuantizedMatrixArgs {
  LinearArgs io;  // x is float32; weights are the panels
  int64_t k;
  int64_t group;
  int64_t block;
  int64_t block_bytes;
  int64_t panel_bytes;
  QuantizedHeader whole;  // header of a block
  QuantizedHeader last;   // header of the last block of a row
  QuantizedScales scales;
  bool two_levels;
  bool minima;
  bool group_zero_points;
  const float* table;              // [at least 16, codes]; unused for integer values
  const float* group_scale_table;  // [256] or null
  bool e4m3_group_scales;          // the table is e4m3 without its NaN
  bool e8m0_group_scales;          // the table is e8m0
};

// A product of integer weights and integer activations (IntBlocking in quant/quant_layout.h).
struct QuantizedIntArgs {
  QuantizedMatrixArgs m;  // x and table are unused
  IntActivations in;      // zero_point is 1 if the weights have mins or zero points per group
  int32_t zero_point;  // the initial sum of an exact-accumulation block is the sum of its activations times
                       // this: the offset of the multiplied integers
  const uint8_t* numbers;   // [16] 128 + the integer that each code represents; only for types with a table
  float step;               // the value of 1 in the integers of a table
  WeightPrefetch prefetch;  // with few rows
};

// Maximum number of query rows, over all KV heads, in one call of attend_split; a multiple of the kernels'
// row blocks.
constexpr int kMaxQueryRows = 192;
// Positions that share one softmax update; a multiple of 16.
constexpr int64_t kTile = 64;
// Positions whose partial results are merged in one step; a multiple of kTile.
constexpr int64_t kKvSplit = 512;

// Value dimensions that are transposed out of keys at a time.
constexpr int64_t kTransposedDims = 64;

// One query row at position kv_end - 1: one query head of one token.
struct QueryRow {
  const float* q;           // [head_dim]
  const uint32_t* q_pairs;  // for attend_pairs: [head_dim / 2], the query as written by prepare_x
  int64_t kv_begin;         // first position seen
  int64_t kv_end;           // one past the last position seen
  float slope;  // ALiBi: slope * (key position - query position) is added to a score; used if args.alibi
  const uint64_t* selected = nullptr;  // one bit per position and one word per tile; null = all positions
};

// Partial softmax state of each query row.
struct AttentionState {
  float* max;  // [num_kv_heads, query_row_stride]
  float* sum;  // [num_kv_heads, query_row_stride]
  float* acc;  // [num_kv_heads, query_row_stride, acc_stride]
};

// Attention of the same query rows for several KV heads. A block stores its heads contiguously, so processing
// several heads together reads it sequentially.
struct AttentionArgs {
  const QueryRow* query_rows;  // [num_kv_heads, query_row_stride]; kv_begin and kv_end ascend within a head
  int num_query_rows;          // per KV head
  int query_row_stride;
  const std::byte* keys;  // address of this layer in block 0
  int64_t block_stride;   // bytes
  int64_t values_offset;  // bytes from the keys of a block to its values
  int64_t key_scales;     // bytes from the keys of a block to their scales
  int64_t value_scales;   // bytes from the values of a block to their scales
  const int32_t* blocks;  // block ids of the sequence
  int64_t block_size;
  int64_t kv_head;  // first KV head
  int num_kv_heads;
  int64_t head_dim;
  int64_t value_dim;
  bool values_in_keys;  // MLA: values are the last dimensions of the keys, and values_offset is 0
  int64_t acc_stride;   // value_dim rounded up to 16
  float scale;
  float softcap;          // 0 = no soft cap
  bool alibi;             // whether QueryRow::slope is added
  float* scores;          // scratch [kMaxQueryRows, kTile]
  void* key_tile;         // scratch [head_dim, kTile] of the storage format
  uint16_t* wide_keys;    // scratch [head_dim, kTile]
  uint16_t* wide_values;  // scratch [kTile, acc_stride]
  float* transposed;      // scratch [kTile, kTransposedDims]
};

// Maximum number of tokens per kv_write call.
constexpr int64_t kMaxRun = 16;

// Consecutive tokens of a block: keys [num_heads, head_dim, block_size], values [num_heads, block_size,
// value_dim].
struct KvWriteArgs {
  std::byte* keys;  // the keys of the block
  std::byte* values;
  int64_t key_scales;    // bytes from the keys to their scales
  int64_t value_scales;  // bytes from the values to theirs
  const float* k;        // [count, num_heads, head_dim], rows k_stride apart
  const float* v;        // [count, num_heads, value_dim], rows v_stride apart; null = write only keys
  int64_t k_stride;
  int64_t v_stride;
  int64_t count;  // at most kMaxRun
  int64_t num_heads;
  int64_t head_dim;
  int64_t value_dim;
  int64_t block_size;
  int64_t offset;  // position of the first token in the block
};

// A causal convolution of some columns over one sequence, in place.
struct ConvArgs {
  float* x;  // [rows, columns]
  int64_t x_stride;
  int64_t rows;
  int64_t columns;
  const float* weight;  // [conv_kernel, columns]
  int64_t weight_stride;
  const float* bias;  // [columns] or null
  float* inputs;  // [conv_kernel - 1, columns]: the last inputs before the first row; updated to those of the
                  // last row
  int64_t inputs_stride;
  int64_t conv_kernel;  // 1 to 8
};

// One head of Mamba 2 over one sequence.
struct SsmArgs {
  float* out;  // [rows, p]
  int64_t out_stride;
  const float* x;  // [rows, p]
  int64_t x_stride;
  const float* b;  // [rows, n]
  int64_t b_stride;
  const float* c;  // [rows, n]
  int64_t c_stride;
  const float* decay;  // [rows, 1]
  int64_t decay_stride;
  const float* dt;  // [rows, 1]
  int64_t dt_stride;
  float d;       // the skip weight D of the head
  float* state;  // [n, p]
  int64_t rows;
  int64_t p;
  int64_t n;
};

// h [rows, ranks] = x A^T for rows of x that are given by index.
struct LowRankShrinkArgs {
  const float* x;  // row 0; [any, k]
  int64_t x_stride;
  const int32_t* rows;  // [num_rows]
  int64_t num_rows;
  const void* a;  // [ranks, k]
  int64_t ranks;
  int64_t k;
  float* h;
  int64_t h_stride;
};

// out += h B^T for rows of out that are given by index, and for one panel of columns.
struct LowRankExpandArgs {
  float* out;  // row 0; [any, width]
  int64_t out_stride;
  const int32_t* rows;  // [num_rows]
  int64_t num_rows;
  const float* h;  // [num_rows, rank]
  int64_t h_stride;
  const void* b;  // [rank, width]
  int64_t rank;
  int64_t width;  // at most 64
};

// One value head of the gated delta rule over one sequence.
struct DeltaArgs {
  float* out;  // [rows, v]
  int64_t out_stride;
  const float* q;  // [rows, k]
  int64_t q_stride;
  const float* k;  // [rows, k]
  int64_t k_stride;
  const float* v;  // [rows, v]
  int64_t v_stride;
  const float* decay;  // [rows, 1]; if by_key, [rows, k]
  int64_t decay_stride;
  bool by_key;
  const float* beta;  // [rows, 1]
  int64_t beta_stride;
  float* state;  // [k, v]
  int64_t rows;
  int64_t k_dim;
  int64_t v_dim;
};

struct CpuKernels {
  // dst: one panel. rows: kPanel pointers to k elements of storage row_storage[i]; null = a column of zeros.
  void (*pack_panel)(void* dst, Storage dst_storage, const void* const* rows, const Storage* row_storage,
                     int64_t k);
  // Converts a row of activations to the form that `linear` of this storage reads. dst must have room for 2
  // bytes per element plus up to 62 bytes of padding, which are set to zero. Null if it reads float32.
  void (*prepare_x[kNumStorages])(void* dst, const float* x, int64_t k);
  // Rows [row_begin, row_end) and panels [panel_begin, panel_end) of out = x w^T (+ bias) (+ residual). Each
  // output is summed along K from first to last: with one fused multiply-add per term or, if prepare_x rounds
  // to bfloat16, with dot products of pairs.
  void (*linear[kNumStorages])(const LinearArgs&, int64_t row_begin, int64_t row_end, int64_t panel_begin,
                               int64_t panel_end);
  // Same, for 2:4 sparse panels (quant/sparse_24.h) with k a multiple of their blocks. Terms are added in the
  // same order as in `linear`, and the result has the same bits if activations are finite. Null: `linear` on
  // the dense matrix is as fast.
  void (*linear_sparse_24[kNumStorages])(const LinearArgs&, int64_t row_begin, int64_t row_end,
                                         int64_t panel_begin, int64_t panel_end);

  // Integer products. Products of an exact-accumulation block are summed exactly; blocks are added in order
  // with one fused multiply-add each. int_block_rows: maximum number of rows per block, where each slice
  // counts as a row. int8_zero: IntActivations::zero_point for 8-bit weights.
  int64_t int_block_rows;
  int32_t int8_zero;
  void (*quantize_rows)(const IntActivations&, int64_t first_row, int64_t rows);
  // Same, for activations that are split into int8 slices.
  void (*split_rows)(const IntActivations&, int64_t first_row, int64_t rows);
  void (*linear_int[kNumIntKinds])(const IntLinearArgs&, const IntBlock&, int64_t panel);
  // Same, for float activations: terms of an exact-accumulation block are added with one fused multiply-add
  // each.
  void (*linear_int_float[kNumIntKinds])(const IntLinearArgs&, const IntBlock&, int64_t panel);
  void (*pack_int)(const IntPackArgs&);
  // Null: products with int4 weights are as fast.
  void (*fold_group_scales)(const IntFoldArgs&);
  // Same as linear_int, with the same bits, on the tile registers of AMX: for blocks of at most
  // kIntTileBlock rows whose activations quantize_flat has written. int_tile_rows: the minimum number of
  // rows for which they are faster; 0 without tiles. Null: linear_int computes the kind.
  int64_t int_tile_rows;
  void (*quantize_flat)(const IntActivations&, int64_t first_row, int64_t rows);
  void (*linear_int_tiles[kNumIntKinds])(const IntLinearArgs&, const IntBlocks&, int64_t panel,
                                         int64_t panel_end);

  // Products of rows and panels with quantized values that are not integers, indexed by bits per stored
  // value. Terms of a group are added with one fused multiply-add each, from first to last; then groups are
  // added in the same way. Null: unsupported width.
  void (*linear_quantized[kNumQuantizedValues][9])(const QuantizedMatrixArgs&, int64_t row_begin,
                                                   int64_t row_end, int64_t panel_begin, int64_t panel_end);

  // Integer products of panels: [0] with linear quantization, [1] with a table; indexed by bits per stored
  // value. Null: unsupported width.
  void (*linear_quantized_int[2][9])(const QuantizedIntArgs&, const IntBlocks&, int64_t panel,
                                     int64_t panel_end);

  void (*decode)(float* dst, const void* src, Storage storage, int64_t n);
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t d, float eps,
                   float weight_offset);
  void (*layer_norm)(float* out, const float* x, const float* weight, const float* bias, int64_t d,
                     float eps);
  // Rotates `heads` vectors of head_dim in place.
  void (*rope_neox)(float* x, int64_t heads, int64_t head_dim, const float* cosine, const float* sine,
                    int64_t half);
  void (*rope_interleaved)(float* x, int64_t heads, int64_t head_dim, const float* cosine, const float* sine,
                           int64_t half);
  ActivateRow activate;
  void (*add)(float* x, const float* y, int64_t n);
  void (*scale_softcap)(float* x, int64_t n, float scale, float cap);
  // out = (residual +) sum over j of weights[j] * y[permuted_rows[j]], with one fused multiply-add per term.
  // residual may be null or alias out.
  void (*combine)(float* out, const float* residual, const float* y, int64_t y_stride,
                  const int32_t* permuted_rows, const float* weights, int64_t count, int64_t d);

  // Each element of h is summed like a norm: element i along K in lane i % 16 of accumulator i / 16 % 4, with
  // one fused multiply-add per term.
  void (*low_rank_shrink[kNumStorages])(const LowRankShrinkArgs&);
  // One fused multiply-add per rank, first to last; then the sum is added to out.
  void (*low_rank_expand[kNumStorages])(const LowRankExpandArgs&);

  // One row of ops::DecayGates.
  void (*decay_gates)(float* decay, float* dt, const float* dt_bias, const float* a, int64_t heads, float low,
                      float high, float bound);
  // Each sum starts with the bias and adds one fused multiply-add per tap, oldest input first.
  void (*causal_conv)(const ConvArgs&);
  // Each sum over n starts with D * x and adds one fused multiply-add per n, first to last.
  void (*ssm_scan)(const SsmArgs&);
  // The prediction S^T k is computed in four partial sums, element k in sum k % 4, added as (0 + 1) + (2 +
  // 3). Each output is summed with one fused multiply-add per k, first to last.
  void (*delta_rule)(const DeltaArgs&);

  // Writes the keys and values of consecutive tokens to their block, rounded to nearest even (quant/codec.h).
  void (*kv_write[kNumKvFormats])(const KvWriteArgs&);

  // Attention of query rows over positions [begin, end), begin a multiple of kTile. Writes the state of each
  // query row that sees at least one of them; other states are left unchanged.
  void (*attend_split[kNumKvFormats])(const AttentionArgs&, AttentionState, int64_t begin, int64_t end);
  // Same, with queries and softmax weights rounded to bfloat16, for an even head_dim. Null if the instruction
  // set has no such products, or bfloat16 cannot represent the format's elements exactly.
  void (*attend_pairs[kNumKvFormats])(const AttentionArgs&, AttentionState, int64_t begin, int64_t end);
  // Indexer scores of positions [begin, end), begin a multiple of kTile, for one row: out[p - begin] = the
  // sum over heads of weights[h] * max(0, q[h] . key). Uses the keys, `scores` and `key_tile` of the
  // arguments.
  void (*score_keys[kNumKvFormats])(const AttentionArgs&, const float* q, const float* weights, int heads,
                                    int64_t begin, int64_t end, float* out);
  // Scores of blocks of `block` positions in [begin, end), begin a multiple of 16, for each head of one row:
  // out[h * stride + b] = the maximum of q[h] . key over block b, counted from `begin`. Uses the same
  // arguments.
  void (*score_blocks[kNumKvFormats])(const AttentionArgs&, const float* q, int heads, int64_t block,
                                      int64_t begin, int64_t end, float* out, int64_t stride);
  // Merges the next state, in order of position, into total.
  void (*attention_merge)(float* total_max, float* total_sum, float* total_acc, float next_max,
                          float next_sum, const float* next_acc, int64_t acc_stride);
  // out[0, value_dim) = acc / sum. sink: a logit that takes part in the softmax but has no value; null = no
  // attention sink.
  void (*attention_finish)(float* out, const float* acc, float max, float sum, const float* sink,
                           int64_t value_dim);

  // Independent products and sums in registers, to measure peak throughput. They return the number of
  // operations. sink: 16 floats of scratch. Null if the instruction set has no such instructions.
  double (*probe_fma)(int64_t rounds, float* sink);
  double (*probe_bf16)(int64_t rounds, float* sink);
  double (*probe_int8)(int64_t rounds, float* sink);
  // Reads p[0, n), n a multiple of 128.
  void (*probe_read)(const float* p, int64_t n, float* sink);
};

// Each function replaces the entries that its instruction set improves and keeps those of lower levels.
void fill_avx2(CpuKernels& kernels);
void fill_avx512(CpuKernels& kernels);
// Products with quantized matrices, in separate files because there are many of them.
void fill_quantized_avx2(CpuKernels& kernels);
void fill_quantized_avx512(CpuKernels& kernels);
// Same, with int8 activations.
void fill_quantized_int_avx2(CpuKernels& kernels);
void fill_quantized_int_avx512(CpuKernels& kernels);
void fill_quantized_int_vnni(CpuKernels& kernels);
void fill_avx512_vnni(CpuKernels& kernels);
void fill_avx512_bf16(CpuKernels& kernels);
void fill_amx_bf16(CpuKernels& kernels);
// Integer products; AMX-INT8.
void fill_amx_int8(CpuKernels& kernels);

}  // namespace quire::cpu
