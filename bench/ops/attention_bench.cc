// Attention over a paged cache with blocks in shuffled order, and writing to the cache.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench_support.h"
#include "ops/shared_prefix.h"

namespace quire::bench {
namespace {

constexpr int32_t kBlock = 16;

// `rows` queries at the end of each of `seqs` sequences of `length` tokens.
struct AttentionCase {
  const char* name;
  int32_t seqs;
  int32_t length;
  int32_t rows;
  int32_t heads = 32;
  int32_t kv_heads = 8;
  int32_t head_dim = 128;
  int32_t shared = 0;          // leading tokens in blocks that all sequences share
  bool together = true;        // the batch's SharedPrefixes reports the sharing
  int32_t values_in_keys = 0;  // dimensions of K that V aliases (MLA); 0 = separate V
};

constexpr AttentionCase kCases[] = {
    {"decode1x32768", 1, 32768, 1},
    {"decode1x8192", 1, 8192, 1},
    {"decode1x4096", 1, 4096, 1},
    {"decode16x1024", 16, 1024, 1},
    {"decode1x8192_gqa1", 1, 8192, 1, 8, 8},
    {"decode1x8192_gqa8", 1, 8192, 1, 64, 8},
    {"decode32x2112_apart", 32, 2112, 1, 32, 8, 128, 2048, false},
    {"decode32x2112_shared", 32, 2112, 1, 32, 8, 128, 2048},
    {"decode32x2112_gqa1_apart", 32, 2112, 1, 8, 8, 128, 2048, false},
    {"decode32x2112_gqa1_shared", 32, 2112, 1, 8, 8, 128, 2048},
    {"prefill512", 1, 512, 512},
    {"prefill2048", 1, 2048, 2048, 8, 2},
    {"prefill2048_gqa1", 1, 2048, 2048, 4, 4},
    {"prefill512of4096", 1, 4096, 512},
    {"prefill512_dim64", 1, 512, 512, 32, 8, 64},
    {"prefill512_dim64_gqa1", 1, 512, 512, 16, 16, 64},
    {"prefill2048_dim64", 1, 2048, 2048, 8, 2, 64},
    {"prefill2048_dim64_gqa1", 1, 2048, 2048, 4, 4, 64},
    {"decode1x8192_latent", 1, 8192, 1, 16, 1, 576, 0, true, 512},
    {"decode1x8192_latent128", 1, 8192, 1, 128, 1, 576, 0, true, 512},
    {"prefill512of2048_latent", 1, 2048, 512, 16, 1, 576, 0, true, 512},
};

// The filled cache of a case's sequences.
class PagedBatch {
 public:
  PagedBatch(const Context& context, const OpTable& table, DType dtype, const AttentionCase& c) {
    const int32_t blocks = (c.length + kBlock - 1) / kBlock;
    const int32_t shared = c.shared / kBlock;
    const int32_t pool_blocks = shared + c.seqs * (blocks - shared);
    const int64_t key_bytes = kv_part_bytes(dtype, kBlock, c.kv_heads, c.head_dim);
    const int64_t block_bytes = c.values_in_keys > 0 ? key_bytes : 2 * key_bytes;
    cache_ = Buffer(static_cast<size_t>(pool_blocks * block_bytes));
    view_ = {.base = cache_.data(),
             .block_stride = block_bytes,
             .dtype = dtype,
             .block_size = kBlock,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.head_dim,
             .value_dim = c.values_in_keys,
             .values_in_keys = c.values_in_keys > 0};
    std::vector<int32_t> order(static_cast<size_t>(pool_blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));

    Buffer tokens = filled(DType::kF32, int64_t{c.length} * c.kv_heads * c.head_dim);
    const TensorView kv = make_view(tokens.data(), DType::kF32, {c.length, c.kv_heads, c.head_dim});
    std::vector<int64_t> slots(static_cast<size_t>(c.length));
    for (int32_t s = 0; s < c.seqs; ++s) {
      for (int32_t b = 0; b < blocks; ++b)
        ids_.push_back(
            order[static_cast<size_t>(b < shared ? b : shared + s * (blocks - shared) + b - shared)]);
      const int32_t* own = ids_.data() + indptr_.back();
      for (int32_t p = 0; p < c.length; ++p)
        slots[static_cast<size_t>(p)] = int64_t{own[p / kBlock]} * kBlock + p % kBlock;
      table.run(
          context.ctx,
          ops::KvWrite{
              .cache = view_, .k = kv, .v = c.values_in_keys > 0 ? TensorView{} : kv, .slot_mapping = slots});
      cu_.push_back(cu_.back() + c.rows);
      lens_.push_back(c.length);
      indptr_.push_back(static_cast<int32_t>(ids_.size()));
    }
    batch_ = {c.seqs, cu_, lens_, indptr_, ids_};
    if (!c.together) return;
    shared_.find(batch_);
    batch_.shared_order = shared_.order();
    batch_.shared_blocks = shared_.blocks();
  }
  PagedBatch(const PagedBatch&) = delete;
  PagedBatch& operator=(const PagedBatch&) = delete;

  const KvCacheView& view() const { return view_; }
  const AttentionBatch& batch() const { return batch_; }
  int32_t rows() const { return cu_.back(); }
  double bytes() const { return static_cast<double>(cache_.size()); }

 private:
  Buffer cache_;
  KvCacheView view_;
  std::vector<int32_t> cu_ = {0}, lens_, indptr_ = {0}, ids_;
  SharedPrefixes shared_;
  AttentionBatch batch_;
};

void attention(benchmark::State& state, const OpTable& table, DType dtype, const AttentionCase& c) {
  const Context context(table);
  const PagedBatch paged(context, table, dtype, c);
  const int32_t value_dim = paged.view().value_size();
  Buffer q = filled(DType::kF32, int64_t{paged.rows()} * c.heads * c.head_dim);
  Buffer out(q.size());
  const TensorView q_view = make_view(q.data(), DType::kF32, {paged.rows(), c.heads, c.head_dim});
  const TensorView out_view = make_view(out.data(), DType::kF32, {paged.rows(), c.heads, value_dim});
  const AttentionParams params = {.scale = 0.088F};
  for (auto _ : state)
    table.run(
        context.ctx,
        ops::PagedAttention{
            .out = out_view, .q = q_view, .cache = paged.view(), .batch = paged.batch(), .params = params});
  const double pairs = static_cast<double>(c.seqs) * c.rows * (c.length - (c.rows - 1) / 2.0);
  report(state, 2.0 * pairs * c.heads * (c.head_dim + value_dim), paged.bytes());
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(paged.rows()), benchmark::Counter::kIsIterationInvariantRate);
}

// Writes the keys and values of a step, 8 heads of 128, to their blocks.
void kv_write(benchmark::State& state, const OpTable& table, DType dtype, int64_t rows) {
  constexpr int32_t kKvHeads = 8;
  constexpr int32_t kHeadDim = 128;
  const Context context(table);
  const int64_t block_bytes = kv_bytes_per_block(dtype, kBlock, kKvHeads, kHeadDim);
  Buffer cache(static_cast<size_t>((rows + kBlock - 1) / kBlock * block_bytes));
  const KvCacheView view = {cache.data(), block_bytes, 0, dtype, kBlock, kKvHeads, kHeadDim};
  Buffer tokens = filled(DType::kF32, rows * kKvHeads * kHeadDim);
  const TensorView kv = make_view(tokens.data(), DType::kF32, {rows, kKvHeads, kHeadDim});
  std::vector<int64_t> slots(static_cast<size_t>(rows));
  std::iota(slots.begin(), slots.end(), 0);
  for (auto _ : state)
    table.run(context.ctx, ops::KvWrite{.cache = view, .k = kv, .v = kv, .slot_mapping = slots});
  report(state, 0, 2.0 * static_cast<double>(tokens.size()));
}

}  // namespace

void register_attention(const CpuIsa& isa) {
  const OpTable& table = *isa.table;
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    const std::string type = "/" + std::string(isa.name) + "/" + std::string(dtype_name(dtype));
    add("KvWrite" + type + "/rows512", kv_write, std::cref(table), dtype, 512);
    for (const AttentionCase& c : kCases)
      add("Attention" + type + "/" + c.name, attention, std::cref(table), dtype, std::cref(c));
  }
}

}  // namespace quire::bench
