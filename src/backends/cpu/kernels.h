// The inner functions of one instruction set, as a table. Arguments are plain pointers and numbers: a unit of
// isa/ is compiled for its own instruction set, so nothing inline that other units share may be used there.
// The ops around them (views, ranges for the pool, workspace) are compiled once: linear.cc, rows.cc,
// attention.cc.
//
// All are pure functions of their arguments; any thread. Results do not depend on how rows or columns are
// grouped into calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/activation_digits.h"

namespace quire::cpu {

// Index into the tables by storage format.
enum Storage : int { kStorageF32, kStorageBF16, kStorageF16, kNumStorages };
// The same by number format of the KV cache.
enum KvFormat : int { kKvF32, kKvBF16, kKvF16, kKvE4M3, kKvE5M2, kKvI8, kNumKvFormats };
enum Act : int {
  kActSilu,
  kActGelu,
  kActGeluTanh,
  kActRelu,
  kActReluSquared,
  kActClampedSwish,
  kActSigmoid,
  kActSoftplus,
  kActNone
};

// Output columns in a panel of packed weights. Inside a panel:
//   float32   k by k: column 0, 1, ... 31
//   float16   the same
//   bfloat16  two k at a time: 32-bit lanes 0, 1, ... 31, one for each column, with the first k in the low
//   half
//             and the second in the high half; an odd k has zeros behind it
// The last panel is padded with zero columns.
constexpr int64_t kPanel = 32;

// k that a panel of the format takes memory for.
constexpr int64_t padded_k(Storage storage, int64_t k) {
  return storage == kStorageBF16 ? (k + 1) / 2 * 2 : k;
}

// out = act(gate) * up; up null: out = act(gate).
using ActivateRow = void (*)(float* out, const float* gate, const float* up, int64_t n, Act act);

// What a product does with its sums where W is gates, then ups, whole panels each: out = act(gate) * up. A
// gate's panel is multiplied before its up's, by the same thread.
struct Gate {
  ActivateRow apply = nullptr;  // null: W is one matrix
  Act act = kActNone;
};

struct LinearArgs {
  const void* x;     // [rows, k] float32, or rows that CpuKernels::prepare_x made
  int64_t x_stride;  // in float32, or in 32-bit pairs
  float* out;        // [rows, n], gated: [rows, n / 2]
  int64_t out_stride;
  const float* residual;  // [rows, n] or null; may be out; null if gated
  int64_t residual_stride;
  const float* bias;  // [n] or null
  const void* weights;
  int64_t n;
  int64_t k;
  Gate gate;
};

// How a matrix of whole numbers is stored (quant/int_layout.h): 8-bit codes with a scale for each row, with a
// scale for each group of k, 4-bit codes with the zero in the middle, with zeros of their own.
enum IntKind : int { kInt8Rows, kInt8Groups, kInt4, kInt4Zeros, kInt4Factors, kNumIntKinds };

// Rows of activations as int8, or as float32 in digits of int8 (quant/activation_digits.h). Rows are taken in
// blocks that a kernel multiplies at once; inside a block elements of all its rows stand side by side, the
// digits of a row behind each other as if they were rows. The block of `rows` rows from `first` on begins at
// codes + first * digits * depth, scales + first * num_units, sums + first * digits * num_units.
struct IntActivations {
  const float* x;  // [rows, k]
  int64_t x_stride;
  int64_t k;
  int64_t depth;      // k rounded up to 8
  int64_t group;      // k's that share a scale
  int64_t unit;       // k's that are summed exactly
  int64_t num_units;  // in a row
  int64_t digits;     // of an element: 1, kInt16Digits or kFloatDigits
  int32_t zero;       // what the weights' codes are too large by: sums are the activations' times -zero
  int8_t* codes;      // block: [depth / 4][rows][digits][4]
  float* scales;      // block: [num_units][rows]
  float* totals;      // block: [num_units][rows]: scales times the joined sums
  int32_t* sums;      // block: [num_units][rows][digits]
};

struct IntLinearArgs {
  IntActivations in;  // x alone is read of float activations
  const std::byte* weights;
  int64_t panel_bytes;
  int64_t group_bytes;
  int64_t header_bytes;
  int64_t group;       // k's that share a scale of the weights
  int64_t factors_at;  // kInt4Factors: bytes from a group's begin to its factors, one for each of in.unit k's
  const std::byte*
      next;  // what is asked for while a panel is multiplied by many rows; null: the panel behind it
  int64_t n;
  float* out;  // as in LinearArgs
  int64_t out_stride;
  const float* residual;
  int64_t residual_stride;
  const float* bias;
  Gate gate;
};

// Some rows that pass over a panel together, and which of those that pass over it they are.
struct IntBlock {
  int64_t row;
  int64_t rows;
  int64_t index;
  int64_t count;
};

// Blocks [first, first + num) of the `count` blocks of nearly one size that `rows` rows are cut into: block b
// begins with row rows * b / count.
struct IntBlocks {
  int64_t rows;
  int64_t count;
  int64_t first;
  int64_t num;  // at most kMaxIntBlocks
};
constexpr int64_t kMaxIntBlocks = 32;

// Factors of a group at most.
constexpr int64_t kMaxIntFactors = 8;

// A panel of 4-bit codes with factors that becomes one of 8-bit codes with the same groups and scales.
struct IntSpreadArgs {
  const std::byte* from;
  int64_t k;
  int64_t group;
  int64_t factor_group;
  int64_t factors_at;    // bytes from a group's begin
  int64_t header_bytes;  // of a group, before its codes
  int64_t group_bytes;
  std::byte* to;
  int64_t to_header_bytes;
  int64_t to_group_bytes;
};

// One panel of 32 rows of W that becomes whole numbers.
struct IntPackArgs {
  float* weights;  // [k][32]; overwritten
  std::byte* dst;
  int64_t k;
  int64_t group;
  int64_t step;  // k's in a line of codes: 4 or 8
  int64_t header_bytes;
  int64_t group_bytes;
  bool row_scale;
  bool zero_points;
  int64_t factor_group;  // 0: no factors
  int64_t factors_at;    // bytes from a group's begin
  float largest_factor;
  const float* candidates;  // IntCandidates
  int num_candidates;
  float low;
  float high;
};

// What codes that are no whole numbers stand for: entries of a table, e4m3 by arithmetic, entries of the
// rows' own tables.
enum CodedValues : int { kCodedTable, kCodedE4M3, kCodedRowTable, kNumCodedValues };
// How block scales are stored.
enum CodedScales : int { kCodedF32, kCodedF16, kCodedBF16 };

// Where the parts of a block begin (quant/coded_layout.h).
struct CodedHeader {
  int64_t minima;
  int64_t group_scales;
  int64_t group_minima;
  int64_t group_zeros;
  int64_t codes;
};

// A product with a matrix of codes. Its k's are in packed order, and so are the columns of x.
struct CodedMatrixArgs {
  LinearArgs io;  // x float32; weights: the panels
  int64_t k;
  int64_t group;
  int64_t block;
  int64_t block_bytes;
  int64_t panel_bytes;
  CodedHeader whole;  // of a block
  CodedHeader last;   // of the row's last block
  CodedScales scales;
  bool two_levels;
  bool minima;
  bool group_zeros;
  const float* table;              // [at least 16, codes]; of codes that are no whole numbers
  const float* group_scale_table;  // [256] or null
  bool e4m3_group_scales;          // the table is that of e4m3 without its NaN
  bool e8m0_group_scales;          // the same of e8m0
};

// The same of whole numbers, by activations that are (CodedIntUnits in quant/coded_layout.h).
struct CodedIntArgs {
  CodedMatrixArgs m;       // x and table are not looked at
  IntActivations in;       // zero: with minima or zeros of groups 1
  int32_t zero;            // what the activations' sums are to be multiplied with before they begin a unit's
                           // sum: numbers that are multiplied are too large by that
  const uint8_t* numbers;  // [16] 128 + whole number of each code of a table
  float step;              // what the numbers of a table count
};

// Lines that one call of attend_segment takes, of all its key heads; a multiple of the kernels' row blocks.
constexpr int kMaxLines = 192;
// Positions that share one softmax update. A multiple of 16.
constexpr int64_t kTile = 64;
// Positions whose results are merged as one. A multiple of kTile.
constexpr int64_t kSegment = 512;

// Dimensions of values that are turned out of keys at once.
constexpr int64_t kTurnedDims = 64;

// One query head of one query row, which stands at position high - 1.
struct AttentionLine {
  const float* q;           // [head_dim]
  const uint32_t* q_pairs;  // the same for attend_pairs: [head_dim / 2], as prepare_x of bfloat16 makes them
  int64_t low;              // first position seen
  int64_t high;             // one past the last position seen
  float slope;              // added to a score for each position from the query on; of use where args.alibi
  const uint64_t* chosen = nullptr;  // a bit for each position that counts, a word for a tile; null: all do
};

// The softmax state of each line over the positions so far.
struct AttentionState {
  float* max;  // [key heads, line_stride]
  float* sum;  // [key heads, line_stride]
  float* acc;  // [key heads, line_stride, acc_stride]
};

// The same lines for each of some key heads. Several heads go together so that a block, which holds all heads
// one behind the other, is read from end to end.
struct AttentionArgs {
  const AttentionLine* lines;  // [num_kv_heads, line_stride]; of a head low and high both ascend
  int num_lines;               // of each key head
  int line_stride;
  const std::byte* keys;  // this layer's part of block 0
  int64_t block_stride;   // bytes
  int64_t values_offset;  // bytes from a block's keys to its values
  int64_t key_scales;     // bytes from a block's keys to their scales
  int64_t value_scales;   // bytes from a block's values to theirs
  const int32_t* blocks;  // block ids of the sequence
  int64_t block_size;
  int64_t kv_head;  // the first
  int num_kv_heads;
  int64_t head_dim;
  int64_t value_dim;
  bool values_in_keys;  // they are the last dimensions of keys, and values_offset is 0
  int64_t acc_stride;   // value_dim rounded up to 16
  float scale;
  float softcap;          // 0: none
  bool alibi;             // whether the lines' slopes count
  float* scores;          // scratch [kMaxLines, kTile]
  void* key_tile;         // scratch [head_dim, kTile] of the storage format
  uint16_t* wide_keys;    // scratch [head_dim, kTile]
  uint16_t* wide_values;  // scratch [kTile, acc_stride]
  float* turned;          // scratch [kTile, kTurnedDims]
};

// Tokens that kv_write takes at once.
constexpr int64_t kMaxRun = 16;

// Tokens at consecutive places of a block: keys [num_heads, head_dim, block_size], values [num_heads,
// block_size, value_dim].
struct KvWriteArgs {
  std::byte* keys;  // the block's
  std::byte* values;
  int64_t key_scales;    // bytes from the keys to their scales
  int64_t value_scales;  // bytes from the values to theirs
  const float* k;        // [count, num_heads, head_dim], rows k_stride apart
  const float* v;        // [count, num_heads, value_dim], rows v_stride apart; null: keys alone
  int64_t k_stride;
  int64_t v_stride;
  int64_t count;  // at most kMaxRun
  int64_t num_heads;
  int64_t head_dim;
  int64_t value_dim;
  int64_t block_size;
  int64_t offset;  // the first token's place in the block
};

// Columns of a convolution along one sequence, in place.
struct ConvArgs {
  float* x;  // [rows, columns]
  int64_t x_stride;
  int64_t rows;
  int64_t columns;
  const float* weight;  // [taps, columns]
  int64_t weight_stride;
  const float* bias;  // [columns] or null
  float* inputs;      // [taps - 1, columns] before the first row; then behind the last
  int64_t inputs_stride;
  int64_t taps;  // 1 to 8
};

// One head of Mamba 2 along one sequence.
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
  const float* step;  // [rows, 1]
  int64_t step_stride;
  float skip;
  float* state;  // [n, p]
  int64_t rows;
  int64_t p;
  int64_t n;
};

// One value head of the gated delta rule along one sequence.
struct DeltaArgs {
  float* out;  // [rows, v]
  int64_t out_stride;
  const float* q;  // [rows, k]
  int64_t q_stride;
  const float* k;  // [rows, k]
  int64_t k_stride;
  const float* v;  // [rows, v]
  int64_t v_stride;
  const float* decay;  // [rows, 1]; by_key: [rows, k]
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
  // dst: one panel. rows: kPanel pointers to k elements of storage row_storage[i]; null: a column of zeros.
  void (*pack_panel)(void* dst, Storage dst_storage, const void* const* rows, const Storage* row_storage,
                     int64_t k);
  // A row of activations as `linear` of that storage reads it: dst has room for 2 bytes for each element and
  // up to 62 behind them, which are written as zeros. Null: it reads float32.
  void (*prepare_x[kNumStorages])(void* dst, const float* x, int64_t k);
  // Rows [row_begin, row_end) x panels [panel_begin, panel_end) of out = x w^T (+ bias) (+ residual). An
  // output is summed over k from first to last: with one fused multiply-add for each term, or, where
  // prepare_x rounds to bfloat16, as the processor adds products of pairs.
  void (*linear[kNumStorages])(const LinearArgs&, int64_t row_begin, int64_t row_end, int64_t panel_begin,
                               int64_t panel_end);
  // The same with panels that hold two of four weights (quant/two_of_four.h), k a multiple of their blocks,
  // in the order in which `linear` comes to them; the same bits where activations are finite. Null: `linear`
  // with the zeros is as fast.
  void (*linear_two_of_four[kNumStorages])(const LinearArgs&, int64_t row_begin, int64_t row_end,
                                           int64_t panel_begin, int64_t panel_end);

  // Products of whole numbers. A unit's products are summed exactly; units one after the other with one fused
  // multiply-add each. int_block_rows: rows of a block at most, each digit one. int8_zero:
  // IntActivations::zero of 8-bit codes.
  int64_t int_block_rows;
  int32_t int8_zero;
  void (*quantize_rows)(const IntActivations&, int64_t first_row, int64_t rows);
  // The same into digits.
  void (*split_rows)(const IntActivations&, int64_t first_row, int64_t rows);
  void (*linear_int[kNumIntKinds])(const IntLinearArgs&, const IntBlock&, int64_t panel);
  // The same with float activations: a unit's products are summed with one fused multiply-add each.
  void (*linear_int_float[kNumIntKinds])(const IntLinearArgs&, const IntBlock&, int64_t panel);
  void (*pack_int)(const IntPackArgs&);
  // Null: products with the codes of 4 bits are as fast.
  void (*spread_factors)(const IntSpreadArgs&);

  // Rows x panels of a product with codes that stand for no whole numbers, by bits of a stored code: products
  // of a group are summed with one fused multiply-add each, from first to last, and then groups the same way.
  // Null: there are no such codes.
  void (*linear_coded[kNumCodedValues][9])(const CodedMatrixArgs&, int64_t row_begin, int64_t row_end,
                                           int64_t panel_begin, int64_t panel_end);

  // Panels of a product of whole numbers: of linear codes and of tables, by bits of a stored code. Null:
  // there are no such codes.
  void (*linear_coded_int[2][9])(const CodedIntArgs&, const IntBlocks&, int64_t panel, int64_t panel_end);

  void (*decode)(float* dst, const void* src, Storage storage, int64_t n);
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t d, float eps,
                   float weight_offset);
  void (*layer_norm)(float* out, const float* x, const float* weight, const float* bias, int64_t d,
                     float eps);
  // `heads` vectors of head_dim, in place.
  void (*rope_halves)(float* x, int64_t heads, int64_t head_dim, const float* cosine, const float* sine,
                      int64_t half);
  void (*rope_interleaved)(float* x, int64_t heads, int64_t head_dim, const float* cosine, const float* sine,
                           int64_t half);
  ActivateRow activate;
  void (*add)(float* x, const float* y, int64_t n);
  void (*scale_softcap)(float* x, int64_t n, float scale, float cap);
  // out = (residual +) sum of weights[j] * row places[j] of y, with one fused multiply-add each; residual may
  // be null or out.
  void (*combine)(float* out, const float* residual, const float* y, int64_t y_stride, const int32_t* places,
                  const float* weights, int64_t count, int64_t d);

  // One row of OpTable::decay_gates.
  void (*decay_gates)(float* decay, float* step, const float* bias, const float* rate, int64_t heads,
                      float low, float high, float bound);
  // A sum begins with the bias and has one fused multiply-add for each tap, oldest first.
  void (*causal_conv)(const ConvArgs&);
  // A sum over n begins with skip * x and has one fused multiply-add for each n, first to last.
  void (*ssm_scan)(const SsmArgs&);
  // What the state foresees of a value: four sums, k going to the one of k % 4, then (0 + 1) + (2 + 3). A sum
  // of the result: one fused multiply-add for each k, first to last.
  void (*delta_rule)(const DeltaArgs&);

  // Keys and values of a run of tokens into their block, to nearest even (quant/codec.h).
  void (*kv_write[kNumKvFormats])(const KvWriteArgs&);

  // Attention of the lines over positions [begin, end), begin a multiple of kTile: writes the state of each
  // line that sees any of them and leaves the others' alone.
  void (*attend_segment[kNumKvFormats])(const AttentionArgs&, AttentionState, int64_t begin, int64_t end);
  // The same with queries and softmax weights rounded to bfloat16, for an even head_dim. Null: the processor
  // has no such products, or bfloat16 does not hold the format's elements.
  void (*attend_pairs[kNumKvFormats])(const AttentionArgs&, AttentionState, int64_t begin, int64_t end);
  // What positions [begin, end), begin a multiple of kTile, are worth to a row: out[p - begin] = the sum over
  // heads of weights[h] * max(0, q[h] . key). Reads where keys lie, and `scores` and `key_tile`.
  void (*score_keys[kNumKvFormats])(const AttentionArgs&, const float* q, const float* weights, int heads,
                                    int64_t begin, int64_t end, float* out);
  // What blocks of so many of positions [begin, end), begin a multiple of 16, are worth to each head of a
  // row: out[h * stride + b] = the highest q[h] . key of block b from `begin` on. Reads the same.
  void (*score_blocks[kNumKvFormats])(const AttentionArgs&, const float* q, int heads, int64_t block,
                                      int64_t begin, int64_t end, float* out, int64_t stride);
  // total = total and what follows it.
  void (*attention_merge)(float* total_max, float* total_sum, float* total_acc, float next_max,
                          float next_sum, const float* next_acc, int64_t acc_stride);
  // out[0, value_dim) = acc / sum. A sink is a score that has its share of the sum, and no value; null: none.
  void (*attention_finish)(float* out, const float* acc, float max, float sum, const float* sink,
                           int64_t value_dim);

  // Independent products and sums in registers, to see what the instructions can do; return the operations
  // done. sink: 16 floats of no meaning. Null: there are no such instructions.
  double (*probe_fma)(int64_t rounds, float* sink);
  double (*probe_bf16)(int64_t rounds, float* sink);
  double (*probe_int8)(int64_t rounds, float* sink);
  // Reads p[0, n), n a multiple of 128.
  void (*probe_read)(const float* p, int64_t n, float* sink);
};

// Overwrites the entries that the instruction set has of its own; those of a lower one stay.
void fill_avx2(CpuKernels& kernels);
void fill_avx512(CpuKernels& kernels);
// Products with codes alone: units of their own, since these are many functions.
void fill_coded_avx2(CpuKernels& kernels);
void fill_coded_avx512(CpuKernels& kernels);
// The same with int8 activations.
void fill_coded_int_avx2(CpuKernels& kernels);
void fill_coded_int_avx512(CpuKernels& kernels);
void fill_coded_int_vnni(CpuKernels& kernels);
void fill_avx512_vnni(CpuKernels& kernels);
void fill_avx512_bf16(CpuKernels& kernels);
void fill_amx_bf16(CpuKernels& kernels);

}  // namespace quire::cpu
