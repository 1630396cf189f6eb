#include "nn/compressed_attention.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

// The last dimensions of heads, which turn: heads that begin where these do.
void turn_last(const OpTable& ops, const OpContext& ctx, const Rope& rope, const TensorView& x, int64_t heads,
               std::span<const int32_t> positions) {
  TensorView last = head_view(x, heads);
  last.data = last.as<float>() + last.shape[2] - rope.cos_sin.row_size();
  apply_to_queries(ops, ctx, rope, last, positions);
}

// The layer's part of the pool as places for both kinds of keys.
KvCacheView both_kinds(const KvCacheView& cache, const CompressedKeys& keys) {
  KvCacheView view = cache;
  view.value_dim = 0;
  view.values_in_keys = true;
  view.block_size = static_cast<int32_t>(keys.block_places());
  return view;
}

// The short keys of its indexer, behind these.
KvCacheView short_keys(const KvCacheView& places, const CompressedKeys& keys, const IndexerSizes& sizes) {
  KvCacheView view =
      index_cache(places, kv_part_bytes(places.dtype, places.block_size, 1, places.head_dim), sizes);
  view.block_size = keys.block / keys.tokens;
  return view;
}

// Keys of the windows that rows end, not yet written; zeros of other rows.
void compress(const OpTable& ops, const OpContext& ctx, const Compressor& compressor, const Rope& rope,
              const TensorView& out, const TensorView& x, const ForwardBatch& batch, const StateView& state,
              const CompressedScratch& at) {
  const int64_t width = compressor.width();
  const TensorView parts = part(at.parts, x.rows(), 2 * width);
  apply(ops, ctx, compressor.parts, parts, x);
  TensorView bias = vector_view(compressor.bias, width);
  bias = make_view(bias.data, DType::kF32, Shape{compressor.tokens, width});
  ops.compress(ctx, out, column_slice(parts, 0, width), column_slice(parts, width, 2 * width), bias,
               batch.states, state);
  apply(ops, ctx, compressor.norm, out, out);
  const auto firsts = at.firsts.first(batch.positions.size());
  std::ranges::transform(batch.positions, firsts.begin(),
                         [&](int32_t p) { return std::max(0, p + 1 - compressor.tokens); });
  turn_last(ops, ctx, rope, out, 1, firsts);
}

// slots = for each row slot(its block, its place among the block's tokens), or -1 where wanted(position) is
// not.
template <typename Wanted, typename Slot>
std::span<const int64_t> fill_slots(const ForwardBatch& batch, int32_t block_size, std::span<int64_t> slots,
                                    Wanted wanted, Slot slot) {
  for (size_t r = 0; r < batch.positions.size(); ++r) {
    const int64_t token = batch.slot_mapping[r];
    slots[r] =
        token < 0 || !wanted(batch.positions[r]) ? -1 : slot(r, token / block_size, token % block_size);
  }
  return slots.first(batch.positions.size());
}

// Writes the tokens' keys, and `compressed` of the rows that end a window. What a new block has not yet of
// the latter is zeros, since attention multiplies with all of it.
void write_keys(const OpTable& ops, const OpContext& ctx, const CompressedAttention& attention,
                const TensorView& key, const TensorView& compressed, const ForwardBatch& batch,
                const KvCacheView& places, const CompressedKeys& keys, std::span<int64_t> slots) {
  const int64_t all = keys.block_places();
  const auto write = [&](const TensorView& k, const auto& wanted, const auto& place) {
    const auto slot = [&](size_t r, int64_t block, int64_t token) { return block * all + place(r, token); };
    ops.kv_write(ctx, places, head_view(k, 1), {}, fill_slots(batch, keys.block, slots, wanted, slot));
  };
  const auto begins = [&](int32_t p) { return p % keys.block == 0; };
  const bool some_begin = std::ranges::any_of(batch.positions, begins);
  for (int64_t i = 0; some_begin && i < keys.slots; ++i) {
    write(same_rows(attention.nothing, key.rows(), key.row_size()), begins,
          [&](size_t, int64_t) { return i; });
  }
  write(
      key, [](int32_t) { return true; }, [&](size_t, int64_t token) { return keys.slots + token; });
  write(
      compressed, [&](int32_t p) { return (p + 1) % keys.tokens == 0; },
      [&](size_t r, int64_t) { return keys.place_of_key(batch.positions[r] / keys.tokens) % all; });
}

// Stores the indexer's keys; true: it has chosen some, into at.picked.
bool choose(const OpTable& ops, const OpContext& ctx, const CompressedAttention& attention, const Rope& rope,
            const TensorView& x, const TensorView& down, const ForwardBatch& batch, const KvCacheView& cache,
            const CompressedKeys& keys, const StateView& state, const CompressedScratch& at) {
  const int64_t n = x.rows();
  const CompressedIndexer& indexer = *attention.indexer;
  const IndexerSizes& sizes = attention.sizes.index;
  const TensorView key = row_slice(at.index_key, 0, n);
  compress(ops, ctx, indexer.keys, rope, key, x, batch, state, at);
  const auto ends = [&](int32_t p) { return (p + 1) % keys.tokens == 0; };
  const auto slot = [&](size_t, int64_t block, int64_t token) {
    return block * cache.block_size + token / keys.tokens;
  };
  ops.kv_write(ctx, cache, head_view(key, 1), {}, fill_slots(batch, keys.block, at.slots, ends, slot));
  const int64_t all = int64_t{sizes.count} * keys.tokens;
  if (std::ranges::none_of(batch.attention.seq_lens, [&](int32_t length) { return length > all; }))
    return false;
  const TensorView query = row_slice(at.index_query, 0, n);
  apply(ops, ctx, indexer.query, query, down);
  turn_last(ops, ctx, rope, query, sizes.heads, batch.positions);
  const TensorView weights = row_slice(at.index_weights, 0, n);
  apply(ops, ctx, indexer.weights, weights, x);
  ops.choose_keys(ctx, at.picked, head_view(query, sizes.heads), weights, cache, batch.attention, sizes.count,
                  keys.tokens);
  return true;
}

// The batch in places.
AttentionBatch in_places(const AttentionBatch& batch, const CompressedKeys& keys, const KeyMask& chosen,
                         std::span<int32_t> lengths) {
  AttentionBatch out = batch;
  const auto own = lengths.first(static_cast<size_t>(batch.num_seqs));
  for (size_t s = 0; s < own.size(); ++s) {
    const int64_t length = keys.place_of_token(batch.seq_lens[s] - 1) + 1;
    if (length > chosen.stride * 64) {
      throw Error(cat("internal error: ", batch.seq_lens[s], " tokens take ", length,
                      " places of a cache, the scratch is made for ", chosen.stride * 64));
    }
    own[s] = static_cast<int32_t>(length);
  }
  out.seq_lens = own;
  return out;
}

}  // namespace

RecurrentSizes compressed_states(const CompressedSizes& sizes, bool overlap, bool indexer) {
  RecurrentSizes out;
  // LayerState::inputs holds what the compressor carries, LayerState::recurrence what that of the indexer
  // does.
  out.taps = 2;
  out.channels = compress_state(sizes.head_dim, overlap);
  out.heads = indexer ? 1 : 0;
  out.head_state = indexer ? compress_state(sizes.index.dim, overlap) : 0;
  return out;
}

int64_t compressed_bytes(const CompressedSizes& sizes, int32_t tokens, bool indexer, DType dtype,
                         int32_t block_size) {
  const int32_t slots = tokens > 0 ? compressed_slots(tokens, block_size) : 0;
  const int64_t own = kv_part_bytes(dtype, block_size + slots, 1, sizes.head_dim);
  return indexer ? own + kv_part_bytes(dtype, block_size / tokens, 1, sizes.index.dim) : own;
}

// A block has no more places for such keys than for tokens; the last one is not full.
int64_t compressed_places(int64_t tokens) {
  constexpr int64_t kMostSlots = 1024;
  return 2 * tokens + kMostSlots;
}

CompressedScratch place_compressed(const CompressedSizes& sizes, ScratchLayout& at) {
  CompressedScratch out;
  out.query_down = at.matrix(sizes.query_rank);
  out.query = at.matrix(sizes.query());
  out.key = at.matrix(sizes.head_dim);
  out.heads = at.matrix(sizes.query());
  out.low = at.matrix(sizes.groups * sizes.rank);
  out.parts = at.matrix(4 * int64_t{std::max(sizes.head_dim, sizes.index.dim)});
  out.compressed = at.matrix(sizes.head_dim);
  out.index_query = at.matrix(int64_t{sizes.index.heads} * sizes.index.dim);
  out.index_key = at.matrix(sizes.index.dim);
  out.index_weights = at.matrix(sizes.index.heads);
  const TensorView slots = at.matrix(2);
  const TensorView firsts = at.matrix(1);
  const TensorView lengths = at.matrix(1);
  if (slots.data == nullptr) return out;
  const auto rows = static_cast<size_t>(slots.rows());
  out.slots = {reinterpret_cast<int64_t*>(slots.as<float>()), rows};
  out.firsts = {reinterpret_cast<int32_t*>(firsts.as<float>()), rows};
  out.lengths = {reinterpret_cast<int32_t*>(lengths.as<float>()), rows};
  return out;
}

void apply(const OpTable& ops, const OpContext& ctx, const CompressedAttention& attention, const Rope& rope,
           const TensorView& out, const TensorView& x, const ForwardBatch& batch, const KvCacheView& cache,
           const LayerState& state, const CompressedScratch& at) {
  const int64_t n = x.rows();
  const CompressedSizes& sizes = attention.sizes;
  const TensorView down = row_slice(at.query_down, 0, n);
  const TensorView query = row_slice(at.query, 0, n);
  const TensorView key = row_slice(at.key, 0, n);
  const TensorView heads = row_slice(at.heads, 0, n);
  apply(ops, ctx, attention.query_down, down, x);
  apply(ops, ctx, attention.query_norm, down, down);
  apply(ops, ctx, attention.query, query, down);
  apply(ops, ctx, attention.head_norm, head_view(query, sizes.heads), head_view(query, sizes.heads));
  turn_last(ops, ctx, rope, query, sizes.heads, batch.positions);
  apply(ops, ctx, attention.key, key, x);
  apply(ops, ctx, attention.key_norm, key, key);
  turn_last(ops, ctx, rope, key, 1, batch.positions);

  CompressedKeys keys = {.block = cache.block_size};
  if (attention.compressor) {
    keys.tokens = attention.compressor->tokens;
    keys.slots = compressed_slots(keys.tokens, keys.block);
  }
  const KvCacheView places = both_kinds(cache, keys);
  AttentionParams params = attention.params;
  AttentionBatch lines = batch.attention;
  if (attention.compressor) {
    const TensorView compressed = row_slice(at.compressed, 0, n);
    compress(ops, ctx, *attention.compressor, rope, compressed, x, batch, state.inputs, at);
    write_keys(ops, ctx, attention, key, compressed, batch, places, keys, at.slots);
    const bool some =
        attention.indexer && choose(ops, ctx, attention, rope, x, down, batch,
                                    short_keys(places, keys, sizes.index), keys, state.recurrence, at);
    lines = in_places(batch.attention, keys, at.chosen, at.lengths);
    mark_compressed(ctx, at.chosen, batch.attention, keys, params.window, some ? at.picked : KeyMask{});
    params.chosen = at.chosen;
    params.window = 0;
  } else {
    ops.kv_write(ctx, places, head_view(key, 1), {}, batch.slot_mapping);
  }
  ops.paged_attention(ctx, head_view(heads, sizes.heads), head_view(query, sizes.heads), places, lines,
                      params);
  turn_last(ops, ctx, *attention.back, heads, sizes.heads, batch.positions);
  const TensorView low = row_slice(at.low, 0, n);
  const int64_t wide = sizes.query() / sizes.groups;
  for (int64_t g = 0; g < sizes.groups; ++g) {
    apply(ops, ctx, attention.out_down[static_cast<size_t>(g)],
          column_slice(low, g * sizes.rank, (g + 1) * sizes.rank),
          column_slice(heads, g * wide, (g + 1) * wide));
  }
  apply(ops, ctx, attention.out, out, low);
}

}  // namespace quire
