// How the work of one attention op is cut up. A line is one query head of one query row; the lines of a key
// head are a sequence's rows x its query heads. Sequences whose block tables begin alike are put together, so
// that a segment of positions that they share is read once for the lines of all.
//
// However it is cut, a line meets the same tiles, and its segments are merged in order of position: the plan
// has no say in the result. Lives for one call, in the op's workspace; read by all threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels.h"
#include "ops/op_table.h"

namespace quire::cpu {

// What an op's lines see.
struct AttentionShape {
  const AttentionBatch& batch;
  int32_t window;  // 0: none
  int64_t num_kv_heads;
  int64_t group;  // query heads for each key head
  int64_t block_size;
  int32_t chunk = 0;  // 0: none
  bool bidirectional = false;

  int64_t rows(int32_t s) const { return batch.cu_seqlens_q[index(s) + 1] - batch.cu_seqlens_q[index(s)]; }
  int64_t lines(int32_t s) const { return rows(s) * group; }  // of a key head
  // One past the last position that a row sees, and the first one.
  int64_t high(int32_t s, int64_t row) const {
    const int64_t length = batch.seq_lens[index(s)];
    const int64_t behind = position(s, row) + (bidirectional ? std::max(window, 1) : 1);
    return bidirectional && (window == 0 || behind > length) ? length : behind;
  }
  int64_t low(int32_t s, int64_t row) const {
    const int64_t at = position(s, row);
    if (chunk > 0) return at / chunk * chunk;
    return window > 0 && at >= window ? at + 1 - window : 0;
  }
  // Segments of which some row sees something.
  int64_t first_segment(int32_t s) const { return low(s, 0) / kSegment; }
  int64_t end_segment(int32_t s) const { return (batch.seq_lens[index(s)] - 1) / kSegment + 1; }
  int64_t num_segments(int32_t s) const { return end_segment(s) - first_segment(s); }

  int64_t position(int32_t s, int64_t row) const { return batch.seq_lens[index(s)] - rows(s) + row; }
  static size_t index(int32_t s) { return static_cast<size_t>(s); }
};

// Some segments of one sequence, or those that several share, for all key heads.
struct AttentionNode {
  int32_t first_member;  // in the plan's order
  int32_t num_members;
  int64_t first_segment;
  int64_t end_segment;
  bool whole;           // all segments in one piece, else each is a piece and leaves states
  int64_t lines;        // of a key head
  int64_t heads;        // key heads of a piece; more than 1 where all their lines fit one call
  int64_t chunk_lines;  // lines of a key head that go together at most
  int64_t first_piece;  // among all nodes'

  int64_t chunks() const { return (lines + chunk_lines - 1) / chunk_lines; }
  int64_t units(int64_t num_kv_heads) const { return chunks() * ((num_kv_heads + heads - 1) / heads); }
  int64_t pieces(int64_t num_kv_heads) const {
    return units(num_kv_heads) * (whole ? 1 : end_segment - first_segment);
  }
};

class AttentionPlan {
 public:
  // Bytes for so many sequences.
  static size_t bytes(int64_t max_seqs);

  // memory: bytes(num_seqs), aligned to 64. max_states: how many states of lines the workspace has room for.
  AttentionPlan(std::byte* memory, const AttentionShape& shape, int threads, int64_t max_states);

  int32_t member(int64_t i) const {
    const auto& order = shape_.batch.shared_order;
    return order.empty() ? static_cast<int32_t>(i) : order[static_cast<size_t>(i)];
  }
  int64_t num_pieces() const { return num_pieces_; }
  const AttentionNode& node_of(int64_t piece) const;

  // Rows of sequences whose segments are pieces by themselves, one behind the other.
  int64_t num_split_rows() const { return num_split_rows_; }
  int32_t sequence_of_split_row(int64_t row) const;
  int64_t first_split_row(int32_t s) const { return sequences_[s].first_row; }
  // The place of a line's state, [row, query head, segment] of a sequence.
  int64_t state(int32_t s, int64_t row, int64_t head, int64_t segment) const {
    return sequences_[s].first_state +
           (row * shape_.num_kv_heads * shape_.group + head) * shape_.num_segments(s) + segment -
           shape_.first_segment(s);
  }

 private:
  struct Sequence {
    bool split;
    int64_t first_row;
    int64_t first_state;
  };

  void find_common();
  void add_nodes();
  void grow(int32_t begin, int32_t end, int64_t skipped, int64_t segment);
  void add_node(int32_t first, int32_t count, int64_t first_segment, int64_t end_segment);
  int64_t count_states();
  int64_t count_pieces(int64_t max_heads, int64_t chunk_lines);
  bool leaves_threads_idle(int threads) const;

  const AttentionShape& shape_;
  AttentionNode* nodes_;  // [3 * num_seqs]
  Sequence* sequences_;   // [num_seqs]
  int64_t* common_;       // [num_seqs] leading segments that member i shares with the next one
  int64_t num_nodes_ = 0;
  int64_t num_pieces_ = 0;
  int64_t num_split_rows_ = 0;
};

}  // namespace quire::cpu
