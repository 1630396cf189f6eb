// Shape checks, costs and reference implementations of the KV cache and of attention: for each query and head
// the scores of all its positions, their softmax, and the weighted sum.
#include "ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/shape_check.h"
#include "ops/topk_to_bitmask.h"
#include "quant/codec.h"

namespace quire {
namespace {

struct Block {
  const KvCacheView& cache;
  std::byte* keys;
  std::byte* values;
  float* key_scales;  // [num_kv_heads, block_size], where the format has scales
  float* value_scales;

  Block(const KvCacheView& view, int64_t block) : cache(view) {
    keys = view.base + block * view.block_stride + view.layer_offset;
    values = keys + kv_part_bytes(view.dtype, view.block_size, view.num_kv_heads, view.head_dim);
    const auto scales_behind = [&view](std::byte* elements, int32_t dim) {
      return reinterpret_cast<float*>(elements +
                                      kv_element_bytes(view.dtype, view.block_size, view.num_kv_heads, dim));
    };
    key_scales = scales_behind(keys, view.head_dim);
    value_scales = scales_behind(values, view.value_size());
  }
  // f(first dim, elements) for consecutive pieces of the key [head_dim] of one token, as float32.
  template <typename F>
  void for_key_pieces(int64_t head, int64_t offset, F f) const {
    for_pieces(cache.head_dim, keys, key_index(head, 0, offset), cache.block_size,
               key_scales + head * cache.block_size + offset, f);
  }
  // The same for the value [value_dim].
  template <typename F>
  void for_value_pieces(int64_t head, int64_t offset, F f) const {
    const int64_t dim = cache.value_size();
    if (cache.values_in_keys)
      return for_pieces(dim, keys, key_index(head, cache.head_dim - dim, offset), cache.block_size,
                        key_scales + head * cache.block_size + offset, f);
    for_pieces(dim, values, value_index(head, 0, offset), 1, value_scales + head * cache.block_size + offset,
               f);
  }
  // Stores the key [head_dim] and value [value_dim] of one token and head. v may be null.
  void write(int64_t head, int64_t offset, const float* k, const float* v) const {
    const int64_t d = cache.head_dim;
    const int64_t v_dim = cache.value_size();
    if (kv_has_scales(cache.dtype)) {
      const float key_scale = key_scales[head * cache.block_size + offset] = int8_scale(k, d);
      for (int64_t i = 0; i < d; ++i)
        reinterpret_cast<int8_t*>(keys)[key_index(head, i, offset)] = int8_code(k[i], key_scale);
      if (v == nullptr) return;
      const float value_scale = value_scales[head * cache.block_size + offset] = int8_scale(v, v_dim);
      for (int64_t i = 0; i < v_dim; ++i)
        reinterpret_cast<int8_t*>(values)[value_index(head, i, offset)] = int8_code(v[i], value_scale);
      return;
    }
    for (int64_t i = 0; i < d; ++i) store_f32(cache.dtype, keys, key_index(head, i, offset), k[i]);
    for (int64_t i = 0; v != nullptr && i < v_dim; ++i)
      store_f32(cache.dtype, values, value_index(head, i, offset), v[i]);
  }

 private:
  template <typename F>
  void for_pieces(int64_t size, const std::byte* elements, int64_t first, int64_t stride, const float* scale,
                  F f) const {
    std::array<float, 64> piece;
    for (int64_t dim = 0; dim < size; dim += std::ssize(piece)) {
      const int64_t n = std::min<int64_t>(size - dim, std::ssize(piece));
      load_strided_f32(cache.dtype, elements, first + dim * stride, stride, n, piece.data());
      if (kv_has_scales(cache.dtype)) {
        for (int64_t i = 0; i < n; ++i) piece[static_cast<size_t>(i)] *= *scale;
      }
      f(dim, std::span(piece.data(), static_cast<size_t>(n)));
    }
  }
  int64_t key_index(int64_t head, int64_t dim, int64_t offset) const {
    return (head * cache.head_dim + dim) * cache.block_size + offset;
  }
  int64_t value_index(int64_t head, int64_t dim, int64_t offset) const {
    return (head * cache.block_size + offset) * cache.value_size() + dim;
  }
};

float dot_with_key(const float* query, const Block& block, int64_t head, int64_t offset) {
  float dot = 0.0F;
  block.for_key_pieces(head, offset, [&](int64_t dim, std::span<const float> key) {
    for (const float k : key) dot += query[dim++] * k;
  });
  return dot;
}

// Bytes per token for the keys and values of one layer.
double token_bytes(const KvCacheView& cache) {
  const auto part = [&cache](int32_t dim) {
    return static_cast<double>(kv_part_bytes(cache.dtype, cache.block_size, cache.num_kv_heads, dim));
  };
  return (part(cache.head_dim) + (cache.values_in_keys ? 0.0 : part(cache.value_size()))) / cache.block_size;
}

void require_cache(const ShapeCheck& shapes, const KvCacheView& cache) {
  shapes.require(cache.base != nullptr && is_kv_dtype(cache.dtype) && cache.block_size > 0 &&
                     cache.num_kv_heads > 0 && cache.head_dim > 0 && cache.value_dim >= 0 &&
                     cache.value_dim <= cache.head_dim,
                 "the KV cache needs memory, one of its number formats, positive sizes and values no larger "
                 "than keys",
                 "block_size ", cache.block_size, ", num_kv_heads ", cache.num_kv_heads, ", head_dim ",
                 cache.head_dim, ", value_dim ", cache.value_dim);
}

// The batch has `rows` query rows, and the blocks of each sequence hold its keys.
void require_batch(const ShapeCheck& shapes, const AttentionBatch& batch, const KvCacheView& cache,
                   int64_t rows, int32_t tokens_per_key) {
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  shapes.require(batch.num_seqs >= 0 && batch.cu_seqlens_q.size() == seqs + 1 &&
                     batch.seq_lens.size() == seqs && batch.block_table_indptr.size() == seqs + 1 &&
                     batch.cu_seqlens_q[0] == 0 && batch.cu_seqlens_q[seqs] == rows,
                 "the arrays of the batch must match its number of sequences and q's rows", "num_seqs ",
                 batch.num_seqs);
  for (size_t s = 0; s < seqs; ++s) {
    const int64_t own_rows = int64_t{batch.cu_seqlens_q[s + 1]} - batch.cu_seqlens_q[s];
    const int64_t blocks = int64_t{batch.block_table_indptr[s + 1]} - batch.block_table_indptr[s];
    shapes.require(own_rows >= 0 && own_rows <= batch.seq_lens[s] &&
                       blocks * cache.block_size * tokens_per_key >= batch.seq_lens[s] &&
                       batch.block_table_indptr[s] >= 0 &&
                       static_cast<size_t>(batch.block_table_indptr[s + 1]) <= batch.block_table.size(),
                   "a sequence's blocks must hold its tokens, including its rows", "sequence ", s, " of ",
                   batch.seq_lens[s], " tokens, ", own_rows, " rows, ", blocks, " blocks of ",
                   cache.block_size);
  }
}

void require_shared(const ShapeCheck& shapes, const AttentionBatch& batch) {
  if (batch.shared_order.empty() && batch.shared_blocks.empty()) return;
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  shapes.require(batch.shared_order.size() == seqs && batch.shared_blocks.size() == seqs,
                 "shared prefixes must be given for all sequences or none", batch.shared_order.size(), " of ",
                 seqs);
  shapes.require_indices("shared_order", batch.shared_order, batch.num_seqs);
  const int64_t sum = std::accumulate(batch.shared_order.begin(), batch.shared_order.end(), int64_t{0});
  shapes.require(sum == int64_t{batch.num_seqs} * (batch.num_seqs - 1) / 2,
                 "shared_order must contain each sequence once");
  const auto block = [&](size_t i, int32_t b) {
    const auto seq = static_cast<size_t>(batch.shared_order[i]);
    const auto at = static_cast<size_t>(batch.block_table_indptr[seq]) + static_cast<size_t>(b);
    return at < batch.block_table.size() ? batch.block_table[at] : -1;
  };
  for (size_t i = 0; i < seqs; ++i) {
    const int32_t blocks = batch.shared_blocks[i];
    bool same = blocks >= 0 && (blocks == 0 || i + 1 < seqs);
    for (int32_t b = 0; same && b < blocks; ++b) same = block(i, b) >= 0 && block(i, b) == block(i + 1, b);
    shapes.require(same, "shared blocks must be the same in both block tables", blocks,
                   " blocks of sequence ", batch.shared_order[i]);
  }
}

// Rules that topk_keys and topk_blocks share.
void require_selection(const ShapeCheck& shapes, const SparseMask& mask, const TensorView& q,
                       const KvCacheView& keys, const AttentionBatch& batch, int32_t count,
                       int32_t tokens_per_key) {
  require_cache(shapes, keys);
  shapes.require(keys.num_kv_heads == 1 && q.shape.rank() == 3 && q.shape[2] == keys.head_dim &&
                     keys.head_dim <= kMaxChoosingHead,
                 "q must be [rows, heads, head_dim of the one KV head]");
  shapes.require(tokens_per_key > 0, "a key must stand for at least one token");
  require_batch(shapes, batch, keys, q.rows(), tokens_per_key);
  const int32_t longest = batch.num_seqs == 0 ? 0 : std::ranges::max(batch.seq_lens) / tokens_per_key;
  shapes.require(count > 0 && mask.words != nullptr && mask.stride * 64 >= longest,
                 "a row's mask must reach the last key, and count must be positive", mask.stride, " words, ",
                 longest, " keys, count ", count);
}

// The cost of a selection among keys, in rows that see more than `count` of them.
OpCost selection_cost(const TensorView& q, const KvCacheView& keys, const AttentionBatch& batch,
                      int64_t count, int32_t tokens_per_key) {
  OpCost cost = elementwise_cost("choice of keys", q, 1, 0);
  double seen = 0;  // pairs of a row and a key that it scores
  for (size_t s = 0; s < static_cast<size_t>(batch.num_seqs); ++s) {
    const double length = batch.seq_lens[s];
    const double all_selected = static_cast<double>(count) * tokens_per_key;
    if (length <= all_selected) continue;
    const double rows =
        std::min<double>(batch.cu_seqlens_q[s + 1] - batch.cu_seqlens_q[s], length - all_selected);
    seen += rows * (length - (rows - 1) / 2) / tokens_per_key;
    cost.bytes += length / tokens_per_key * token_bytes(keys);
  }
  cost.flop = 2 * seen * static_cast<double>(q.shape[1]) * keys.head_dim;
  return cost;
}

}  // namespace

namespace ops {

void check(const KvWrite& op) {
  const ShapeCheck shapes(op.kName, {{"k", &op.k}, {"v", &op.v}});
  require_cache(shapes, op.cache);
  shapes.require_f32({&op.k}, {&op.k});
  const bool values = op.v.data != nullptr;
  shapes.require(op.k.row_size() == int64_t{op.cache.num_kv_heads} * op.cache.head_dim &&
                     (!values || op.v.row_size() == int64_t{op.cache.num_kv_heads} * op.cache.value_size()),
                 "k must be [rows, num_kv_heads, head_dim], v [rows, num_kv_heads, value_dim]");
  shapes.require(!values || !op.cache.values_in_keys, "a cache whose values are in its keys takes no v");
  shapes.require(
      (!values || op.v.rows() == op.k.rows()) && static_cast<int64_t>(op.slot_mapping.size()) == op.k.rows(),
      "k, v and the slots must have the same number of rows", "slots [", op.slot_mapping.size(), "]");
}

OpCost cost(const KvWrite& op) {
  OpCost cost = elementwise_cost("kv write", op.k, 2, 0);
  cost.bytes += token_bytes(op.cache) * static_cast<double>(op.k.rows());
  return cost;
}

void run_reference(const OpContext& ctx, const KvWrite& op) {
  const int64_t heads = op.cache.num_kv_heads;
  const int64_t d = op.cache.head_dim;
  const int64_t v_dim = op.cache.value_size();
  parallel_ranges(ctx, op.k.rows(), row_grain(2 * heads * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t slot = op.slot_mapping[static_cast<size_t>(r)];
      if (slot < 0) continue;
      const Block block(op.cache, slot / op.cache.block_size);
      const int64_t offset = slot % op.cache.block_size;
      for (int64_t h = 0; h < heads; ++h)
        block.write(h, offset, op.k.row<float>(r) + h * d,
                    op.v.data == nullptr ? nullptr : op.v.row<float>(r) + h * v_dim);
    }
  });
}

void check(const PagedAttention& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"q", &op.q}});
  require_cache(shapes, op.cache);
  shapes.require_f32({&op.out, &op.q});
  shapes.require(op.q.shape.rank() == 3 && op.q.shape[2] == op.cache.head_dim &&
                     op.q.shape[1] % op.cache.num_kv_heads == 0,
                 "q must be [rows, a multiple of num_kv_heads, head_dim]", "num_kv_heads ",
                 op.cache.num_kv_heads, ", head_dim ", op.cache.head_dim);
  shapes.require(op.out.rows() == op.q.rows() && op.out.row_size() == op.q.shape[1] * op.cache.value_size(),
                 "out must be [rows, num_heads, value_dim]", "value_dim ", op.cache.value_size());
  require_batch(shapes, op.batch, op.cache, op.q.rows(), 1);
  require_shared(shapes, op.batch);
}

OpCost cost(const PagedAttention& op) {
  OpCost cost = elementwise_cost("attention", op.q, 2, 0);
  double seen = 0;  // pairs of a query row and a position that it sees
  for (size_t s = 0; s < static_cast<size_t>(op.batch.num_seqs); ++s) {
    const double rows = op.batch.cu_seqlens_q[s + 1] - op.batch.cu_seqlens_q[s];
    const double length = op.batch.seq_lens[s];
    double window = op.params.window > 0 ? op.params.window : length;
    // The mean number of positions of its chunk that a row sees.
    if (op.params.chunk > 0) window = std::min(length, std::max(1.0, 0.5 * op.params.chunk));
    seen += rows * std::min(window, length - (rows - 1) / 2);
    cost.bytes += std::min(length, window + rows - 1) * token_bytes(op.cache);
  }
  // A product and a sum per dimension of q · k and of p · v.
  cost.flop = 2 * seen * static_cast<double>(op.q.shape[1]) * (op.cache.head_dim + op.cache.value_size());
  return cost;
}

void run_reference(const OpContext& ctx, const PagedAttention& op) {
  const int64_t num_heads = op.q.shape[1];
  const int64_t d = op.cache.head_dim;
  const int64_t v_dim = op.cache.value_size();
  const int64_t group = num_heads / op.cache.num_kv_heads;
  const int64_t rows = op.batch.cu_seqlens_q[static_cast<size_t>(op.batch.num_seqs)];
  int32_t longest = 0;
  for (int32_t s = 0; s < op.batch.num_seqs; ++s)
    longest = std::max(longest, op.batch.seq_lens[static_cast<size_t>(s)]);
  const auto score_bytes = static_cast<size_t>(longest) * sizeof(float);
  if (ctx.workspace.size() < score_bytes * static_cast<size_t>(num_threads(ctx))) {
    throw Error("attention over " + std::to_string(longest) + " positions needs more workspace than the " +
                std::to_string(ctx.workspace.size()) + " bytes it got");
  }
  parallel_ranges(ctx, rows * num_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    auto* scores = reinterpret_cast<float*>(ctx.workspace.data() + static_cast<size_t>(thread) * score_bytes);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / num_heads;
      const int64_t head = item % num_heads;
      const auto* after = std::upper_bound(op.batch.cu_seqlens_q.data(),
                                           op.batch.cu_seqlens_q.data() + op.batch.num_seqs, row);
      const auto seq = static_cast<size_t>(after - op.batch.cu_seqlens_q.data() - 1);
      const int32_t* blocks = op.batch.block_table.data() + op.batch.block_table_indptr[seq];
      const int64_t position = op.batch.seq_lens[seq] - (op.batch.cu_seqlens_q[seq + 1] - row);
      const int64_t low = op.params.chunk > 0    ? position / op.params.chunk * op.params.chunk
                          : op.params.window > 0 ? std::max<int64_t>(0, position - op.params.window + 1)
                                                 : 0;
      const int64_t length = op.batch.seq_lens[seq];
      const int64_t last = !op.params.bidirectional ? position
                           : op.params.window > 0   ? std::min(length - 1, position + op.params.window - 1)
                                                    : length - 1;
      const float* query = op.q.row<float>(row) + head * d;
      float* result = op.out.row<float>(row) + head * v_dim;

      const uint64_t* chosen = op.params.chosen.row(row, head / group);
      const auto sees = [chosen](int64_t p) {
        return chosen == nullptr || (chosen[p / 64] >> (p % 64) & 1U) != 0;
      };

      float highest = -std::numeric_limits<float>::infinity();
      for (int64_t p = low; p <= last; ++p) {
        if (!sees(p)) continue;
        const Block block(op.cache, blocks[p / op.cache.block_size]);
        float score = dot_with_key(query, block, head / group, p % op.cache.block_size) * op.params.scale;
        if (op.params.logit_softcap > 0)
          score = op.params.logit_softcap * std::tanh(score / op.params.logit_softcap);
        if (op.params.alibi_slopes != nullptr)
          score += op.params.alibi_slopes[head] * static_cast<float>(p - position);
        scores[p] = score;
        highest = std::max(highest, score);
      }
      if (op.params.sinks != nullptr) highest = std::max(highest, op.params.sinks[head]);
      float total = op.params.sinks != nullptr ? std::exp(op.params.sinks[head] - highest) : 0.0F;
      std::fill_n(result, v_dim, 0.0F);
      for (int64_t p = low; p <= last; ++p) {
        if (!sees(p)) continue;
        const Block block(op.cache, blocks[p / op.cache.block_size]);
        const float weight = std::exp(scores[p] - highest);
        total += weight;
        block.for_value_pieces(head / group, p % op.cache.block_size,
                               [&](int64_t dim, std::span<const float> value) {
                                 for (const float v : value) result[dim++] += weight * v;
                               });
      }
      for (int64_t i = 0; i < v_dim; ++i) result[i] /= total;
    }
  });
}

namespace {

// f(row, number of keys it sees, scratch, product) for each row, where product(head, key) is the dot product
// of a query with a key. The scratch has a float for each position of the longest sequence.
template <typename F>
void for_each_choice(const OpContext& ctx, const TensorView& q, const KvCacheView& keys,
                     const AttentionBatch& batch, int32_t tokens, F f) {
  const int64_t d = keys.head_dim;
  const int64_t longest = *std::max_element(batch.seq_lens.begin(), batch.seq_lens.end());
  parallel_ranges(ctx, q.rows(), 1, [&](int64_t begin, int64_t end, int thread) {
    auto* scores = reinterpret_cast<float*>(ctx.workspace.data()) + thread * longest;
    for (int64_t row = begin; row < end; ++row) {
      const auto* after =
          std::upper_bound(batch.cu_seqlens_q.data(), batch.cu_seqlens_q.data() + batch.num_seqs, row);
      const auto seq = static_cast<size_t>(after - batch.cu_seqlens_q.data() - 1);
      const int32_t* blocks = batch.block_table.data() + batch.block_table_indptr[seq];
      const auto product = [&](int64_t head, int64_t p) {
        const Block block(keys, blocks[p / keys.block_size]);
        return dot_with_key(q.row<float>(row) + head * d, block, 0, p % keys.block_size);
      };
      const int64_t position = batch.seq_lens[seq] - (batch.cu_seqlens_q[seq + 1] - row);
      f(row, (position + 1) / tokens, scores, product);
    }
  });
}

}  // namespace

void check(const TopkKeys& op) {
  const ShapeCheck shapes(op.kName, {{"q", &op.q}, {"weights", &op.weights}});
  require_selection(shapes, op.mask, op.q, op.keys, op.batch, op.count, op.tokens_per_key);
  shapes.require_f32({&op.q, &op.weights});
  shapes.require(op.weights.rows() == op.q.rows() && op.weights.row_size() == op.q.shape[1],
                 "weights must be [rows, heads]");
}

OpCost cost(const TopkKeys& op) {
  return selection_cost(op.q, op.keys, op.batch, op.count, op.tokens_per_key);
}

void run_reference(const OpContext& ctx, const TopkKeys& op) {
  const auto choose = [&](int64_t row, int64_t seen, float* scores, const auto& product) {
    for (int64_t p = 0; p < seen; ++p) {
      scores[p] = 0.0F;
      for (int64_t h = 0; h < op.q.shape[1]; ++h)
        scores[p] += op.weights.row<float>(row)[h] * std::max(product(h, p), 0.0F);
    }
    topk_to_bitmask(scores, seen, op.count, op.mask.row(row));
  };
  for_each_choice(ctx, op.q, op.keys, op.batch, op.tokens_per_key, choose);
}

void check(const TopkBlocks& op) {
  const ShapeCheck shapes(op.kName, {{"q", &op.q}});
  require_selection(shapes, op.mask, op.q, op.keys, op.batch, op.blocks.count, 1);
  shapes.require_f32({&op.q});
  shapes.require(op.blocks.size > 0 && op.blocks.size % 16 == 0 && op.blocks.local >= 0 &&
                     op.blocks.local <= op.blocks.count,
                 "a block must hold a multiple of 16 positions, and local blocks must fit the count",
                 op.blocks.size, " positions, ", op.blocks.local, " of ", op.blocks.count);
  shapes.require(op.mask.heads == op.q.shape[1], "there must be one mask per head", op.mask.heads, " of ",
                 op.q.shape[1]);
}

OpCost cost(const TopkBlocks& op) {
  return selection_cost(op.q, op.keys, op.batch, int64_t{op.blocks.count} * op.blocks.size, 1);
}

void run_reference(const OpContext& ctx, const TopkBlocks& op) {
  const auto choose = [&](int64_t row, int64_t seen, float* scores, const auto& product) {
    for (int64_t h = 0; h < op.q.shape[1]; ++h) {
      for (int64_t p = 0; p < seen; ++p) {
        const float score = product(h, p);
        float& best = scores[p / op.blocks.size];
        best = p % op.blocks.size == 0 ? score : std::max(best, score);
      }
      topk_blocks_to_bitmask(scores, seen, op.blocks, op.mask.row(row, h));
    }
  };
  for_each_choice(ctx, op.q, op.keys, op.batch, 1, choose);
}

namespace {

// Eight partial sums, so that the compiler can vectorize; always in this order.
float dot(const float* a, const float* b, int64_t n) {
  std::array<float, 8> sums{};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sums[static_cast<size_t>(j)] += a[i + j] * b[i + j];
  }
  float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void check(const RelativeAttention& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"q", &op.q}, {"k", &op.k}, {"v", &op.v}});
  shapes.require_f32({&op.out, &op.q, &op.k, &op.v});
  shapes.require(op.q.shape.rank() == 3 && op.q.shape[2] <= kMaxRelativeHead &&
                     op.out.rows() == op.q.rows() && op.out.row_size() == op.q.row_size() &&
                     op.k.shape == op.q.shape && op.v.shape == op.q.shape,
                 "out, q, k and v must be [rows, num_heads, head_dim]");
  const auto seqs = static_cast<size_t>(op.batch.num_seqs);
  const auto& bounds = op.batch.cu_seqlens_q;
  shapes.require(bounds.size() == seqs + 1 && bounds.front() == 0 && bounds.back() == op.q.rows() &&
                     std::is_sorted(bounds.begin(), bounds.end()),
                 "the sequences' rows must be contiguous up to the last row");
  shapes.require(op.params.buckets.size() % 2 == 1,
                 "there must be a bucket per distance from -reach to reach", op.params.buckets.size(),
                 " buckets");
  for (const int32_t bucket : op.params.buckets)
    shapes.require(bucket >= 0 && bucket < op.params.num_buckets, "a bucket is out of range", bucket, " of ",
                   op.params.num_buckets);
}

OpCost cost(const RelativeAttention& op) {
  OpCost cost = elementwise_cost("attention", op.q, 4, 0);
  for (size_t s = 0; s < static_cast<size_t>(op.batch.num_seqs); ++s) {
    const double rows = op.batch.cu_seqlens_q[s + 1] - op.batch.cu_seqlens_q[s];
    cost.flop += (op.params.keys != nullptr ? 8 : 4) * rows * rows * static_cast<double>(op.q.row_size());
  }
  return cost;
}

void run_reference(const OpContext& ctx, const RelativeAttention& op) {
  const int64_t heads = op.q.shape[1];
  const int64_t d = op.q.shape[2];
  const auto reach = static_cast<int64_t>(op.params.buckets.size() / 2);
  const auto attend = [&](int64_t seq, int64_t row, int64_t head) {
    const auto s = static_cast<size_t>(seq);
    const float* query = op.q.row<float>(row) + head * d;
    std::array<float, kMaxRelativeHead> sum;
    std::fill_n(sum.begin(), d, 0.0F);
    float largest = -std::numeric_limits<float>::infinity();
    float total = 0.0F;
    for (int64_t other = op.batch.cu_seqlens_q[s]; other < op.batch.cu_seqlens_q[s + 1]; ++other) {
      const float* key = op.k.row<float>(other) + head * d;
      const int64_t distance = std::clamp(other - row, -reach, reach);
      const int64_t bucket = op.params.buckets[static_cast<size_t>(distance + reach)];
      const int64_t place = (bucket * heads + head) * d;
      float score = dot(query, key, d);
      if (op.params.keys != nullptr) score += dot(query, op.params.keys + place, d);
      if (op.params.queries != nullptr) score += dot(key, op.params.queries + place, d);
      score *= op.params.scale;
      if (op.params.bias != nullptr) score += op.params.bias[head * op.params.num_buckets + bucket];
      if (score > largest) {
        const float less = std::exp(largest - score);
        for (int64_t i = 0; i < d; ++i) sum[static_cast<size_t>(i)] *= less;
        total *= less;
        largest = score;
      }
      const float weight = std::exp(score - largest);
      const float* value = op.v.row<float>(other) + head * d;
      for (int64_t i = 0; i < d; ++i) sum[static_cast<size_t>(i)] += weight * value[i];
      total += weight;
    }
    float* result = op.out.row<float>(row) + head * d;
    for (int64_t i = 0; i < d; ++i) result[i] = sum[static_cast<size_t>(i)] / total;
  };
  const int64_t mean = op.q.rows() / std::max(1, op.batch.num_seqs);
  parallel_ranges(ctx, op.q.rows() * heads, row_grain(8 * d * std::max<int64_t>(1, mean)),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t row = i / heads;
                      const auto* next =
                          std::upper_bound(op.batch.cu_seqlens_q.data(),
                                           op.batch.cu_seqlens_q.data() + op.batch.num_seqs, row);
                      attend(next - op.batch.cu_seqlens_q.data() - 1, row, i % heads);
                    }
                  });
}

}  // namespace ops
}  // namespace quire
