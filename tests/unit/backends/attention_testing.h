// Sequences in a paged cache, for the attention tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "op_testing.h"
#include "ops/shared_prefix.h"

namespace quire::test {

inline constexpr DType kFormats[] = {DType::kF32,    DType::kBF16,   DType::kF16,
                                     DType::kF8E4M3, DType::kF8E5M2, DType::kI8};

// For at most six heads.
inline constexpr float kSlopes[] = {0.5F, 0.25F, 0.125F, 0.0625F, 0.7F, 0.011F};
inline constexpr float kSinks[] = {0.3F, -1.0F, 4.0F, -20.0F, 2.5F, 40.0F};

struct CacheSetup {
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 32;
  int32_t block_size = 16;
  DType dtype = DType::kF32;
  AttentionParams params = {.scale = 0.2F};
  int32_t value_dim = 0;         // 0 = head_dim
  bool values_in_keys = false;   // KvCacheView::values_in_keys
  bool values_are_keys = false;  // a token's value is its key, and the cache stores both

  int32_t value_size() const { return value_dim > 0 ? value_dim : head_dim; }
};

inline std::string describe(const CacheSetup& s) {
  return "heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + ", head_dim " +
         std::to_string(s.head_dim) + " and " + std::to_string(s.value_size()) + ", block_size " +
         std::to_string(s.block_size) + ", " + std::string(dtype_name(s.dtype)) + ", window " +
         std::to_string(s.params.window) + ", chunk " + std::to_string(s.params.chunk) + ", softcap " +
         std::to_string(s.params.logit_softcap) + (s.params.bidirectional ? ", bidirectional" : "") +
         (s.params.alibi_slopes != nullptr ? ", ALiBi" : "") + (s.params.sinks != nullptr ? ", sinks" : "") +
         (s.values_in_keys ? ", values in keys" : "");
}

// Whether attention uses dot products of bfloat16 pairs and rounds queries and softmax weights.
inline bool multiplies_pairs(const CpuIsa& isa, DType format) {
  return multiplies_bf16(isa) && format != DType::kF32 && format != DType::kF16;
}

// The first `tokens` tokens, a multiple of the block size, are shared with an earlier sequence.
struct Prefix {
  size_t of = 0;
  int32_t tokens = 0;
};

// Sequences with random keys and values in a pool with shuffled blocks whose unused bytes are NaN.
class Sequences {
 public:
  // prefixes: one per sequence, or empty.
  Sequences(const OpTable& table, const CacheSetup& setup, std::vector<int32_t> lengths,
            const std::vector<Prefix>& prefixes = {}, uint32_t seed = 1)
      : table_(table), setup_(setup), lengths_(std::move(lengths)) {
    const auto part = [&setup](int32_t dim) {
      return kv_part_bytes(setup.dtype, setup.block_size, setup.kv_heads, dim);
    };
    const int64_t layer = part(setup.head_dim) + (setup.values_in_keys ? 0 : part(setup.value_size()));
    int32_t blocks = 1;
    for (const int32_t n : lengths_) blocks += (n + setup.block_size - 1) / setup.block_size;
    const int64_t stride = 3 * layer;
    pool_.assign(static_cast<size_t>(blocks * stride), std::byte{0xff});
    cache_ = {pool_.data(),   stride,         layer,           setup.dtype,         setup.block_size,
              setup.kv_heads, setup.head_dim, setup.value_dim, setup.values_in_keys};
    std::vector<int32_t> ids(static_cast<size_t>(blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937 rng(seed);
    std::shuffle(ids.begin(), ids.end(), rng);
    indptr_ = {0};
    for (size_t s = 0; s < lengths_.size(); ++s) {
      const int32_t count = (lengths_[s] + setup.block_size - 1) / setup.block_size;
      const Prefix prefix = prefixes.empty() ? Prefix{} : prefixes[s];
      for (int32_t i = 0; i < count; ++i) {
        const bool shared = i < prefix.tokens / setup.block_size;
        const auto from = static_cast<size_t>(shared ? indptr_[prefix.of] + i : 0);
        table_ids_.push_back(shared ? table_ids_[from] : ids[table_ids_.size()]);
      }
      indptr_.push_back(static_cast<int32_t>(table_ids_.size()));
      queries_.push_back(random_tensor(DType::kF32, {lengths_[s], setup.heads, setup.head_dim},
                                       seed + 10 * uint32_t(s) + 1));
      const TestTensor k = random_tensor(DType::kF32, {lengths_[s], setup.kv_heads, setup.head_dim},
                                         seed + 10 * uint32_t(s) + 2, 3);
      const TestTensor v = random_tensor(DType::kF32, {lengths_[s], setup.kv_heads, setup.value_size()},
                                         seed + 10 * uint32_t(s) + 3, 5);
      std::vector<int64_t> slots;
      for (int32_t p = 0; p < lengths_[s]; ++p) {
        const int32_t block = table_ids_[static_cast<size_t>(indptr_[s] + p / setup.block_size)];
        const bool shared = p < prefix.tokens;
        slots.push_back(shared ? -1 : int64_t{block} * setup.block_size + p % setup.block_size);
      }
      write(k, setup.values_are_keys ? k : v, slots);
    }
  }
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  // Runs one step: the queries at positions [from[s], to[s]) of each sequence, in one batch. The cache is not
  // modified: positions past to[s] are filled, as if by a later step, unless `hide` has set them to NaN.
  // `sharing`: the batch states which blocks several sequences share.
  TestTensor run(const std::vector<int32_t>& from, const std::vector<int32_t>& to, const OpContext& ctx,
                 bool sharing = false) const {
    std::vector<uint64_t> words;
    AttentionParams params = setup_.params;
    if (!selected_.empty()) {
      for (size_t s = 0; s < lengths_.size(); ++s) {
        for (int32_t p = from[s]; p < to[s]; ++p)
          words.insert(words.end(), selected_[s].begin() + p * selected_heads_ * selected_words_,
                       selected_[s].begin() + (p + 1) * selected_heads_ * selected_words_);
      }
      params.chosen = {words.data(), selected_words_, selected_heads_};
    }
    std::vector<int32_t> cu = {0};
    std::vector<int32_t> seq_lens;
    for (size_t s = 0; s < lengths_.size(); ++s) {
      cu.push_back(cu.back() + to[s] - from[s]);
      seq_lens.push_back(to[s]);
    }
    TestTensor q(DType::kF32, {cu.back(), setup_.heads, setup_.head_dim}, 4);
    for (size_t s = 0; s < lengths_.size(); ++s) {
      for (int32_t p = from[s]; p < to[s]; ++p) {
        std::copy_n(queries_[s].view().row<float>(p), q.view().row_size(),
                    q.view().row<float>(cu[s] + p - from[s]));
      }
    }
    TestTensor out(DType::kF32, {cu.back(), setup_.heads, setup_.value_size()}, 2);
    AttentionBatch batch = {static_cast<int32_t>(lengths_.size()), cu, seq_lens, indptr_, table_ids_};
    SharedPrefixes shared;
    if (sharing) {
      shared.find(batch);
      batch.shared_order = shared.order();
      batch.shared_blocks = shared.blocks();
    }
    table_.run(ctx,
               ops::PagedAttention{.out = out, .q = q, .cache = cache_, .batch = batch, .params = params});
    return out;
  }
  TestTensor run_all(const OpContext& ctx) const {
    return run(std::vector<int32_t>(lengths_.size(), 0), lengths_, ctx);
  }

  // Each query attends to the positions p for which choose(sequence, query position, p) is true.
  template <class F>
  void select_keys(F choose) {
    select_keys_per_head(1, [&](size_t s, int32_t row, int64_t, int32_t p) { return choose(s, row, p); });
  }
  // Same, separately for each KV head: choose(sequence, position, KV head, p); heads may be 1.
  template <class F>
  void select_keys_per_head(int64_t heads, F choose) {
    selected_heads_ = heads;
    selected_words_ = (*std::max_element(lengths_.begin(), lengths_.end()) + 63) / 64;
    selected_.clear();
    for (size_t s = 0; s < lengths_.size(); ++s) {
      std::vector<uint64_t>& words = selected_.emplace_back();
      words.assign(static_cast<size_t>(lengths_[s] * heads * selected_words_), 0);
      for (int32_t row = 0; row < lengths_[s]; ++row) {
        for (int64_t head = 0; head < heads; ++head) {
          for (int32_t p = 0; p <= row; ++p) {
            if (choose(s, row, head, p))
              words[static_cast<size_t>((row * heads + head) * selected_words_ + p / 64)] |= uint64_t{1}
                                                                                             << (p % 64);
          }
        }
      }
    }
  }

  // Sets queries to zero, so that all visible positions have the same weight.
  void clear_queries() {
    for_each_query([](float) { return 0.0F; });
  }
  // Rounds queries to bfloat16.
  void round_queries() {
    for_each_query([](float x) { return bf16_to_f32(f32_to_bf16(x)); });
  }

  // Sets every element of positions from `from` on of sequence s to NaN, as in a recycled block.
  void hide(size_t s, int32_t from) {
    const int32_t n = lengths_[s] - from;
    const TestTensor keys(DType::kF32, {n, setup_.kv_heads, setup_.head_dim});
    const TestTensor values(DType::kF32, {n, setup_.kv_heads, setup_.value_size()});
    std::vector<int64_t> slots;
    for (int32_t p = from; p < lengths_[s]; ++p) {
      const int32_t block = table_ids_[static_cast<size_t>(indptr_[s] + p / setup_.block_size)];
      slots.push_back(int64_t{block} * setup_.block_size + p % setup_.block_size);
    }
    write(keys, values, slots);
  }
  const std::vector<std::byte>& pool() const { return pool_; }
  const KvCacheView& cache() const { return cache_; }

 private:
  void write(const TestTensor& k, const TestTensor& v, std::span<const int64_t> slots) const {
    const TensorView values = setup_.values_in_keys ? TensorView{} : v.view();
    table_.run(OpContext{}, ops::KvWrite{.cache = cache_, .k = k, .v = values, .slot_mapping = slots});
  }
  template <class F>
  void for_each_query(F f) {
    for (TestTensor& q : queries_) {
      for (int64_t r = 0; r < q.view().rows(); ++r) {
        for (int64_t i = 0; i < q.view().row_size(); ++i) q.set(r, i, f(q.get(r, i)));
      }
    }
  }

  const OpTable& table_;
  CacheSetup setup_;
  std::vector<int32_t> lengths_;
  std::vector<std::byte> pool_;
  KvCacheView cache_;
  std::vector<int32_t> indptr_;
  std::vector<int32_t> table_ids_;
  std::vector<TestTensor> queries_;
  int64_t selected_words_ = 0;
  int64_t selected_heads_ = 1;
  std::vector<std::vector<uint64_t>>
      selected_;  // [sequences][length, selected_heads_, selected_words_], or empty
};

}  // namespace quire::test
