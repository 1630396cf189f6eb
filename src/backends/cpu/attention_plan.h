// Work partitioning for one paged-attention call. A query row is one query head of one token.
// Sequences whose block tables start with the same blocks are grouped, so a shared KV split is
// read once for all their query rows. Partitioning never changes the result: each row visits the same tiles,
// and its partial softmax states are merged in position order. Lives in the op's workspace; read by all
// threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels.h"
#include "ops/op_table.h"

namespace quire::cpu {

// Shapes and masks of a call: which positions each query row sees.
struct AttentionShape {
  const AttentionBatch& batch;
  int32_t window;  // 0 = no sliding window
  int64_t num_kv_heads;
  int64_t group;  // query heads per KV head
  int64_t block_size;
  int32_t chunk = 0;  // 0 = no chunked attention
  bool bidirectional = false;

  int64_t rows(int32_t s) const { return batch.cu_seqlens_q[index(s) + 1] - batch.cu_seqlens_q[index(s)]; }
  int64_t query_rows(int32_t s) const { return rows(s) * group; }  // per KV head
  // End (exclusive) and begin of the positions that a row sees.
  int64_t kv_end(int32_t s, int64_t row) const {
    const int64_t length = batch.seq_lens[index(s)];
    const int64_t end = position(s, row) + (bidirectional ? std::max(window, 1) : 1);
    return bidirectional && (window == 0 || end > length) ? length : end;
  }
  int64_t kv_begin(int32_t s, int64_t row) const {
    const int64_t at = position(s, row);
    if (chunk > 0) return at / chunk * chunk;
    return window > 0 && at >= window ? at + 1 - window : 0;
  }
  // Range of KV splits that at least one row sees.
  int64_t first_split(int32_t s) const { return kv_begin(s, 0) / kKvSplit; }
  int64_t end_split(int32_t s) const { return (batch.seq_lens[index(s)] - 1) / kKvSplit + 1; }
  int64_t num_splits(int32_t s) const { return end_split(s) - first_split(s); }

  int64_t position(int32_t s, int64_t row) const { return batch.seq_lens[index(s)] - rows(s) + row; }
  static size_t index(int32_t s) { return static_cast<size_t>(s); }
};

// A range of KV splits, for all KV heads: of one sequence, or shared by several.
struct AttentionNode {
  int32_t first_member;  // index in the plan's order
  int32_t num_members;
  int64_t first_split;
  int64_t end_split;
  bool whole;  // one piece covers all splits; otherwise each split is a piece that writes partial states
  int64_t query_rows;   // query rows per KV head
  int64_t heads;        // KV heads per piece; more than 1 only if all their query rows fit into one call
  int64_t chunk_rows;   // maximum number of query rows per KV head in a piece
  int64_t first_piece;  // index among the pieces of all nodes

  int64_t chunks() const { return (query_rows + chunk_rows - 1) / chunk_rows; }
  int64_t units(int64_t num_kv_heads) const { return chunks() * ((num_kv_heads + heads - 1) / heads); }
  int64_t pieces(int64_t num_kv_heads) const {
    return units(num_kv_heads) * (whole ? 1 : end_split - first_split);
  }
};

class AttentionPlan {
 public:
  // Bytes of memory that a plan for max_seqs sequences needs.
  static size_t bytes(int64_t max_seqs);

  // memory: bytes(num_seqs), aligned to 64. max_states: capacity of the workspace, in states of query rows.
  AttentionPlan(std::byte* memory, const AttentionShape& shape, int threads, int64_t max_states);

  int32_t member(int64_t i) const {
    const auto& order = shape_.batch.shared_order;
    return order.empty() ? static_cast<int32_t>(i) : order[static_cast<size_t>(i)];
  }
  int64_t num_pieces() const { return num_pieces_; }
  const AttentionNode& node_of(int64_t piece) const;

  // The rows of all sequences whose KV splits are separate pieces, concatenated.
  int64_t num_split_rows() const { return num_split_rows_; }
  int32_t sequence_of_split_row(int64_t row) const;
  int64_t first_split_row(int32_t s) const { return sequences_[s].first_row; }
  // Index of the partial state of a query row: [row, query head, KV split] of a sequence.
  int64_t state(int32_t s, int64_t row, int64_t head, int64_t split) const {
    return sequences_[s].first_state +
           (row * shape_.num_kv_heads * shape_.group + head) * shape_.num_splits(s) + split -
           shape_.first_split(s);
  }

 private:
  struct Sequence {
    bool split;
    int64_t first_row;
    int64_t first_state;
  };

  void find_common();
  void add_nodes();
  void grow(int32_t begin, int32_t end, int64_t skipped, int64_t split);
  void add_node(int32_t first, int32_t count, int64_t first_split, int64_t end_split);
  int64_t count_states();
  int64_t count_pieces(int64_t max_heads, int64_t chunk_rows);
  bool leaves_threads_idle(int threads) const;

  const AttentionShape& shape_;
  AttentionNode* nodes_;  // [3 * num_seqs]
  Sequence* sequences_;   // [num_seqs]
  int64_t* common_;       // [num_seqs] leading splits that member i shares with the next one
  int64_t num_nodes_ = 0;
  int64_t num_pieces_ = 0;
  int64_t num_split_rows_ = 0;
};

}  // namespace quire::cpu
