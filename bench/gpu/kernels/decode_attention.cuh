// Paged attention for one query token per sequence, with split-KV: attend_split computes the partial softmax
// state of each KV split, merge_splits merges the splits in position order. The head dimension is 128. Keys,
// values and queries are bf16, sums are float32, and softmax weights are rounded to bf16 before they are
// multiplied by the values.
//
// A KV split is kSplit positions at a fixed place in the sequence, and each warp takes the tiles of 16
// positions whose index modulo kWarps is its own. The bits of a result therefore depend neither on the other
// sequences of the batch nor on the size of a KV block.
#pragma once

#include <launch.cuh>
#include <ptx.cuh>

#include "swizzle.cuh"

namespace decode {

constexpr int kHeadDim = 128;
constexpr int kSplit = 512;  // positions per KV split
constexpr int kTile = 16;    // positions per step of a warp
constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kStages = 3;                // tiles of each warp in shared memory
constexpr int kRowChunks = kHeadDim / 8;  // 16 bytes each

// The cache of one layer. A KV block has the keys [num_kv_heads, block_size, kHeadDim], and the values in the
// same shape at value_offset. A tile may span several blocks.
struct KvCache {
  const __nv_bfloat16* blocks;
  int64_t block_stride;  // elements
  int64_t value_offset;  // elements
  int block_size;        // positions
  int num_kv_heads;
};

struct Batch {
  const int* seq_lens;            // [num_seqs]
  const int* block_table_indptr;  // [num_seqs + 1]: where the block table of each sequence starts
  const int* block_table;         // block numbers of all sequences, concatenated
};

// The partial results of KV splits.
struct Partials {
  float* acc;     // [num_seqs, num_heads, max_splits, kHeadDim]: weighted sums of values
  float2* state;  // [num_seqs, num_heads, max_splits]: largest score, sum of weights. Scores are in units of
                  // log 2.
};

struct Tile {
  __nv_bfloat16 keys[kTile][kHeadDim];
  __nv_bfloat16 values[kTile][kHeadDim];
};

struct Shared {
  union {
    Tile ring[kWarps][kStages];
    // After the last tile: the accumulators of each warp, where its own ring was.
    struct {
      float acc[16][kHeadDim];
      float unused[kStages * sizeof(Tile) / sizeof(float) - 16 * kHeadDim];
    } partial[kWarps];
  };
  float max[kWarps][16];
  float sum[kWarps][16];
};

__device__ inline void load_tile(Tile& tile, const KvCache& cache, const int* block_table, int kv_head,
                                 int begin, int length, int lane) {
#pragma unroll
  for (int i = 0; i < kTile * kRowChunks / 32; ++i) {
    const int row = (i * 32 + lane) / kRowChunks, c = lane % kRowChunks;
    const bool valid = begin + row < length;
    const int position =
        min(begin + row, length - 1);  // values past the end are zero: their weight 0 times NaN is NaN
    const __nv_bfloat16* block = cache.blocks + block_table[position / cache.block_size] * cache.block_stride;
    const __nv_bfloat16* key =
        block + (int64_t(kv_head) * cache.block_size + position % cache.block_size) * kHeadDim;
    cp_async_16(tile.keys[row] + swizzle(row, c), key + c * 8, valid);
    cp_async_16(tile.values[row] + swizzle(row, c), key + cache.value_offset + c * 8, valid);
  }
}

// Registers of one warp: 16 query rows, of which kGroup are in use. A lane has the rows lane / 4 and lane / 4
// + 8, which index 0 and 1 of max and sum stand for.
struct Rows {
  float acc[kHeadDim / 8][4];
  float max[2];
  float sum[2];
};

__device__ inline float max_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0U, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0U, value, 2));
}
__device__ inline float sum_of_row(float value) {
  value += __shfl_xor_sync(~0U, value, 1);
  return value + __shfl_xor_sync(~0U, value, 2);
}

// One step of online softmax over a tile in shared memory, of which the first `count` positions are valid.
__device__ inline void attend_tile(Rows& rows, const uint32_t (&q)[kHeadDim / 16][4], Tile& tile, int count,
                                   float scale, int lane) {
  float score[2][4] = {};  // [positions / 8][fragment]
  const int key_row = lane / 16 * 8 + lane % 8, value_row = lane % 16;
#pragma unroll
  for (int d = 0; d < kHeadDim / 16; ++d) {
    uint32_t keys[4];
    ldmatrix_x4(keys, tile.keys[key_row] + swizzle(key_row, d * 2 + lane / 8 % 2));
    mma_16816(score[0], q[d], keys, score[0], __nv_bfloat16{});
    mma_16816(score[1], q[d], keys + 2, score[1], __nv_bfloat16{});
  }
  uint32_t weights[4];  // the fragment of A [16 rows, 16 positions]
  float scaling[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = rows.max[r];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& x = score[i / 2][2 * r + i % 2];
      x = i / 2 * 8 + lane % 4 * 2 + i % 2 < count ? x * scale : -INFINITY;
      top = fmaxf(top, x);
    }
    top = max_of_row(top);
    scaling[r] = exp2f(rows.max[r] - top);
    rows.max[r] = top;
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& x = score[i / 2][2 * r + i % 2];
      x = exp2f(x - top);
      sum += x;
    }
    rows.sum[r] = fmaf(rows.sum[r], scaling[r], sum_of_row(sum));
    weights[r] = pack_bf16(score[0][2 * r], score[0][2 * r + 1]);
    weights[2 + r] = pack_bf16(score[1][2 * r], score[1][2 * r + 1]);
  }
#pragma unroll
  for (int d = 0; d < kHeadDim / 16; ++d) {
    uint32_t values[4];
    ldmatrix_x4_trans(values, tile.values[value_row] + swizzle(value_row, d * 2 + lane / 16));
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float(&acc)[4] = rows.acc[2 * d + j];
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[i] *= scaling[i / 2];
      mma_16816(acc, weights, values + 2 * j, acc, __nv_bfloat16{});
    }
  }
}

// Grid: KV splits, KV heads, sequences. q [num_seqs, num_heads, kHeadDim] with kGroup query heads per KV
// head, at most
// 16. `scale` is the softmax scale times log2(e).
template <int kGroup>
__global__ void __launch_bounds__(kThreads) attend_split(Partials out, const __nv_bfloat16* q, KvCache cache,
                                                         Batch batch, int max_splits, float scale) {
  auto& s = shared_memory<Shared>();
  const int split = blockIdx.x, kv_head = blockIdx.y, seq = blockIdx.z;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int length = batch.seq_lens[seq], begin = split * kSplit, end = min(length, begin + kSplit);
  if (begin >= length) return;
  const int64_t first_head = (int64_t(seq) * cache.num_kv_heads + kv_head) * kGroup;
  const int* block_table = batch.block_table + batch.block_table_indptr[seq];

  uint32_t q_fragments[kHeadDim / 16][4];
#pragma unroll
  for (int d = 0; d < kHeadDim / 16; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i % 2 * 8, column = d * 16 + i / 2 * 8 + lane % 4 * 2;
      q_fragments[d][i] =
          row < kGroup ? *reinterpret_cast<const uint32_t*>(q + (first_head + row) * kHeadDim + column) : 0;
    }
  }

  // Tile i of this warp starts at begin + (i * kWarps + warp) * kTile.
  const auto tile_begin = [&](int i) { return begin + (i * kWarps + warp) * kTile; };
  const auto load = [&](int i) {
    if (tile_begin(i) < end)
      load_tile(s.ring[warp][i % kStages], cache, block_table, kv_head, tile_begin(i), end, lane);
    cp_async_commit();
  };
  Rows rows = {};
  rows.max[0] = rows.max[1] = -INFINITY;
  for (int i = 0; i < kStages - 1; ++i) load(i);
  for (int i = 0; tile_begin(i) < end; ++i) {
    cp_async_wait<kStages - 2>();
    // The copies of all lanes have arrived, and no lane still reads the tile that the next load overwrites.
    __syncwarp();
    load(i + kStages - 1);
    attend_tile(rows, q_fragments, s.ring[warp][i % kStages], end - tile_begin(i), scale, lane);
  }

  __syncwarp();  // no lane still reads the ring, which the accumulators overwrite
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + r * 8;
    if (row >= kGroup) continue;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d) {
#pragma unroll
      for (int i = 0; i < 2; ++i) s.partial[warp].acc[row][d * 8 + lane % 4 * 2 + i] = rows.acc[d][2 * r + i];
    }
    if (lane % 4 == 0) {
      s.max[warp][row] = rows.max[r];
      s.sum[warp][row] = rows.sum[r];
    }
  }
  __syncthreads();
  static_assert(kThreads == kHeadDim, "each thread merges one dimension");
  for (int row = 0; row < kGroup; ++row) {
    // Warp 0 always has a tile, so the largest score is finite.
    float top = s.max[0][row];
    for (int w = 1; w < kWarps; ++w) top = fmaxf(top, s.max[w][row]);
    float sum = 0.0F, value = 0.0F;
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2f(s.max[w][row] - top);
      sum = fmaf(s.sum[w][row], weight, sum);
      value = fmaf(s.partial[w].acc[row][thread], weight, value);
    }
    const int64_t at = (first_head + row) * max_splits + split;
    out.acc[at * kHeadDim + thread] = value;
    if (thread == 0) out.state[at] = make_float2(top, sum);
  }
}

// Grid: query heads, sequences; kHeadDim threads. out [num_seqs, num_heads, kHeadDim].
static __global__ void __launch_bounds__(kHeadDim)
    merge_splits(float* out, Partials in, const int* seq_lens, int max_splits) {
  const int64_t head = int64_t(blockIdx.y) * gridDim.x + blockIdx.x;
  const int num_splits = (seq_lens[blockIdx.y] + kSplit - 1) / kSplit, thread = threadIdx.x;
  float top = -INFINITY, sum = 0.0F, value = 0.0F;
  for (int i = 0; i < num_splits; ++i) {
    const float2 split = in.state[head * max_splits + i];
    const float new_top = fmaxf(top, split.x), old_weight = exp2f(top - new_top),
                weight = exp2f(split.x - new_top);
    value = fmaf(value, old_weight, in.acc[(head * max_splits + i) * kHeadDim + thread] * weight);
    sum = fmaf(sum, old_weight, split.y * weight);
    top = new_top;
  }
  out[head * kHeadDim + thread] = value / sum;
}

// Both kernels. out [num_seqs, num_kv_heads * kGroup, kHeadDim]; max_splits is that of the longest sequence.
template <int kGroup>
void run(float* out, Partials partials, const __nv_bfloat16* q, const KvCache& cache, const Batch& batch,
         int num_seqs, int max_splits, float softmax_scale, cudaStream_t stream) {
  constexpr float kLog2E = 1.44269504F;
  const auto seqs = static_cast<unsigned>(num_seqs), kv_heads = static_cast<unsigned>(cache.num_kv_heads);
  launch(attend_split<kGroup>, dim3{static_cast<unsigned>(max_splits), kv_heads, seqs}, kThreads,
         sizeof(Shared), stream, partials, q, cache, batch, max_splits, softmax_scale * kLog2E);
  launch(merge_splits, dim3{kv_heads * kGroup, seqs, 1}, kHeadDim, 0, stream, out, partials, batch.seq_lens,
         max_splits);
}

}  // namespace decode
