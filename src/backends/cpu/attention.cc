// Writes to the KV cache and paged attention, on the thread pool.
//
// The work of attention is divided into pieces (attention_plan.h). A piece is a set of query rows and KV
// heads, either over all their KV splits or over one. In the latter case partial softmax states go to the
// workspace and are merged in order. Both ways do the same arithmetic in the same order.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "backends/cpu/attention_plan.h"
#include "backends/cpu/drivers.h"
#include "base/error.h"
#include "ops/parallel.h"

namespace quire::cpu {
namespace {

constexpr size_t kMaxSplitBytes = size_t{64} << 20;

size_t align_up(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}
int64_t acc_stride_of(int64_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}
// Size of a query as bfloat16 pairs, including the padding that prepare_x writes.
int64_t q_pairs_stride(int64_t head_dim) {
  return (head_dim + 31) / 32 * 16;
}
// Floats of one query row's state in the workspace: acc, max, sum.
int64_t state_size(int64_t head_dim) {
  return acc_stride_of(head_dim) + 16;
}

// Scratch memory of one thread: scores, gathered and widened elements of a tile, and the softmax states of
// one KV split and of all splits so far.
struct ThreadScratch {
  float* scores;
  void* key_tile;
  uint16_t* wide_keys;
  uint16_t* wide_values;
  float* transposed;
  uint32_t* q_pairs;  // [kMaxQueryRows, q_pairs_stride]
  AttentionState split;
  AttentionState total;

  static size_t bytes(int64_t head_dim) {
    const int64_t stride = acc_stride_of(head_dim);
    const int64_t floats = kMaxQueryRows * kTile + (2 * stride + kTransposedDims) * kTile +
                           kMaxQueryRows * q_pairs_stride(head_dim) + 2 * kMaxQueryRows * (stride + 2);
    return align_up(static_cast<size_t>(floats) * sizeof(float));
  }
  ThreadScratch(std::byte* at, int64_t head_dim) {
    auto* next = reinterpret_cast<float*>(at);
    const auto take = [&next](int64_t n) {
      float* taken = next;
      next += n;
      return taken;
    };
    const int64_t stride = acc_stride_of(head_dim);
    scores = take(kMaxQueryRows * kTile);
    key_tile = take(stride * kTile);
    wide_keys = reinterpret_cast<uint16_t*>(take(stride * kTile / 2));
    wide_values = reinterpret_cast<uint16_t*>(take(stride * kTile / 2));
    transposed = take(kTransposedDims * kTile);
    q_pairs = reinterpret_cast<uint32_t*>(take(kMaxQueryRows * q_pairs_stride(head_dim)));
    for (AttentionState* state : {&split, &total}) {
      state->acc = take(kMaxQueryRows * stride);
      state->max = take(kMaxQueryRows);
      state->sum = take(kMaxQueryRows);
    }
  }
};

struct Job {
  const CpuKernels& kernels;
  const TensorView& out;
  const TensorView& q;
  const KvCacheView& cache;
  const AttentionParams& params;
  const AttentionShape& shape;
  const AttentionPlan& plan;
  std::byte* thread_scratch;
  float* states;  // partial softmax states of query rows that are split

  int64_t num_heads() const { return q.shape[1]; }
  float* state(int32_t s, int64_t row, int64_t head, int64_t split) const {
    return states + plan.state(s, row, head, split) * state_size(cache.value_size());
  }
  ThreadScratch scratch(int thread) const {
    return {thread_scratch + static_cast<size_t>(thread) * ThreadScratch::bytes(cache.head_dim),
            cache.head_dim};
  }
  // Index in the batch of row `row` of sequence s.
  int64_t batch_row(int32_t s, int64_t row) const {
    return shape.batch.cu_seqlens_q[AttentionShape::index(s)] + row;
  }
  // Writes the result of a query row from its softmax state.
  void finish(int32_t s, int64_t row, int64_t head, const float* acc, float max, float sum) const {
    const float* sink = params.sinks == nullptr ? nullptr : params.sinks + head;
    kernels.attention_finish(out.row<float>(batch_row(s, row)) + head * cache.value_size(), acc, max, sum,
                             sink, cache.value_size());
  }
};

bool sees(const QueryRow& query_row, int64_t split) {
  return query_row.kv_end > split * kKvSplit && query_row.kv_begin < (split + 1) * kKvSplit;
}

// Query rows of a node for some KV heads, prepared for the kernels. Query row l of head h has index h *
// num_query_rows + l.
class Chunk {
 public:
  Chunk(const Job& job, const ThreadScratch& scratch, const AttentionNode& node, int64_t unit) : job_(job) {
    const AttentionShape& shape = job.shape;
    const KvCacheView& cache = job.cache;
    const int64_t first_query_row = unit % node.chunks() * node.chunk_rows;
    kv_head_ = unit / node.chunks() * node.heads;
    num_kv_heads_ = static_cast<int>(std::min(node.heads, cache.num_kv_heads - kv_head_));
    place_query_rows(node, first_query_row);
    const KvFormat format = kv_format_of(cache.dtype);
    const bool pairs = job.kernels.attend_pairs[format] != nullptr && cache.head_dim % 2 == 0;
    attend_split_ = pairs ? job.kernels.attend_pairs[format] : job.kernels.attend_split[format];
    for (int l = 0; l < num_query_rows_ * num_kv_heads_; ++l) {
      const Place& place = places_[static_cast<size_t>(l % num_query_rows_)];
      const int64_t kv_end = shape.kv_end(place.seq, place.row);
      const int64_t head = query_head(l);
      const float* q = job.q.row<float>(job.batch_row(place.seq, place.row)) + head * cache.head_dim;
      uint32_t* q_pairs = scratch.q_pairs + l * q_pairs_stride(cache.head_dim);
      if (pairs) job.kernels.prepare_x[kStorageBF16](q_pairs, q, cache.head_dim);
      query_rows_[static_cast<size_t>(l)] = {
          .q = q,
          .q_pairs = q_pairs,
          .kv_begin = shape.kv_begin(place.seq, place.row),
          .kv_end = kv_end,
          .slope = job.params.alibi_slopes == nullptr ? 0.0F : job.params.alibi_slopes[head],
          .selected =
              job.params.chosen.row(job.batch_row(place.seq, place.row), kv_head_ + l / num_query_rows_)};
    }
    const auto first_seq = AttentionShape::index(places_[0].seq);
    args_ = {
        .query_rows = query_rows_.data(),
        .num_query_rows = num_query_rows_,
        .query_row_stride = num_query_rows_,
        .keys = cache.base + cache.layer_offset,
        .block_stride = cache.block_stride,
        .values_offset = cache.values_in_keys ? 0
                                              : kv_part_bytes(cache.dtype, cache.block_size,
                                                              cache.num_kv_heads, cache.head_dim),
        .key_scales = kv_element_bytes(cache.dtype, cache.block_size, cache.num_kv_heads, cache.head_dim),
        .value_scales = kv_element_bytes(cache.dtype, cache.block_size, cache.num_kv_heads,
                                         cache.values_in_keys ? cache.head_dim : cache.value_size()),
        .blocks = shape.batch.block_table.data() + shape.batch.block_table_indptr[first_seq],
        .block_size = cache.block_size,
        .kv_head = kv_head_,
        .num_kv_heads = num_kv_heads_,
        .head_dim = cache.head_dim,
        .value_dim = cache.value_size(),
        .values_in_keys = cache.values_in_keys,
        .acc_stride = acc_stride_of(cache.value_size()),
        .scale = job.params.scale,
        .softcap = job.params.logit_softcap,
        .alibi = job.params.alibi_slopes != nullptr,
        .scores = scratch.scores,
        .key_tile = scratch.key_tile,
        .wide_keys = scratch.wide_keys,
        .wide_values = scratch.wide_values,
        .transposed = scratch.transposed,
    };
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  void attend(const AttentionState& state, int64_t split) const {
    const int64_t begin = split * kKvSplit;
    const int64_t kv_end = query_rows_[static_cast<size_t>(num_query_rows_ - 1)].kv_end;
    attend_split_(args_, state, begin, std::min(begin + kKvSplit, kv_end));
  }
  // f(l, sequence, row, query head) for each query row l.
  template <typename F>
  void for_each_query_row(F f) const {
    for (int l = 0; l < num_query_rows_ * num_kv_heads_; ++l) {
      const Place& place = places_[static_cast<size_t>(l % num_query_rows_)];
      f(l, place.seq, place.row, query_head(l));
    }
  }
  const QueryRow& query_row(int l) const { return query_rows_[static_cast<size_t>(l)]; }
  int64_t acc_stride() const { return args_.acc_stride; }

 private:
  struct Place {
    int32_t seq;
    int64_t row;
    int64_t head;  // index within the group of its KV head
  };

  void place_query_rows(const AttentionNode& node, int64_t first_query_row) {
    const auto count = static_cast<int>(std::min(node.chunk_rows, node.query_rows - first_query_row));
    int64_t query_row = first_query_row;
    for (int32_t i = node.first_member; num_query_rows_ < count; ++i) {
      const int32_t s = job_.plan.member(i);
      const int64_t own = job_.shape.query_rows(s);
      for (; query_row < own && num_query_rows_ < count; ++query_row)
        places_[static_cast<size_t>(num_query_rows_++)] = {s, query_row / job_.shape.group,
                                                           query_row % job_.shape.group};
      query_row -= own;
    }
  }
  int64_t query_head(int l) const {
    return (kv_head_ + l / num_query_rows_) * job_.shape.group +
           places_[static_cast<size_t>(l % num_query_rows_)].head;
  }

  const Job& job_;
  std::array<Place, kMaxQueryRows> places_;  // [num_query_rows]
  std::array<QueryRow, kMaxQueryRows> query_rows_;
  AttentionArgs args_;
  void (*attend_split_)(const AttentionArgs&, AttentionState, int64_t begin, int64_t end);
  int num_query_rows_ = 0;  // per KV head
  int num_kv_heads_;
  int64_t kv_head_;
};

// Computes one unit of a node over all its KV splits, in order.
void attend_whole(const Job& job, int thread, const AttentionNode& node, int64_t unit) {
  const ThreadScratch scratch = job.scratch(thread);
  const AttentionState& part = scratch.split;
  const AttentionState& total = scratch.total;
  const Chunk chunk(job, scratch, node, unit);
  const int64_t stride = chunk.acc_stride();
  for (int64_t split = node.first_split; split < node.end_split; ++split) {
    chunk.attend(part, split);
    chunk.for_each_query_row([&](int l, int32_t, int64_t, int64_t) {
      if (!sees(chunk.query_row(l), split)) return;
      if (chunk.query_row(l).kv_begin / kKvSplit == split) {
        total.max[l] = part.max[l];
        total.sum[l] = part.sum[l];
        std::memcpy(total.acc + l * stride, part.acc + l * stride,
                    static_cast<size_t>(stride) * sizeof(float));
      } else {
        job.kernels.attention_merge(total.max + l, total.sum + l, total.acc + l * stride, part.max[l],
                                    part.sum[l], part.acc + l * stride, stride);
      }
    });
  }
  chunk.for_each_query_row([&](int l, int32_t s, int64_t row, int64_t head) {
    job.finish(s, row, head, total.acc + l * stride, total.max[l], total.sum[l]);
  });
}

// Computes one unit over one KV split and stores the partial states in the workspace.
void attend_part(const Job& job, int thread, const AttentionNode& node, int64_t unit, int64_t split) {
  const ThreadScratch scratch = job.scratch(thread);
  const Chunk chunk(job, scratch, node, unit);
  const int64_t stride = chunk.acc_stride();
  chunk.attend(scratch.split, split);
  chunk.for_each_query_row([&](int l, int32_t s, int64_t row, int64_t head) {
    if (!sees(chunk.query_row(l), split)) return;
    float* kept = job.state(s, row, head, split);
    std::memcpy(kept, scratch.split.acc + l * stride, static_cast<size_t>(stride) * sizeof(float));
    kept[stride] = scratch.split.max[l];
    kept[stride + 1] = scratch.split.sum[l];
  });
}

void attend_piece(const Job& job, int thread, int64_t piece) {
  const AttentionNode& node = job.plan.node_of(piece);
  const int64_t own = piece - node.first_piece;
  const int64_t units = node.units(job.cache.num_kv_heads);
  if (node.whole) {
    attend_whole(job, thread, node, own);
  } else {
    attend_part(job, thread, node, own % units, node.first_split + own / units);
  }
}

// Merges the partial states of one query row, in order of position.
void merge_parts(const Job& job, int32_t s, int64_t row, int64_t head) {
  const int64_t kv_end = job.shape.kv_end(s, row);
  const int64_t stride = acc_stride_of(job.cache.value_size());
  const int64_t first = job.shape.kv_begin(s, row) / kKvSplit;
  float* total = job.state(s, row, head, first);
  for (int64_t split = first + 1; split * kKvSplit < kv_end; ++split) {
    const float* next = job.state(s, row, head, split);
    job.kernels.attention_merge(total + stride, total + stride + 1, total, next[stride], next[stride + 1],
                                next, stride);
  }
  job.finish(s, row, head, total, total[stride], total[stride + 1]);
}

}  // namespace

KvFormat kv_format_of(DType t) {
  switch (t) {
    case DType::kF32:
      return kKvF32;
    case DType::kBF16:
      return kKvBF16;
    case DType::kF8E4M3:
      return kKvE4M3;
    case DType::kF8E5M2:
      return kKvE5M2;
    case DType::kI8:
      return kKvI8;
    default:
      return kKvF16;
  }
}

size_t workspace_bytes(int64_t max_tokens, int64_t max_seq_len, int32_t num_heads, int32_t head_dim,
                       int threads) {
  const size_t plan = align_up(AttentionPlan::bytes(max_tokens));
  const size_t scratch = static_cast<size_t>(threads) * ThreadScratch::bytes(head_dim);
  const auto row = static_cast<size_t>(num_heads) * static_cast<size_t>(max_seq_len / kKvSplit + 1) *
                   static_cast<size_t>(state_size(head_dim)) * sizeof(float);
  // One row can keep all threads busy. Rows of several sequences with a shared prefix need the memory.
  const auto rows = static_cast<size_t>(
      std::min<int64_t>(std::max<int64_t>(max_tokens, 1), std::max<int64_t>(4 * int64_t{threads}, 64)));
  const size_t scores = align_up(selection_bytes(max_seq_len, num_heads));
  return 64 + plan + scratch + std::max({row, std::min(kMaxSplitBytes, rows * row), scores});
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::PagedAttention& op) {
  const int threads = num_threads(ctx);
  const size_t plan_bytes = align_up(AttentionPlan::bytes(op.batch.num_seqs));
  const size_t fixed =
      64 + plan_bytes + static_cast<size_t>(threads) * ThreadScratch::bytes(op.cache.head_dim);
  if (ctx.workspace.size() < fixed) {
    throw Error("paged_attention: a workspace of " + std::to_string(fixed) + " bytes is needed; got " +
                std::to_string(ctx.workspace.size()));
  }
  std::byte* at = ctx.workspace.data() + (64 - reinterpret_cast<uintptr_t>(ctx.workspace.data()) % 64) % 64;
  const auto state_bytes = static_cast<size_t>(state_size(op.cache.value_size())) * sizeof(float);
  const AttentionShape shape = {.batch = op.batch,
                                .window = op.params.window,
                                .num_kv_heads = op.cache.num_kv_heads,
                                .group = op.q.shape[1] / op.cache.num_kv_heads,
                                .block_size = op.cache.block_size,
                                .chunk = op.params.chunk,
                                .bidirectional = op.params.bidirectional};
  const AttentionPlan plan(at, shape, threads,
                           static_cast<int64_t>((ctx.workspace.size() - fixed) / state_bytes));
  const Job job = {
      .kernels = kernels,
      .out = op.out,
      .q = op.q,
      .cache = op.cache,
      .params = op.params,
      .shape = shape,
      .plan = plan,
      .thread_scratch = at + plan_bytes,
      .states = reinterpret_cast<float*>(at + fixed - 64),
  };
  parallel_ranges(ctx, plan.num_pieces(), 1, [&job](int64_t begin, int64_t end, int thread) {
    for (int64_t piece = begin; piece < end; ++piece) attend_piece(job, thread, piece);
  });
  const int64_t num_heads = job.num_heads();
  parallel_ranges(ctx, plan.num_split_rows() * num_heads, 4,
                  [&job, num_heads](int64_t begin, int64_t end, int) {
                    for (int64_t item = begin; item < end; ++item) {
                      const int32_t s = job.plan.sequence_of_split_row(item / num_heads);
                      merge_parts(job, s, item / num_heads - job.plan.first_split_row(s), item % num_heads);
                    }
                  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::KvWrite& op) {
  const auto of = [&op](const auto& bytes, int32_t dim) {
    return bytes(op.cache.dtype, op.cache.block_size, op.cache.num_kv_heads, dim);
  };
  const int64_t values_offset = of(kv_part_bytes, op.cache.head_dim);
  const int64_t key_scales = of(kv_element_bytes, op.cache.head_dim);
  const int64_t value_scales = of(kv_element_bytes, op.cache.value_size());
  const int64_t size = int64_t{op.cache.num_kv_heads} * op.cache.head_dim;
  const auto write = kernels.kv_write[kv_format_of(op.cache.dtype)];
  // Number of rows from r on that are consecutive in one block.
  const auto run = [&](int64_t r, int64_t end) {
    const int64_t slot = op.slot_mapping[static_cast<size_t>(r)];
    const int64_t max_run = std::min({end - r, kMaxRun, op.cache.block_size - slot % op.cache.block_size});
    int64_t count = 1;
    while (count < max_run && op.slot_mapping[static_cast<size_t>(r + count)] == slot + count) ++count;
    return count;
  };
  // A cache line of a block is written by one thread. With few rows, each belongs to another sequence, so
  // they are divided among the threads.
  const int64_t share = (op.k.rows() + num_threads(ctx) - 1) / num_threads(ctx);
  const int64_t grain =
      std::min(std::max(kMaxRun, row_grain(2 * size)), std::max(share, row_grain(4 * size)));
  parallel_ranges(ctx, op.k.rows(), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin, count = 1; r < end; r += count) {
      const int64_t slot = op.slot_mapping[static_cast<size_t>(r)];
      count = slot < 0 ? 1 : run(r, end);
      if (slot < 0) continue;
      std::byte* keys =
          op.cache.base + slot / op.cache.block_size * op.cache.block_stride + op.cache.layer_offset;
      write({.keys = keys,
             .values = keys + values_offset,
             .key_scales = key_scales,
             .value_scales = value_scales,
             .k = op.k.row<float>(r),
             .v = op.v.data == nullptr ? nullptr : op.v.row<float>(r),
             .k_stride = op.k.row_stride,
             .v_stride = op.v.row_stride,
             .count = count,
             .num_heads = op.cache.num_kv_heads,
             .head_dim = op.cache.head_dim,
             .value_dim = op.cache.value_size(),
             .block_size = op.cache.block_size,
             .offset = slot % op.cache.block_size});
    }
  });
}

}  // namespace quire::cpu
