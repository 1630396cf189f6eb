// The plain KV store and attention: for each query and head the scores of all its positions, their softmax,
// the weighted sum.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ops/mark_best.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/codec.h"

namespace quire::reference {
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
  float key(int64_t head, int64_t dim, int64_t offset) const {
    const float element = load_f32(cache.dtype, keys, key_index(head, dim, offset));
    return kv_has_scales(cache.dtype) ? element * key_scales[head * cache.block_size + offset] : element;
  }
  float value(int64_t head, int64_t dim, int64_t offset) const {
    if (cache.values_in_keys) return key(head, cache.head_dim - cache.value_size() + dim, offset);
    const float element = load_f32(cache.dtype, values, value_index(head, dim, offset));
    return kv_has_scales(cache.dtype) ? element * value_scales[head * cache.block_size + offset] : element;
  }
  // One token's key [head_dim] and value [value_dim] of a head. v null: the key alone.
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
  int64_t key_index(int64_t head, int64_t dim, int64_t offset) const {
    return (head * cache.head_dim + dim) * cache.block_size + offset;
  }
  int64_t value_index(int64_t head, int64_t dim, int64_t offset) const {
    return (head * cache.block_size + offset) * cache.value_size() + dim;
  }
};

}  // namespace

// The scores of one query for each thread; one row of activations as int8.
size_t workspace_bytes(int64_t, int64_t max_seq_len, int32_t, int32_t, int threads) {
  constexpr size_t kIntRowBytes = size_t{1} << 20;
  return std::max(kIntRowBytes,
                  static_cast<size_t>(max_seq_len) * static_cast<size_t>(threads) * sizeof(float));
}

void kv_write(const OpContext& ctx, const KvCacheView& cache, const TensorView& k, const TensorView& v,
              std::span<const int64_t> slot_mapping) {
  const int64_t heads = cache.num_kv_heads;
  const int64_t d = cache.head_dim;
  const int64_t v_dim = cache.value_size();
  parallel_ranges(ctx, k.rows(), row_grain(2 * heads * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t slot = slot_mapping[static_cast<size_t>(r)];
      if (slot < 0) continue;
      const Block block(cache, slot / cache.block_size);
      const int64_t offset = slot % cache.block_size;
      for (int64_t h = 0; h < heads; ++h)
        block.write(h, offset, k.row<float>(r) + h * d,
                    v.data == nullptr ? nullptr : v.row<float>(r) + h * v_dim);
    }
  });
}

void paged_attention(const OpContext& ctx, const TensorView& out, const TensorView& q,
                     const KvCacheView& cache, const AttentionBatch& batch, const AttentionParams& params) {
  const int64_t num_heads = q.shape[1];
  const int64_t d = cache.head_dim;
  const int64_t v_dim = cache.value_size();
  const int64_t group = num_heads / cache.num_kv_heads;
  const int64_t rows = batch.cu_seqlens_q[static_cast<size_t>(batch.num_seqs)];
  int32_t longest = 0;
  for (int32_t s = 0; s < batch.num_seqs; ++s)
    longest = std::max(longest, batch.seq_lens[static_cast<size_t>(s)]);
  const auto score_bytes = static_cast<size_t>(longest) * sizeof(float);
  if (ctx.workspace.size() < score_bytes * static_cast<size_t>(num_threads(ctx))) {
    throw Error("attention over " + std::to_string(longest) + " positions needs more workspace than the " +
                std::to_string(ctx.workspace.size()) + " bytes it got");
  }
  const auto sees = [&](int64_t row, int64_t key_head, int64_t p) {
    const uint64_t* chosen = params.chosen.row(row, key_head);
    return chosen == nullptr || (chosen[p / 64] >> (p % 64) & 1U) != 0;
  };
  parallel_ranges(ctx, rows * num_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    auto* scores = reinterpret_cast<float*>(ctx.workspace.data() + static_cast<size_t>(thread) * score_bytes);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / num_heads;
      const int64_t head = item % num_heads;
      const auto* after =
          std::upper_bound(batch.cu_seqlens_q.data(), batch.cu_seqlens_q.data() + batch.num_seqs, row);
      const auto seq = static_cast<size_t>(after - batch.cu_seqlens_q.data() - 1);
      const int32_t* blocks = batch.block_table.data() + batch.block_table_indptr[seq];
      const int64_t position = batch.seq_lens[seq] - (batch.cu_seqlens_q[seq + 1] - row);
      const int64_t low = params.chunk > 0    ? position / params.chunk * params.chunk
                          : params.window > 0 ? std::max<int64_t>(0, position - params.window + 1)
                                              : 0;
      const int64_t length = batch.seq_lens[seq];
      const int64_t last = !params.bidirectional ? position
                           : params.window > 0   ? std::min(length - 1, position + params.window - 1)
                                                 : length - 1;
      const float* query = q.row<float>(row) + head * d;
      float* result = out.row<float>(row) + head * v_dim;

      float highest = -std::numeric_limits<float>::infinity();
      for (int64_t p = low; p <= last; ++p) {
        if (!sees(row, head / group, p)) continue;
        const Block block(cache, blocks[p / cache.block_size]);
        float dot = 0;
        for (int64_t i = 0; i < d; ++i) {
          dot += query[i] * block.key(head / group, i, p % cache.block_size);
        }
        float score = dot * params.scale;
        if (params.logit_softcap > 0) score = params.logit_softcap * std::tanh(score / params.logit_softcap);
        if (params.alibi_slopes != nullptr)
          score += params.alibi_slopes[head] * static_cast<float>(p - position);
        scores[p] = score;
        highest = std::max(highest, score);
      }
      if (params.sinks != nullptr) highest = std::max(highest, params.sinks[head]);
      float total = params.sinks != nullptr ? std::exp(params.sinks[head] - highest) : 0.0F;
      std::fill_n(result, v_dim, 0.0F);
      for (int64_t p = low; p <= last; ++p) {
        if (!sees(row, head / group, p)) continue;
        const Block block(cache, blocks[p / cache.block_size]);
        const float weight = std::exp(scores[p] - highest);
        total += weight;
        for (int64_t i = 0; i < v_dim; ++i) {
          result[i] += weight * block.value(head / group, i, p % cache.block_size);
        }
      }
      for (int64_t i = 0; i < v_dim; ++i) result[i] /= total;
    }
  });
}

namespace {

// f(row, keys it sees, its scratch, product): product(head, p) is that of a query and a key, which stands for
// so many tokens. As many floats of scratch as the longest sequence has positions.
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
        float dot = 0.0F;
        for (int64_t i = 0; i < d; ++i)
          dot += q.row<float>(row)[head * d + i] * block.key(0, i, p % keys.block_size);
        return dot;
      };
      const int64_t position = batch.seq_lens[seq] - (batch.cu_seqlens_q[seq + 1] - row);
      f(row, (position + 1) / tokens, scores, product);
    }
  });
}

}  // namespace

void choose_keys(const OpContext& ctx, const KeyMask& chosen, const TensorView& q, const TensorView& weights,
                 const KvCacheView& keys, const AttentionBatch& batch, int32_t count, int32_t tokens) {
  const auto choose = [&](int64_t row, int64_t seen, float* scores, const auto& product) {
    for (int64_t p = 0; p < seen; ++p) {
      scores[p] = 0.0F;
      for (int64_t h = 0; h < q.shape[1]; ++h)
        scores[p] += weights.row<float>(row)[h] * std::max(product(h, p), 0.0F);
    }
    mark_best(scores, seen, count, chosen.row(row));
  };
  for_each_choice(ctx, q, keys, batch, tokens, choose);
}

void choose_blocks(const OpContext& ctx, const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                   const AttentionBatch& batch, const KeyBlocks& blocks) {
  const auto choose = [&](int64_t row, int64_t seen, float* scores, const auto& product) {
    for (int64_t h = 0; h < q.shape[1]; ++h) {
      for (int64_t p = 0; p < seen; ++p) {
        const float score = product(h, p);
        float& best = scores[p / blocks.size];
        best = p % blocks.size == 0 ? score : std::max(best, score);
      }
      mark_best_blocks(scores, seen, blocks, chosen.row(row, h));
    }
  };
  for_each_choice(ctx, q, keys, batch, 1, choose);
}

namespace {

// Eight sums, so that they can be made side by side; always in this order.
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

void relative_attention(const OpContext& ctx, const TensorView& out, const TensorView& q, const TensorView& k,
                        const TensorView& v, const AttentionBatch& batch, const RelativeParams& params) {
  const int64_t heads = q.shape[1];
  const int64_t d = q.shape[2];
  const auto reach = static_cast<int64_t>(params.buckets.size() / 2);
  const auto attend = [&](int64_t seq, int64_t row, int64_t head) {
    const auto s = static_cast<size_t>(seq);
    const float* query = q.row<float>(row) + head * d;
    std::array<float, kMaxRelativeHead> sum;
    std::fill_n(sum.begin(), d, 0.0F);
    float largest = -std::numeric_limits<float>::infinity();
    float total = 0.0F;
    for (int64_t other = batch.cu_seqlens_q[s]; other < batch.cu_seqlens_q[s + 1]; ++other) {
      const float* key = k.row<float>(other) + head * d;
      const int64_t distance = std::clamp(other - row, -reach, reach);
      const int64_t bucket = params.buckets[static_cast<size_t>(distance + reach)];
      const int64_t place = (bucket * heads + head) * d;
      float score = dot(query, key, d);
      if (params.keys != nullptr) score += dot(query, params.keys + place, d);
      if (params.queries != nullptr) score += dot(key, params.queries + place, d);
      score *= params.scale;
      if (params.bias != nullptr) score += params.bias[head * params.num_buckets + bucket];
      if (score > largest) {
        const float less = std::exp(largest - score);
        for (int64_t i = 0; i < d; ++i) sum[static_cast<size_t>(i)] *= less;
        total *= less;
        largest = score;
      }
      const float weight = std::exp(score - largest);
      const float* value = v.row<float>(other) + head * d;
      for (int64_t i = 0; i < d; ++i) sum[static_cast<size_t>(i)] += weight * value[i];
      total += weight;
    }
    float* result = out.row<float>(row) + head * d;
    for (int64_t i = 0; i < d; ++i) result[i] = sum[static_cast<size_t>(i)] / total;
  };
  const int64_t mean = q.rows() / std::max(1, batch.num_seqs);
  parallel_ranges(ctx, q.rows() * heads, row_grain(8 * d * std::max<int64_t>(1, mean)),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t row = i / heads;
                      const auto* next = std::upper_bound(batch.cu_seqlens_q.data(),
                                                          batch.cu_seqlens_q.data() + batch.num_seqs, row);
                      attend(next - batch.cu_seqlens_q.data() - 1, row, i % heads);
                    }
                  });
}

}  // namespace quire::reference
