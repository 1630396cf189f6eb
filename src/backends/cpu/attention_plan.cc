#include "backends/cpu/attention_plan.h"

#include <algorithm>

namespace quire::cpu {
namespace {

// Fewer lines do not go together for the sake of more pieces: each call copies its tiles for itself.
constexpr int64_t kFewLines = kMaxLines / 4;

// The element of [0, count) that holds item `at`, where first(i) numbers each one's first item, ascending.
template <typename F>
int64_t holder_of(int64_t count, int64_t at, F first) {
  int64_t low = 0;
  int64_t high = count;  // the answer is in [low, high)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (first(middle) <= at ? low : high) = middle;
  }
  return low;
}

int64_t segments_seen_whole(const AttentionShape& shape, int32_t s) {
  return shape.high(s, 0) / kSegment;
}

// The first segment that every row of a sequence sees from its begin.
int64_t first_seen_whole(const AttentionShape& shape, int32_t s) {
  return (shape.low(s, shape.rows(s) - 1) + kSegment - 1) / kSegment;
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
  count_pieces(shape.num_kv_heads, kMaxLines);
  if (threads > 1 && leaves_threads_idle(threads)) {
    for (int32_t s = 0; s < seqs; ++s) {
      // Where there is one segment there is nothing to merge.
      if (shape.rows(s) > 0 && shape.num_segments(s) > 1) sequences_[s].split = true;
    }
    if (count_states() > max_states) {
      for (int64_t i = 0; i < seqs; ++i)
        sequences_[member(i)].split = common_[i] > 0 || (i > 0 && common_[i - 1] > 0);
    }
    add_nodes();
  }
  count_states();
  // As much as can go together where threads have enough to do, then fewer key heads, then fewer lines.
  const int64_t enough = 4 * int64_t{threads};
  int64_t pieces = 0;
  for (int64_t heads = shape.num_kv_heads; heads > 0 && pieces < enough; heads /= 2)
    pieces = count_pieces(heads, kMaxLines);
  for (int64_t lines = kMaxLines / 2; lines >= kFewLines && pieces < enough; lines /= 2)
    pieces = count_pieces(1, lines);
}

// Members share a segment where all rows of both see all of it and it is read for few lines: the many lines
// of a prompt are worth their reading by themselves.
void AttentionPlan::find_common() {
  const AttentionBatch& batch = shape_.batch;
  const int64_t seqs = batch.num_seqs;
  std::fill_n(common_, seqs, 0);
  if (batch.shared_order.empty()) return;
  const auto shares = [this](int32_t s) { return shape_.rows(s) > 0 && shape_.lines(s) <= kMaxLines; };
  for (int64_t i = 0; i + 1 < seqs; ++i) {
    const int32_t s = member(i);
    const int32_t next = member(i + 1);
    if (!shares(s) || !shares(next)) continue;
    const int64_t blocks = batch.shared_blocks[static_cast<size_t>(i)];
    const int64_t common = std::min({blocks * shape_.block_size / kSegment, segments_seen_whole(shape_, s),
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
      // A window hides the first segments from some: those are read apart.
      int64_t skipped = 0;
      for (int32_t i = begin; i < end; ++i)
        skipped = std::max(skipped, end - begin == 1 ? 0 : first_seen_whole(shape_, member(i)));
      grow(begin, end, skipped, skipped);
    }
    begin = end;
  }
}

// Members [begin, end) share the segments [skipped, segment), which have their nodes already.
void AttentionPlan::grow(int32_t begin, int32_t end, int64_t skipped, int64_t segment) {
  if (end - begin == 1) {
    const int32_t s = member(begin);
    const int64_t first = shape_.first_segment(s);
    if (segment > skipped && skipped > first) add_node(begin, 1, first, skipped);
    const int64_t own = segment > skipped ? segment : first;
    if (own < shape_.end_segment(s)) add_node(begin, 1, own, shape_.end_segment(s));
    return;
  }
  const int64_t shared = *std::min_element(common_ + begin, common_ + end - 1);
  if (shared > segment) {
    add_node(begin, end - begin, segment, shared);
    segment = shared;
  }
  for (int32_t first = begin; first < end;) {
    int32_t last = first;
    while (last + 1 < end && common_[last] > segment) ++last;
    grow(first, last + 1, skipped, segment);
    first = last + 1;
  }
}

void AttentionPlan::add_node(int32_t first, int32_t count, int64_t first_segment, int64_t end_segment) {
  AttentionNode& node = nodes_[num_nodes_++];
  node = {.first_member = first,
          .num_members = count,
          .first_segment = first_segment,
          .end_segment = end_segment,
          .whole = !sequences_[member(first)].split,
          .lines = 0,
          .heads = 1,
          .chunk_lines = kMaxLines,
          .first_piece = 0};
  for (int32_t i = first; i < first + count; ++i) node.lines += shape_.lines(member(i));
}

// Numbers the split rows and their states; returns the number of the latter.
int64_t AttentionPlan::count_states() {
  int64_t states = 0;
  num_split_rows_ = 0;
  for (int32_t s = 0; s < shape_.batch.num_seqs; ++s) {
    sequences_[s].first_row = num_split_rows_;
    sequences_[s].first_state = states;
    if (!sequences_[s].split) continue;
    num_split_rows_ += shape_.rows(s);
    states += shape_.lines(s) * shape_.num_kv_heads * shape_.num_segments(s);
  }
  return states;
}

// Numbers the pieces when at most max_heads key heads and chunk_lines lines of one go together; returns how
// many there are.
int64_t AttentionPlan::count_pieces(int64_t max_heads, int64_t chunk_lines) {
  num_pieces_ = 0;
  for (int64_t n = 0; n < num_nodes_; ++n) {
    AttentionNode& node = nodes_[n];
    const int64_t most = std::max<int64_t>(1, std::min(max_heads, kMaxLines / node.lines));
    const int64_t units = (shape_.num_kv_heads + most - 1) / most;
    node.heads = (shape_.num_kv_heads + units - 1) / units;
    node.chunk_lines = chunk_lines;
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
    // Reading a position costs about as much as four lines' arithmetic on it.
    const int64_t lines = std::min(node.chunk_lines, node.lines) + 4;
    const int64_t cost = lines * node.heads * (node.whole ? node.end_segment - node.first_segment : 1);
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
