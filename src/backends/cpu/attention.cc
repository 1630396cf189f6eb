// The KV cache's writes and paged attention, over the pool.
//
// Attention's work is cut into pieces (attention_plan.h): lines of some key heads over all their segments, or
// over one segment, whose states are kept in the workspace and merged in order. Both ways do the same
// arithmetic in the same order.
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
// A query as pairs, with what prepare_x writes behind it.
int64_t q_pairs_stride(int64_t head_dim) {
  return (head_dim + 31) / 32 * 16;
}
// Floats of one line's state in the workspace: acc, max, sum.
int64_t state_size(int64_t head_dim) {
  return acc_stride_of(head_dim) + 16;
}

// A thread's scratch: scores, gathered and widened elements of a tile, the state of a segment and of all
// segments so far.
struct ThreadScratch {
  float* scores;
  void* key_tile;
  uint16_t* wide_keys;
  uint16_t* wide_values;
  float* turned;
  uint32_t* q_pairs;  // [kMaxLines, q_pairs_stride]
  AttentionState segment;
  AttentionState total;

  static size_t bytes(int64_t head_dim) {
    const int64_t stride = acc_stride_of(head_dim);
    const int64_t floats = kMaxLines * kTile + (2 * stride + kTurnedDims) * kTile +
                           kMaxLines * q_pairs_stride(head_dim) + 2 * kMaxLines * (stride + 2);
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
    scores = take(kMaxLines * kTile);
    key_tile = take(stride * kTile);
    wide_keys = reinterpret_cast<uint16_t*>(take(stride * kTile / 2));
    wide_values = reinterpret_cast<uint16_t*>(take(stride * kTile / 2));
    turned = take(kTurnedDims * kTile);
    q_pairs = reinterpret_cast<uint32_t*>(take(kMaxLines * q_pairs_stride(head_dim)));
    for (AttentionState* state : {&segment, &total}) {
      state->acc = take(kMaxLines * stride);
      state->max = take(kMaxLines);
      state->sum = take(kMaxLines);
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
  float* states;  // of lines whose segments are pieces

  int64_t num_heads() const { return q.shape[1]; }
  float* state(int32_t s, int64_t row, int64_t head, int64_t segment) const {
    return states + plan.state(s, row, head, segment) * state_size(cache.value_size());
  }
  ThreadScratch scratch(int thread) const {
    return {thread_scratch + static_cast<size_t>(thread) * ThreadScratch::bytes(cache.head_dim),
            cache.head_dim};
  }
  // Row `row` of sequence s among all of the batch.
  int64_t batch_row(int32_t s, int64_t row) const {
    return shape.batch.cu_seqlens_q[AttentionShape::index(s)] + row;
  }
  // A line's result out of its state.
  void finish(int32_t s, int64_t row, int64_t head, const float* acc, float max, float sum) const {
    const float* sink = params.sinks == nullptr ? nullptr : params.sinks + head;
    kernels.attention_finish(out.row<float>(batch_row(s, row)) + head * cache.value_size(), acc, max, sum,
                             sink, cache.value_size());
  }
};

bool sees(const AttentionLine& line, int64_t segment) {
  return line.high > segment * kSegment && line.low < (segment + 1) * kSegment;
}

// Some lines of a node, of some key heads, made ready for the kernels. Line l of head h is at h * num_lines +
// l.
class Chunk {
 public:
  Chunk(const Job& job, const ThreadScratch& scratch, const AttentionNode& node, int64_t unit) : job_(job) {
    const AttentionShape& shape = job.shape;
    const KvCacheView& cache = job.cache;
    const int64_t first_line = unit % node.chunks() * node.chunk_lines;
    kv_head_ = unit / node.chunks() * node.heads;
    num_kv_heads_ = static_cast<int>(std::min(node.heads, cache.num_kv_heads - kv_head_));
    place_lines(node, first_line);
    const KvFormat format = kv_format_of(cache.dtype);
    const bool pairs = job.kernels.attend_pairs[format] != nullptr && cache.head_dim % 2 == 0;
    attend_segment_ = pairs ? job.kernels.attend_pairs[format] : job.kernels.attend_segment[format];
    for (int l = 0; l < num_lines_ * num_kv_heads_; ++l) {
      const Place& place = places_[static_cast<size_t>(l % num_lines_)];
      const int64_t high = shape.high(place.seq, place.row);
      const int64_t head = query_head(l);
      const float* q = job.q.row<float>(job.batch_row(place.seq, place.row)) + head * cache.head_dim;
      uint32_t* q_pairs = scratch.q_pairs + l * q_pairs_stride(cache.head_dim);
      if (pairs) job.kernels.prepare_x[kStorageBF16](q_pairs, q, cache.head_dim);
      lines_[static_cast<size_t>(l)] = {
          .q = q,
          .q_pairs = q_pairs,
          .low = shape.low(place.seq, place.row),
          .high = high,
          .slope = job.params.alibi_slopes == nullptr ? 0.0F : job.params.alibi_slopes[head],
          .chosen = job.params.chosen.row(job.batch_row(place.seq, place.row), kv_head_ + l / num_lines_)};
    }
    const auto first_seq = AttentionShape::index(places_[0].seq);
    args_ = {
        .lines = lines_.data(),
        .num_lines = num_lines_,
        .line_stride = num_lines_,
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
        .turned = scratch.turned,
    };
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  void attend(const AttentionState& state, int64_t segment) const {
    const int64_t begin = segment * kSegment;
    const int64_t high = lines_[static_cast<size_t>(num_lines_ - 1)].high;
    attend_segment_(args_, state, begin, std::min(begin + kSegment, high));
  }
  // f(l, sequence, row, query head) for each line l.
  template <typename F>
  void for_each_line(F f) const {
    for (int l = 0; l < num_lines_ * num_kv_heads_; ++l) {
      const Place& place = places_[static_cast<size_t>(l % num_lines_)];
      f(l, place.seq, place.row, query_head(l));
    }
  }
  const AttentionLine& line(int l) const { return lines_[static_cast<size_t>(l)]; }
  int64_t acc_stride() const { return args_.acc_stride; }

 private:
  struct Place {
    int32_t seq;
    int64_t row;
    int64_t head;  // among those of its key head
  };

  void place_lines(const AttentionNode& node, int64_t first_line) {
    const auto count = static_cast<int>(std::min(node.chunk_lines, node.lines - first_line));
    int64_t line = first_line;
    for (int32_t i = node.first_member; num_lines_ < count; ++i) {
      const int32_t s = job_.plan.member(i);
      const int64_t own = job_.shape.lines(s);
      for (; line < own && num_lines_ < count; ++line)
        places_[static_cast<size_t>(num_lines_++)] = {s, line / job_.shape.group, line % job_.shape.group};
      line -= own;
    }
  }
  int64_t query_head(int l) const {
    return (kv_head_ + l / num_lines_) * job_.shape.group + places_[static_cast<size_t>(l % num_lines_)].head;
  }

  const Job& job_;
  std::array<Place, kMaxLines> places_;  // [num_lines]
  std::array<AttentionLine, kMaxLines> lines_;
  AttentionArgs args_;
  void (*attend_segment_)(const AttentionArgs&, AttentionState, int64_t begin, int64_t end);
  int num_lines_ = 0;  // of each key head
  int num_kv_heads_;
  int64_t kv_head_;
};

// A unit of a node, all segments one after the other.
void attend_whole(const Job& job, int thread, const AttentionNode& node, int64_t unit) {
  const ThreadScratch scratch = job.scratch(thread);
  const AttentionState& part = scratch.segment;
  const AttentionState& total = scratch.total;
  const Chunk chunk(job, scratch, node, unit);
  const int64_t stride = chunk.acc_stride();
  for (int64_t segment = node.first_segment; segment < node.end_segment; ++segment) {
    chunk.attend(part, segment);
    chunk.for_each_line([&](int l, int32_t, int64_t, int64_t) {
      if (!sees(chunk.line(l), segment)) return;
      if (chunk.line(l).low / kSegment == segment) {
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
  chunk.for_each_line([&](int l, int32_t s, int64_t row, int64_t head) {
    job.finish(s, row, head, total.acc + l * stride, total.max[l], total.sum[l]);
  });
}

// One segment of a unit; the states go to the workspace.
void attend_part(const Job& job, int thread, const AttentionNode& node, int64_t unit, int64_t segment) {
  const ThreadScratch scratch = job.scratch(thread);
  const Chunk chunk(job, scratch, node, unit);
  const int64_t stride = chunk.acc_stride();
  chunk.attend(scratch.segment, segment);
  chunk.for_each_line([&](int l, int32_t s, int64_t row, int64_t head) {
    if (!sees(chunk.line(l), segment)) return;
    float* kept = job.state(s, row, head, segment);
    std::memcpy(kept, scratch.segment.acc + l * stride, static_cast<size_t>(stride) * sizeof(float));
    kept[stride] = scratch.segment.max[l];
    kept[stride + 1] = scratch.segment.sum[l];
  });
}

void attend_piece(const Job& job, int thread, int64_t piece) {
  const AttentionNode& node = job.plan.node_of(piece);
  const int64_t own = piece - node.first_piece;
  const int64_t units = node.units(job.cache.num_kv_heads);
  if (node.whole) {
    attend_whole(job, thread, node, own);
  } else {
    attend_part(job, thread, node, own % units, node.first_segment + own / units);
  }
}

// Merges the states of one line, in order of position.
void merge_parts(const Job& job, int32_t s, int64_t row, int64_t head) {
  const int64_t high = job.shape.high(s, row);
  const int64_t stride = acc_stride_of(job.cache.value_size());
  const int64_t first = job.shape.low(s, row) / kSegment;
  float* total = job.state(s, row, head, first);
  for (int64_t segment = first + 1; segment * kSegment < high; ++segment) {
    const float* next = job.state(s, row, head, segment);
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
  const auto row = static_cast<size_t>(num_heads) * static_cast<size_t>(max_seq_len / kSegment + 1) *
                   static_cast<size_t>(state_size(head_dim)) * sizeof(float);
  // One row keeps all threads busy; rows of several sequences that share a prefix, the memory.
  const auto rows = static_cast<size_t>(
      std::min<int64_t>(std::max<int64_t>(max_tokens, 1), std::max<int64_t>(4 * int64_t{threads}, 64)));
  const size_t scores = align_up(choice_bytes(max_seq_len, num_heads));
  return 64 + plan + scratch + std::max({row, std::min(kMaxSplitBytes, rows * row), scores});
}

void paged_attention(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                     const TensorView& q, const KvCacheView& cache, const AttentionBatch& batch,
                     const AttentionParams& params) {
  const int threads = num_threads(ctx);
  const size_t plan_bytes = align_up(AttentionPlan::bytes(batch.num_seqs));
  const size_t fixed = 64 + plan_bytes + static_cast<size_t>(threads) * ThreadScratch::bytes(cache.head_dim);
  if (ctx.workspace.size() < fixed) {
    throw Error("paged_attention: a workspace of " + std::to_string(fixed) + " bytes is needed; got " +
                std::to_string(ctx.workspace.size()));
  }
  std::byte* at = ctx.workspace.data() + (64 - reinterpret_cast<uintptr_t>(ctx.workspace.data()) % 64) % 64;
  const auto state_bytes = static_cast<size_t>(state_size(cache.value_size())) * sizeof(float);
  const AttentionShape shape = {.batch = batch,
                                .window = params.window,
                                .num_kv_heads = cache.num_kv_heads,
                                .group = q.shape[1] / cache.num_kv_heads,
                                .block_size = cache.block_size,
                                .chunk = params.chunk,
                                .bidirectional = params.bidirectional};
  const AttentionPlan plan(at, shape, threads,
                           static_cast<int64_t>((ctx.workspace.size() - fixed) / state_bytes));
  const Job job = {
      .kernels = kernels,
      .out = out,
      .q = q,
      .cache = cache,
      .params = params,
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

void kv_write(const CpuKernels& kernels, const OpContext& ctx, const KvCacheView& cache, const TensorView& k,
              const TensorView& v, std::span<const int64_t> slot_mapping) {
  const auto of = [&cache](const auto& bytes, int32_t dim) {
    return bytes(cache.dtype, cache.block_size, cache.num_kv_heads, dim);
  };
  const int64_t values_offset = of(kv_part_bytes, cache.head_dim);
  const int64_t key_scales = of(kv_element_bytes, cache.head_dim);
  const int64_t value_scales = of(kv_element_bytes, cache.value_size());
  const int64_t size = int64_t{cache.num_kv_heads} * cache.head_dim;
  const auto write = kernels.kv_write[kv_format_of(cache.dtype)];
  // Rows from r on that follow each other in one block.
  const auto run = [&](int64_t r, int64_t end) {
    const int64_t slot = slot_mapping[static_cast<size_t>(r)];
    const int64_t most = std::min({end - r, kMaxRun, cache.block_size - slot % cache.block_size});
    int64_t count = 1;
    while (count < most && slot_mapping[static_cast<size_t>(r + count)] == slot + count) ++count;
    return count;
  };
  // A block's line is written by one thread; a few rows, of as many sequences, are shared out nevertheless.
  const int64_t share = (k.rows() + num_threads(ctx) - 1) / num_threads(ctx);
  const int64_t grain =
      std::min(std::max(kMaxRun, row_grain(2 * size)), std::max(share, row_grain(4 * size)));
  parallel_ranges(ctx, k.rows(), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin, count = 1; r < end; r += count) {
      const int64_t slot = slot_mapping[static_cast<size_t>(r)];
      count = slot < 0 ? 1 : run(r, end);
      if (slot < 0) continue;
      std::byte* keys = cache.base + slot / cache.block_size * cache.block_stride + cache.layer_offset;
      write({.keys = keys,
             .values = keys + values_offset,
             .key_scales = key_scales,
             .value_scales = value_scales,
             .k = k.row<float>(r),
             .v = v.data == nullptr ? nullptr : v.row<float>(r),
             .k_stride = k.row_stride,
             .v_stride = v.row_stride,
             .count = count,
             .num_heads = cache.num_kv_heads,
             .head_dim = cache.head_dim,
             .value_dim = cache.value_size(),
             .block_size = cache.block_size,
             .offset = slot % cache.block_size});
    }
  });
}

}  // namespace quire::cpu
