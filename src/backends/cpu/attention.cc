// The KV cache's writes and paged attention, over the pool.
//
// One unit of work is a chunk of lines (query rows x the query heads of one key head) of one sequence. Where
// there are too few of them for the threads, or one is much longer than the others, units are cut further
// into the fixed segments of positions, whose states are kept in the workspace and merged in order. Both ways
// do the same arithmetic in the same order.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

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
// Floats of one line's state in the workspace: acc, max, sum.
int64_t state_size(int64_t head_dim) {
  return acc_stride_of(head_dim) + 16;
}

// A thread's scratch: scores, gathered keys, the state of a segment and of all segments so far.
struct ThreadScratch {
  float* scores;
  void* key_tile;
  AttentionState segment;
  AttentionState total;

  static size_t bytes(int64_t head_dim) {
    const int64_t floats =
        kMaxLines * kTile + head_dim * kTile + 2 * kMaxLines * (acc_stride_of(head_dim) + 2);
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
    key_tile = take(head_dim * kTile);
    segment = {take(kMaxLines), take(kMaxLines), take(kMaxLines * stride)};
    total = {take(kMaxLines), take(kMaxLines), take(kMaxLines * stride)};
  }
};

// Where a sequence's work begins among all.
struct SequencePlan {
  int64_t first_unit;
  int64_t first_state;
};

struct Job {
  const CpuKernels& kernels;
  const TensorView& out;
  const TensorView& q;
  const KvCacheView& cache;
  const AttentionBatch& batch;
  const AttentionParams& params;
  int64_t num_heads;
  int64_t group;                 // query heads for each key head
  std::span<SequencePlan> plan;  // [num_seqs + 1]
  std::byte* thread_scratch;
  float* states;  // of split units; null: nothing is split

  int64_t rows(int32_t s) const { return batch.cu_seqlens_q[index(s) + 1] - batch.cu_seqlens_q[index(s)]; }
  int64_t chunks(int32_t s) const { return (rows(s) * group + kMaxLines - 1) / kMaxLines; }
  int64_t high(int32_t s, int64_t row) const { return batch.seq_lens[index(s)] - rows(s) + row + 1; }
  int64_t low(int64_t high_end) const {
    return params.window > 0 ? std::max<int64_t>(0, high_end - params.window) : 0;
  }
  int64_t first_segment(int32_t s) const { return low(high(s, 0)) / kSegment; }
  int64_t num_segments(int32_t s) const {
    return (batch.seq_lens[index(s)] - 1) / kSegment + 1 - first_segment(s);
  }
  float* state(int32_t s, int64_t row, int64_t head, int64_t segment) const {
    const int64_t at =
        plan[index(s)].first_state + (row * num_heads + head) * num_segments(s) + segment - first_segment(s);
    return states + at * state_size(cache.head_dim);
  }
  ThreadScratch scratch(int thread) const {
    return {thread_scratch + static_cast<size_t>(thread) * ThreadScratch::bytes(cache.head_dim),
            cache.head_dim};
  }
  static size_t index(int32_t s) { return static_cast<size_t>(s); }
};

bool sees(const AttentionLine& line, int64_t segment) {
  return line.high > segment * kSegment && line.low < (segment + 1) * kSegment;
}

// A chunk of lines made ready for the kernels.
struct Chunk {
  std::array<AttentionLine, kMaxLines> lines;
  AttentionArgs args;
  int64_t first_line;
  int64_t kv_head;

  Chunk(const Job& job, const ThreadScratch& scratch, int32_t s, int64_t head, int64_t chunk)
      : first_line(chunk * kMaxLines), kv_head(head) {
    const KvCacheView& cache = job.cache;
    const auto count = static_cast<int>(std::min<int64_t>(kMaxLines, job.rows(s) * job.group - first_line));
    for (int l = 0; l < count; ++l) {
      const int64_t high = job.high(s, row(job, l));
      lines[static_cast<size_t>(l)] = {job.q.row<float>(job.batch.cu_seqlens_q[Job::index(s)] + row(job, l)) +
                                           query_head(job, l) * cache.head_dim,
                                       job.low(high), high};
    }
    args = {
        .lines = lines.data(),
        .num_lines = count,
        .keys = cache.base + cache.layer_offset,
        .block_stride = cache.block_stride,
        .values_offset =
            kv_bytes_per_block(cache.dtype, cache.block_size, cache.num_kv_heads, cache.head_dim) / 2,
        .scales_offset = kv_element_bytes(cache.dtype, cache.block_size, cache.num_kv_heads, cache.head_dim),
        .blocks = job.batch.block_table.data() + job.batch.block_table_indptr[Job::index(s)],
        .block_size = cache.block_size,
        .kv_head = head,
        .head_dim = cache.head_dim,
        .acc_stride = acc_stride_of(cache.head_dim),
        .scale = job.params.scale,
        .softcap = job.params.logit_softcap,
        .scores = scratch.scores,
        .key_tile = scratch.key_tile,
    };
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  int64_t row(const Job& job, int l) const { return (first_line + l) / job.group; }
  int64_t query_head(const Job& job, int l) const {
    return kv_head * job.group + (first_line + l) % job.group;
  }
  int64_t high() const { return lines[static_cast<size_t>(args.num_lines - 1)].high; }
  void attend(const Job& job, const AttentionState& state, int64_t segment) const {
    const int64_t begin = segment * kSegment;
    job.kernels.attend_segment[kv_format_of(job.cache.dtype)](args, state, begin,
                                                              std::min(begin + kSegment, high()));
  }
};

float* out_of(const Job& job, int32_t s, int64_t row, int64_t head) {
  return job.out.row<float>(job.batch.cu_seqlens_q[Job::index(s)] + row) + head * job.cache.head_dim;
}

// A whole unit: all segments one after the other.
void attend_whole(const Job& job, int thread, int32_t s, int64_t unit) {
  const ThreadScratch scratch = job.scratch(thread);
  const Chunk chunk(job, scratch, s, unit / job.chunks(s), unit % job.chunks(s));
  const int64_t stride = chunk.args.acc_stride;
  for (int64_t segment = chunk.lines[0].low / kSegment; segment * kSegment < chunk.high(); ++segment) {
    chunk.attend(job, scratch.segment, segment);
    for (int l = 0; l < chunk.args.num_lines; ++l) {
      const AttentionLine& line = chunk.lines[static_cast<size_t>(l)];
      if (!sees(line, segment)) continue;
      const float* acc = scratch.segment.acc + l * stride;
      if (line.low / kSegment == segment) {
        scratch.total.max[l] = scratch.segment.max[l];
        scratch.total.sum[l] = scratch.segment.sum[l];
        std::memcpy(scratch.total.acc + l * stride, acc, static_cast<size_t>(stride) * sizeof(float));
      } else {
        job.kernels.attention_merge(scratch.total.max + l, scratch.total.sum + l,
                                    scratch.total.acc + l * stride, scratch.segment.max[l],
                                    scratch.segment.sum[l], acc, stride);
      }
    }
  }
  for (int l = 0; l < chunk.args.num_lines; ++l) {
    job.kernels.attention_finish(out_of(job, s, chunk.row(job, l), chunk.query_head(job, l)),
                                 scratch.total.acc + l * stride, scratch.total.sum[l], job.cache.head_dim);
  }
}

// One segment of a unit; the states go to the workspace.
void attend_part(const Job& job, int thread, int32_t s, int64_t part) {
  const ThreadScratch scratch = job.scratch(thread);
  const int64_t segment = job.first_segment(s) + part % job.num_segments(s);
  const int64_t unit = part / job.num_segments(s);
  const Chunk chunk(job, scratch, s, unit / job.chunks(s), unit % job.chunks(s));
  const int64_t stride = chunk.args.acc_stride;
  chunk.attend(job, scratch.segment, segment);
  for (int l = 0; l < chunk.args.num_lines; ++l) {
    if (!sees(chunk.lines[static_cast<size_t>(l)], segment)) continue;
    float* kept = job.state(s, chunk.row(job, l), chunk.query_head(job, l), segment);
    std::memcpy(kept, scratch.segment.acc + l * stride, static_cast<size_t>(stride) * sizeof(float));
    kept[stride] = scratch.segment.max[l];
    kept[stride + 1] = scratch.segment.sum[l];
  }
}

// Merges the states of one line, in order of position.
void merge_parts(const Job& job, int32_t s, int64_t row, int64_t head) {
  const int64_t high = job.high(s, row);
  const int64_t stride = acc_stride_of(job.cache.head_dim);
  const int64_t first = job.low(high) / kSegment;
  float* total = job.state(s, row, head, first);
  for (int64_t segment = first + 1; segment * kSegment < high; ++segment) {
    const float* next = job.state(s, row, head, segment);
    job.kernels.attention_merge(total + stride, total + stride + 1, total, next[stride], next[stride + 1],
                                next, stride);
  }
  job.kernels.attention_finish(out_of(job, s, row, head), total, total[stride + 1], job.cache.head_dim);
}

// Whether to cut units into segments, and if so the number of states that takes; 0: no.
int64_t states_when_split(const Job& job, int threads) {
  if (threads == 1) return 0;
  int64_t units = 0;
  int64_t total_cost = 0;
  int64_t largest = 0;
  int64_t states = 0;
  bool several = false;
  for (int32_t s = 0; s < job.batch.num_seqs; ++s) {
    if (job.rows(s) == 0) continue;
    const int64_t count = job.chunks(s) * job.cache.num_kv_heads;
    const int64_t lines = std::min<int64_t>(kMaxLines, job.rows(s) * job.group);
    const int64_t cost = (lines + 4) * job.num_segments(s);
    units += count;
    total_cost += count * cost;
    largest = std::max(largest, cost);
    states += job.rows(s) * job.num_heads * job.num_segments(s);
    several = several || job.num_segments(s) > 1;
  }
  const bool idle_threads = units < 4 * int64_t{threads} || 2 * largest * threads > total_cost;
  return several && idle_threads ? states : 0;
}

// Fills the plan; returns the number of units.
int64_t make_plan(const Job& job) {
  int64_t units = 0;
  int64_t states = 0;
  for (int32_t s = 0; s < job.batch.num_seqs; ++s) {
    job.plan[Job::index(s)] = {units, states};
    if (job.rows(s) == 0) continue;
    const int64_t segments = job.states == nullptr ? 1 : job.num_segments(s);
    units += job.chunks(s) * job.cache.num_kv_heads * segments;
    states += job.rows(s) * job.num_heads * segments;
  }
  job.plan[Job::index(job.batch.num_seqs)] = {units, states};
  return units;
}

// The sequence that holds item `at` of those that `first_of` numbers.
template <typename F>
int32_t sequence_of(int32_t num_seqs, int64_t at, F first_of) {
  int32_t low = 0;
  int32_t high = num_seqs;  // the answer is in [low, high)
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (first_of(middle) <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
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
  const size_t plan = align_up(static_cast<size_t>(max_tokens + 1) * sizeof(SequencePlan));
  const size_t scratch = static_cast<size_t>(threads) * ThreadScratch::bytes(head_dim);
  const auto row = static_cast<size_t>(num_heads) * static_cast<size_t>(max_seq_len / kSegment + 1) *
                   static_cast<size_t>(state_size(head_dim)) * sizeof(float);
  const auto rows =
      static_cast<size_t>(std::min<int64_t>(std::max<int64_t>(max_tokens, 1), 4 * int64_t{threads}));
  const size_t split = threads == 1 ? 0 : std::max(row, std::min(kMaxSplitBytes, rows * row));
  return 64 + plan + scratch + split;
}

void paged_attention(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                     const TensorView& q, const KvCacheView& cache, const AttentionBatch& batch,
                     const AttentionParams& params) {
  const int threads = num_threads(ctx);
  const size_t plan_bytes = align_up((static_cast<size_t>(batch.num_seqs) + 1) * sizeof(SequencePlan));
  const size_t fixed = 64 + plan_bytes + static_cast<size_t>(threads) * ThreadScratch::bytes(cache.head_dim);
  if (ctx.workspace.size() < fixed) {
    throw Error("paged_attention: a workspace of " + std::to_string(fixed) + " bytes is needed; got " +
                std::to_string(ctx.workspace.size()));
  }
  std::byte* at = ctx.workspace.data() + (64 - reinterpret_cast<uintptr_t>(ctx.workspace.data()) % 64) % 64;
  Job job = {
      .kernels = kernels,
      .out = out,
      .q = q,
      .cache = cache,
      .batch = batch,
      .params = params,
      .num_heads = q.shape[1],
      .group = q.shape[1] / cache.num_kv_heads,
      .plan = {reinterpret_cast<SequencePlan*>(at), static_cast<size_t>(batch.num_seqs) + 1},
      .thread_scratch = at + plan_bytes,
      .states = nullptr,
  };
  const int64_t states = states_when_split(job, threads);
  const auto state_bytes = static_cast<size_t>(state_size(cache.head_dim)) * sizeof(float);
  if (states > 0 && static_cast<size_t>(states) <= (ctx.workspace.size() - fixed) / state_bytes) {
    job.states = reinterpret_cast<float*>(ctx.workspace.data() + fixed / 64 * 64);
  }
  const int64_t units = make_plan(job);
  parallel_ranges(ctx, units, 1, [&job](int64_t begin, int64_t end, int thread) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int32_t s = sequence_of(job.batch.num_seqs, unit,
                                    [&job](int32_t i) { return job.plan[Job::index(i)].first_unit; });
      const int64_t own = unit - job.plan[Job::index(s)].first_unit;
      if (job.states == nullptr) {
        attend_whole(job, thread, s, own);
      } else {
        attend_part(job, thread, s, own);
      }
    }
  });
  if (job.states == nullptr) return;
  parallel_ranges(ctx, q.rows() * job.num_heads, 4, [&job](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / job.num_heads;
      const int32_t s = sequence_of(job.batch.num_seqs, row,
                                    [&job](int32_t i) { return job.batch.cu_seqlens_q[Job::index(i)]; });
      merge_parts(job, s, row - job.batch.cu_seqlens_q[Job::index(s)], item % job.num_heads);
    }
  });
}

void kv_write(const CpuKernels& kernels, const OpContext& ctx, const KvCacheView& cache, const TensorView& k,
              const TensorView& v, std::span<const int64_t> slot_mapping) {
  const int64_t half =
      kv_bytes_per_block(cache.dtype, cache.block_size, cache.num_kv_heads, cache.head_dim) / 2;
  const int64_t scales = kv_element_bytes(cache.dtype, cache.block_size, cache.num_kv_heads, cache.head_dim);
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
  const int64_t grain = std::max(kMaxRun, row_grain(2 * size));
  parallel_ranges(ctx, k.rows(), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin, count = 1; r < end; r += count) {
      const int64_t slot = slot_mapping[static_cast<size_t>(r)];
      count = slot < 0 ? 1 : run(r, end);
      if (slot < 0) continue;
      std::byte* keys = cache.base + slot / cache.block_size * cache.block_stride + cache.layer_offset;
      write({.keys = keys,
             .values = keys + half,
             .scales_offset = scales,
             .k = k.row<float>(r),
             .v = v.row<float>(r),
             .k_stride = k.row_stride,
             .v_stride = v.row_stride,
             .count = count,
             .num_heads = cache.num_kv_heads,
             .head_dim = cache.head_dim,
             .block_size = cache.block_size,
             .offset = slot % cache.block_size});
    }
  });
}

}  // namespace quire::cpu
