#include "backends/cpu/attention_plan.h"

#include <algorithm>

namespace quire::cpu {
namespace {

// Pieces are not made smaller than this: each call copies its tiles for itself.
constexpr int64_t kFewQueryRows = kMaxQueryRows / 4;

// Returns the element of [0, count) that contains item `at`, where first(i), ascending, is the first item of
// element i.
template <typename F>
int64_t holder_of(int64_t count, int64_t at, F first) {
  int64_t low = 0;
  int64_t high = count;  // the result is in [low, high)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (first(middle) <= at ? low : high) = middle;
  }
  return low;
}

int64_t segments_seen_whole(const AttentionShape& shape, int32_t s) {
  return shape.kv_end(s, 0) / kKvSplit;
}

// First KV split that every row of a sequence sees from its start.
int64_t first_seen_whole(const AttentionShape& shape, int32_t s) {
  return (shape.kv_begin(s, shape.rows(s) - 1) + kKvSplit - 1) / kKvSplit;
}

}  // namespace

size_t AttentionPlan::bytes(int64_t max_seqs) {
  return static_cast<size_t>(max_seqs) * (3 * sizeof(AttentionNode) + sizeof(Sequence) + sizeof(int64_t));
}

AttentionPlan::AttentionPlan(std::byte* memory, const AttentionShape& shape, int threads, int64_t max_states)
    : shape_(shape) {
  const int64_t seqs = shape.batch.num_seqs;
  nodes_ = reinterpret_cast<AttentionNode*>(memory);
  sequences_ = reinterpret_cast<Sequence*>(nodes_ + 3 * seqs);
  common_ = reinterpret_cast<int64_t*>(sequences_ + seqs);

  find_common();
  for (int64_t i = 0; i < seqs; ++i) {
    const bool shares = common_[i] > 0 || (i > 0 && common_[i - 1] > 0);
    sequences_[member(i)] = {.split = shares, .first_row = 0, .first_state = 0};
  }
  if (count_states() > max_states) {
    std::fill_n(common_, seqs, 0);
    for (int64_t s = 0; s < seqs; ++s) sequences_[s].split = false;
  }
  add_nodes();
  count_pieces(shape.num_kv_heads, kMaxQueryRows);
  if (threads > 1 && leaves_threads_idle(threads)) {
    for (int32_t s = 0; s < seqs; ++s) {
      // With a single KV split there is nothing to merge.
      if (shape.rows(s) > 0 && shape.num_splits(s) > 1) sequences_[s].split = true;
    }
    if (count_states() > max_states) {
      for (int64_t i = 0; i < seqs; ++i)
        sequences_[member(i)].split = common_[i] > 0 || (i > 0 && common_[i - 1] > 0);
    }
    add_nodes();
  }
  count_states();
  // Starts with the largest pieces. If they do not occupy all threads, halves the number of KV heads per
  // piece, then the number of query rows.
  const int64_t enough = 4 * int64_t{threads};
  int64_t pieces = 0;
  for (int64_t heads = shape.num_kv_heads; heads > 0 && pieces < enough; heads /= 2)
    pieces = count_pieces(heads, kMaxQueryRows);
  for (int64_t query_rows = kMaxQueryRows / 2; query_rows >= kFewQueryRows && pieces < enough;
       query_rows /= 2)
    pieces = count_pieces(1, query_rows);
}

// Members share a KV split if all their rows see all of it. A split that has many query rows already, as in a
// prompt, is not shared: reading it separately costs little.
void AttentionPlan::find_common() {
  const AttentionBatch& batch = shape_.batch;
  const int64_t seqs = batch.num_seqs;
  std::fill_n(common_, seqs, 0);
  if (batch.shared_order.empty()) return;
  const auto shares = [this](int32_t s) {
    return shape_.rows(s) > 0 && shape_.query_rows(s) <= kMaxQueryRows;
  };
  for (int64_t i = 0; i + 1 < seqs; ++i) {
    const int32_t s = member(i);
    const int32_t next = member(i + 1);
    if (!shares(s) || !shares(next)) continue;
    const int64_t blocks = batch.shared_blocks[static_cast<size_t>(i)];
    const int64_t common = std::min({blocks * shape_.block_size / kKvSplit, segments_seen_whole(shape_, s),
                                     segments_seen_whole(shape_, next)});
    const int64_t skipped = std::max(first_seen_whole(shape_, s), first_seen_whole(shape_, next));
    common_[i] = common > skipped ? common : 0;
  }
}

void AttentionPlan::add_nodes() {
  num_nodes_ = 0;
  const int32_t seqs = shape_.batch.num_seqs;
  for (int32_t begin = 0; begin < seqs;) {
    int32_t end = begin + 1;
    while (end < seqs && common_[end - 1] > 0) ++end;
    if (shape_.rows(member(begin)) > 0) {
      // With a sliding window, some members do not see the first KV splits. Those splits are read separately.
      int64_t skipped = 0;
      for (int32_t i = begin; i < end; ++i)
        skipped = std::max(skipped, end - begin == 1 ? 0 : first_seen_whole(shape_, member(i)));
      grow(begin, end, skipped, skipped);
    }
    begin = end;
  }
}

// Adds nodes for members [begin, end), which share the KV splits [skipped, split); those already have nodes.
void AttentionPlan::grow(int32_t begin, int32_t end, int64_t skipped, int64_t split) {
  if (end - begin == 1) {
    const int32_t s = member(begin);
    const int64_t first = shape_.first_split(s);
    if (split > skipped && skipped > first) add_node(begin, 1, first, skipped);
    const int64_t own = split > skipped ? split : first;
    if (own < shape_.end_split(s)) add_node(begin, 1, own, shape_.end_split(s));
    return;
  }
  const int64_t shared = *std::min_element(common_ + begin, common_ + end - 1);
  if (shared > split) {
    add_node(begin, end - begin, split, shared);
    split = shared;
  }
  for (int32_t first = begin; first < end;) {
    int32_t last = first;
    while (last + 1 < end && common_[last] > split) ++last;
    grow(first, last + 1, skipped, split);
    first = last + 1;
  }
}

void AttentionPlan::add_node(int32_t first, int32_t count, int64_t first_split, int64_t end_split) {
  AttentionNode& node = nodes_[num_nodes_++];
  node = {.first_member = first,
          .num_members = count,
          .first_split = first_split,
          .end_split = end_split,
          .whole = !sequences_[member(first)].split,
          .query_rows = 0,
          .heads = 1,
          .chunk_rows = kMaxQueryRows,
          .first_piece = 0};
  for (int32_t i = first; i < first + count; ++i) node.query_rows += shape_.query_rows(member(i));
}

// Numbers the split rows and their states, and returns the number of states.
int64_t AttentionPlan::count_states() {
  int64_t states = 0;
  num_split_rows_ = 0;
  for (int32_t s = 0; s < shape_.batch.num_seqs; ++s) {
    sequences_[s].first_row = num_split_rows_;
    sequences_[s].first_state = states;
    if (!sequences_[s].split) continue;
    num_split_rows_ += shape_.rows(s);
    states += shape_.query_rows(s) * shape_.num_kv_heads * shape_.num_splits(s);
  }
  return states;
}

// Numbers the pieces for at most max_heads KV heads and chunk_rows query rows per piece. Returns their
// number.
int64_t AttentionPlan::count_pieces(int64_t max_heads, int64_t chunk_rows) {
  num_pieces_ = 0;
  for (int64_t n = 0; n < num_nodes_; ++n) {
    AttentionNode& node = nodes_[n];
    const int64_t fitting = std::max<int64_t>(1, std::min(max_heads, kMaxQueryRows / node.query_rows));
    const int64_t units = (shape_.num_kv_heads + fitting - 1) / fitting;
    node.heads = (shape_.num_kv_heads + units - 1) / units;
    node.chunk_rows = chunk_rows;
    node.first_piece = num_pieces_;
    num_pieces_ += node.pieces(shape_.num_kv_heads);
  }
  return num_pieces_;
}

bool AttentionPlan::leaves_threads_idle(int threads) const {
  int64_t total = 0;
  int64_t largest = 0;
  for (int64_t n = 0; n < num_nodes_; ++n) {
    const AttentionNode& node = nodes_[n];
    // Reading a position costs about as much as the arithmetic of four query rows on it.
    const int64_t query_rows = std::min(node.chunk_rows, node.query_rows) + 4;
    const int64_t cost = query_rows * node.heads * (node.whole ? node.end_split - node.first_split : 1);
    total += cost * node.pieces(shape_.num_kv_heads);
    largest = std::max(largest, cost);
  }
  return num_pieces_ < 4 * int64_t{threads} || 2 * largest * threads > total;
}

const AttentionNode& AttentionPlan::node_of(int64_t piece) const {
  return nodes_[holder_of(num_nodes_, piece, [this](int64_t i) { return nodes_[i].first_piece; })];
}

int32_t AttentionPlan::sequence_of_split_row(int64_t row) const {
  return static_cast<int32_t>(
      holder_of(shape_.batch.num_seqs, row, [this](int64_t i) { return sequences_[i].first_row; }));
}

}  // namespace quire::cpu
