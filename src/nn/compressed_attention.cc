// Attention to a sliding window of tokens and to compressed keys, each a weighted mean over several tokens
// (DeepSeek-V4). There is one key head, whose keys are also its values. In layers with an indexer, the
// indexer selects the top-k compressed keys, by keys of its own that are compressed in the same way. The
// tokens of an incomplete compression window are recurrent state of the sequence.
#include "nn/compressed_attention_spec.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "nn/indexer.h"
#include "nn/mixer.h"
#include "ops/compressed_keys.h"

namespace quire {
namespace {

// Compresses `tokens` tokens into one key.
struct Compressor {
  Linear parts;  // [2 width, hidden]: values, then gates
  Buffer bias;   // float32 [tokens, width]: bias of the gates by position in the window
  Norm norm;
  int32_t tokens = 1;
  bool overlap = false;  // consecutive windows overlap, so that each token contributes to two keys

  int64_t width() const { return (overlap ? 2 : 1) * norm.size; }
};

// The indexer of compressed keys.
struct CompressedIndexer {
  Linear q_proj;   // [heads dim, q_lora_rank]
  Linear weights;  // [heads, hidden]
  Compressor keys;
};

// The cache is the layer's own part of the pool. There is no residual.
struct CompressedAttention final : Mixer {
  CompressedAttentionSpec spec;
  Linear q_a_proj;  // [q_lora_rank, hidden]
  Norm q_a_norm;
  Linear q_proj;   // [heads head_dim, q_lora_rank]
  Norm head_norm;  // over each query head, without weights
  Linear kv_proj;  // [head_dim, hidden]
  Norm kv_norm;
  std::optional<Compressor> compressor;
  std::optional<CompressedIndexer> indexer;
  Buffer zeros;                  // float32 [head_dim]: written to slots that have no key yet
  std::vector<Linear> o_a_proj;  // [groups] of [rank, heads / groups * head_dim]
  LinearGroup o_a_groups;        // o_a_proj
  Linear o_b_proj;               // [hidden, groups rank]
  Buffer sinks;                  // float32 [heads]

  explicit CompressedAttention(const CompressedAttentionSpec& settings) : spec(settings) {}
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  std::vector<StepTable> step_tables(int32_t block_size) const override;
  void count_scratch(ScratchLayout& layout) const override;

  CompressedKeys keys_of(int32_t block_size) const;
};

struct CompressedScratch {
  const CompressedAttentionSpec& spec;
  ScratchLayout layout;
  TensorView query_down = layout.matrix(spec.q_lora_rank);
  TensorView query = layout.matrix(spec.query());
  TensorView key = layout.matrix(spec.head_dim);
  TensorView heads = layout.matrix(spec.query());
  TensorView low = layout.matrix(spec.groups * spec.rank);
  TensorView parts = layout.matrix(4 * int64_t{std::max(spec.head_dim, spec.index.dim)});
  TensorView compressed = layout.matrix(spec.head_dim);
  TensorView index_query = layout.matrix(int64_t{spec.index.heads} * spec.index.dim);
  TensorView index_key = layout.matrix(spec.index.dim);
  TensorView index_weights = layout.matrix(spec.index.heads);
};

// The step tables of a layer with compressed keys.
enum CompressedTable : uint8_t {
  kFirsts,      // [rows] the first token of the window that ends at a row
  kLengths,     // [num_seqs] lengths of sequences, in cache slots
  kTokenSlots,  // [rows] slots of the tokens' own keys
  kKeySlots,    // [rows] slots of compressed keys; -1 = the row ends no window
  // [CompressedKeys::slots, rows] the slots for compressed keys of a block that begins at a row; otherwise -1
  kEmptySlots,
  kIndexSlots,  // [rows] as kKeySlots, for the keys of the indexer
};

void CompressedAttention::count_scratch(ScratchLayout& layout) const {
  layout = CompressedScratch{spec, layout}.layout;
}

// Rotates the last dimensions of each head, as views of the heads that begin there.
void rope_trailing(const OpRunner& run, const Rope& rope, const TensorView& x, int64_t heads,
                   std::span<const int32_t> positions) {
  TensorView last = head_view(x, heads);
  last.data = last.as<float>() + last.shape[2] - rope.cos_sin.row_size();
  apply_to_queries(run, rope, last, positions);
}

// The layer's part of the pool as cache slots of both kinds of keys.
KvCacheView both_kinds(const KvCacheView& cache, const CompressedKeys& keys) {
  KvCacheView view = cache;
  view.value_dim = 0;
  view.values_in_keys = true;
  view.block_size = static_cast<int32_t>(keys.block_places());
  return view;
}

// The keys of the indexer, which follow those of attention.
KvCacheView short_keys(const KvCacheView& all_keys, const CompressedKeys& keys, const IndexerSizes& sizes) {
  KvCacheView view =
      index_cache(all_keys, kv_part_bytes(all_keys.dtype, all_keys.block_size, 1, all_keys.head_dim), sizes);
  view.block_size = keys.block / keys.tokens;
  return view;
}

// out = the compressed key of the window that ends at each row; zeros for rows that do not end a window.
void compress(const OpRunner& run, const Compressor& compressor, const MixerArgs& args, const TensorView& out,
              const StateView& state, const CompressedScratch& at) {
  const int64_t width = compressor.width();
  const TensorView parts = column_slice(at.parts, 0, 2 * width);
  apply(run, compressor.parts, parts, args.x);
  TensorView bias = vector_view(compressor.bias, width);
  bias = make_view(bias.data, DType::kF32, Shape{compressor.tokens, width});
  run(ops::CompressKeys{.out = out,
                        .values = column_slice(parts, 0, width),
                        .gates = column_slice(parts, width, 2 * width),
                        .bias = bias,
                        .batch = args.batch.states,
                        .state = state});
  apply(run, compressor.norm, out, out);
  rope_trailing(run, *args.rope, out, 1, args.step_tables[kFirsts].narrow);
}

// Writes the keys of the tokens, and the compressed keys of the rows that end a window. The slots of
// compressed keys in a new block are set to zero first, because attention also multiplies slots that it
// masks.
void write_keys(const OpRunner& run, const CompressedAttention& attention, const MixerArgs& args,
                const KvCacheView& all_keys, const CompressedKeys& keys, const CompressedScratch& at) {
  const auto write = [&](const TensorView& k, std::span<const int64_t> slots) {
    run(ops::KvWrite{.cache = all_keys, .k = head_view(k, 1), .slot_mapping = slots});
  };
  const bool some_start =
      std::ranges::any_of(args.batch.host.positions, [&](int32_t p) { return p % keys.block == 0; });
  const auto rows = static_cast<size_t>(at.key.rows());
  for (int32_t i = 0; some_start && i < keys.slots; ++i) {
    write(same_rows(attention.zeros, at.key.rows(), at.key.row_size()),
          args.step_tables[kEmptySlots].wide.subspan(static_cast<size_t>(i) * rows, rows));
  }
  write(at.key, args.step_tables[kTokenSlots].wide);
  write(at.compressed, args.step_tables[kKeySlots].wide);
}

// Stores the keys of the indexer. Returns whether it has selected keys (args.picked); otherwise all are
// visible.
bool choose(const OpRunner& run, const CompressedAttention& attention, const MixerArgs& args,
            const KvCacheView& all_keys, const CompressedKeys& keys, const CompressedScratch& at) {
  const ForwardBatch& batch = args.batch;
  const CompressedIndexer& indexer = *attention.indexer;
  const IndexerSizes& sizes = attention.spec.index;
  const KvCacheView cache = short_keys(all_keys, keys, sizes);
  compress(run, indexer.keys, args, at.index_key, args.state.recurrence, at);
  run(ops::KvWrite{
      .cache = cache, .k = head_view(at.index_key, 1), .slot_mapping = args.step_tables[kIndexSlots].wide});
  const int64_t all = int64_t{sizes.count} * keys.tokens;
  if (std::ranges::none_of(batch.host.seq_lens, [&](int32_t length) { return length > all; })) return false;
  apply(run, indexer.q_proj, at.index_query, at.query_down);
  rope_trailing(run, *args.rope, at.index_query, sizes.heads, batch.positions);
  apply(run, indexer.weights, at.index_weights, args.x);
  run(ops::TopkKeys{.mask = args.picked,
                    .q = head_view(at.index_query, sizes.heads),
                    .weights = at.index_weights,
                    .keys = cache,
                    .batch = batch.attention,
                    .count = sizes.count,
                    .tokens_per_key = keys.tokens});
  return true;
}

// The batch with lengths in cache slots instead of tokens.
AttentionBatch in_places(const MixerArgs& args, const CompressedKeys& keys) {
  for (const int32_t length : args.batch.host.seq_lens) {
    const int64_t slots = keys.place_of_token(length - 1) + 1;
    if (slots > args.chosen.stride * 64) {
      throw Error(cat("internal error: ", length, " tokens take ", slots,
                      " slots of a cache, the scratch is made for ", args.chosen.stride * 64));
    }
  }
  AttentionBatch out = args.batch.attention;
  out.seq_lens = args.step_tables[kLengths].narrow;
  return out;
}

CompressedKeys CompressedAttention::keys_of(int32_t block_size) const {
  const int32_t tokens = spec.compressed_tokens;
  if (tokens == 0) return {.block = block_size};
  return {.tokens = tokens, .block = block_size, .slots = compressed_slots(tokens, block_size)};
}

// slots[r] = slot(position, block of the row, index of the row in the block), or -1 if wanted(position) is
// false.
template <typename Wanted, typename Slot>
void fill_slots(const HostBatch& batch, int32_t block_size, std::span<int64_t> slots, Wanted wanted,
                Slot slot) {
  for (size_t r = 0; r < batch.positions.size(); ++r) {
    const int64_t token = batch.slot_mapping[r];
    const int32_t position = batch.positions[r];
    slots[r] = token < 0 || !wanted(position) ? -1 : slot(position, token / block_size, token % block_size);
  }
}

// A table of slots of keys, which fill_slots fills.
template <typename Wanted, typename Slot>
StepTable slot_table(const std::string& name, const CompressedKeys& keys, Wanted wanted, Slot slot) {
  return {.name = name,
          .per_token = 1,
          .fill_wide = [block = keys.block, wanted, slot](const HostBatch& batch, std::span<int64_t> slots) {
            fill_slots(batch, block, slots, wanted, slot);
          }};
}

std::vector<StepTable> CompressedAttention::step_tables(int32_t block_size) const {
  if (spec.compressed_tokens == 0) return {};
  const CompressedKeys keys = keys_of(block_size);
  const int64_t all = keys.block_places();
  const auto name = [&](std::string_view of) { return cat("keys of ", keys.tokens, " tokens: ", of); };
  const auto every = [](int32_t) { return true; };
  const auto ends = [keys](int32_t p) { return (p + 1) % keys.tokens == 0; };
  std::vector<StepTable> tables(spec.indexer ? kIndexSlots + 1 : kEmptySlots + 1);
  tables[kFirsts] = {.name = name("first tokens"),
                     .per_token = 1,
                     .fill = [keys](const HostBatch& batch, std::span<int32_t> firsts) {
                       std::ranges::transform(batch.positions, firsts.begin(),
                                              [&](int32_t p) { return std::max(0, p + 1 - keys.tokens); });
                     }};
  tables[kLengths] = {.name = name("lengths"),
                      .per_sequence = 1,
                      .fill = [keys](const HostBatch& batch, std::span<int32_t> lengths) {
                        std::ranges::transform(batch.seq_lens, lengths.begin(), [&](int32_t length) {
                          return static_cast<int32_t>(keys.place_of_token(length - 1) + 1);
                        });
                      }};
  tables[kTokenSlots] = slot_table(
      name("tokens"), keys, every,
      [keys, all](int32_t, int64_t block, int64_t token) { return block * all + keys.slots + token; });
  tables[kKeySlots] =
      slot_table(name("compressed"), keys, ends, [keys, all](int32_t p, int64_t block, int64_t) {
        return block * all + keys.place_of_key(p / keys.tokens) % all;
      });
  tables[kEmptySlots] = {.name = name("empty"),
                         .per_token = keys.slots,
                         .fill_wide = [keys, all](const HostBatch& batch, std::span<int64_t> slots) {
                           const size_t rows = batch.positions.size();
                           for (int32_t i = 0; i < keys.slots; ++i) {
                             fill_slots(
                                 batch, keys.block, slots.subspan(static_cast<size_t>(i) * rows, rows),
                                 [&](int32_t p) { return p % keys.block == 0; },
                                 [&](int32_t, int64_t block, int64_t) { return block * all + i; });
                           }
                         }};
  if (spec.indexer) {
    tables[kIndexSlots] =
        slot_table(name("indexer"), keys, ends, [keys](int32_t, int64_t block, int64_t token) {
          return block * (keys.block / keys.tokens) + token / keys.tokens;
        });
  }
  return tables;
}

void CompressedAttention::forward(const OpRunner& run, const MixerArgs& args) const {
  const CompressedScratch at{spec, args.layout()};
  const ForwardBatch& batch = args.batch;
  const Rope& rope = *args.rope;
  const TensorView query = head_view(at.query, spec.heads);
  apply(run, q_a_proj, at.query_down, args.x);
  apply(run, q_a_norm, at.query_down, at.query_down);
  apply(run, q_proj, at.query, at.query_down);
  apply(run, head_norm, query, query);
  rope_trailing(run, rope, at.query, spec.heads, batch.positions);
  apply(run, kv_proj, at.key, args.x);
  apply(run, kv_norm, at.key, at.key);
  rope_trailing(run, rope, at.key, 1, batch.positions);

  const CompressedKeys keys = keys_of(args.kv.block_size);
  const KvCacheView all_keys = both_kinds(args.kv, keys);
  // The window applies to the uncompressed keys.
  AttentionParams params{.scale = spec.scale, .window = spec.window, .sinks = sinks.as<float>()};
  AttentionBatch in_slots = batch.attention;
  if (compressor) {
    compress(run, *compressor, args, at.compressed, args.state.inputs, at);
    write_keys(run, *this, args, all_keys, keys, at);
    const bool selected = indexer && choose(run, *this, args, all_keys, keys, at);
    in_slots = in_places(args, keys);
    run(ops::MarkCompressed{.mask = args.chosen,
                            .batch = batch.attention,
                            .keys = keys,
                            .window = params.window,
                            .selected = selected ? args.picked : SparseMask{}});
    params.chosen = args.chosen;
    params.window = 0;
  } else {
    run(ops::KvWrite{.cache = all_keys, .k = head_view(at.key, 1), .slot_mapping = batch.slot_mapping});
  }
  run(ops::PagedAttention{.out = head_view(at.heads, spec.heads),
                          .q = query,
                          .cache = all_keys,
                          .batch = in_slots,
                          .params = params});
  rope_trailing(run, *args.tables.rope(spec.inverse_rope), at.heads, spec.heads, batch.positions);
  o_a_groups.apply_batched(run, at.low, at.heads);
  apply(run, o_b_proj, args.out, at.low);
}

void CompressedAttention::visit(const InputSpec& x, ParamVisitor& visitor) {
  const auto visit_one = [&](ParamId id, int64_t size, Norm& norm) {
    visit_norm(visitor, id, spec.norm, size, norm);
  };
  const auto visit_compressor = [&](ParamId kv, ParamId gate, ParamId bias, ParamId norm, int64_t dim,
                                    Compressor& result) {
    const int64_t width = (spec.overlap ? 2 : 1) * dim;
    result.tokens = spec.compressed_tokens;
    result.overlap = spec.overlap;
    visitor.matrix(
        {.label = "linear", .fused = {replicated(kv, width, x.size), replicated(gate, width, x.size)}},
        result.parts);
    visit_vector(visitor, replicated(bias, spec.compressed_tokens, width), result.bias);
    visit_one(norm, dim, result.norm);
  };
  visit_matrix(visitor, "linear",
               with_bias(replicated(compressed::kQAProj, spec.q_lora_rank, x.size), spec.qkv_bias), q_a_proj);
  visit_one(compressed::kQANorm, spec.q_lora_rank, q_a_norm);
  const ParamSpec q = column_parallel(compressed::kQProj, spec.query(), spec.q_lora_rank, spec.head_dim);
  visit_matrix(visitor, "qkv", with_bias(q, spec.qkv_bias), q_proj);
  visit_unit_norm(visitor, spec.head_dim, spec.norm.eps, head_norm);
  visit_matrix(visitor, "linear",
               with_bias(replicated(compressed::kKProj, spec.head_dim, x.size), spec.qkv_bias), kv_proj);
  visit_one(compressed::kKNorm, spec.head_dim, kv_norm);
  if (spec.compressed_tokens > 0) {
    visit_compressor(compressed::kKvProj, compressed::kGateProj, compressed::kPositionBias, compressed::kNorm,
                     spec.head_dim, compressor.emplace());
  }
  if (spec.indexer) {
    CompressedIndexer& own = indexer.emplace();
    const int64_t heads = spec.index.heads;
    visit_matrix(visitor, "linear",
                 replicated(compressed::kIndexQProj, heads * spec.index.dim, spec.q_lora_rank), own.q_proj);
    visit_matrix(visitor, "linear", replicated(compressed::kIndexWeightsProj, heads, x.size), own.weights,
                 Precision::kFloat32);
    visit_compressor(compressed::kIndexKProj, compressed::kIndexKGate, compressed::kIndexKPositionBias,
                     compressed::kIndexKNorm, spec.index.dim, own.keys);
  }
  visit_filled(visitor, spec.head_dim, 0.0F, zeros);
  o_a_proj.resize(static_cast<size_t>(spec.groups));
  visitor.for_each(Axis::kGroups, spec.groups, [&](int64_t group) {
    const ParamSpec o_a = replicated(compressed::kOAProj, spec.rank, spec.query() / spec.groups);
    visit_matrix(visitor, "linear", o_a, o_a_proj[static_cast<size_t>(group)]);
  });
  for (const Linear& group : o_a_proj) o_a_groups.add(group);
  const ParamSpec o = row_parallel(compressed::kOBProj, spec.hidden_size, spec.groups * spec.rank, spec.rank);
  visit_matrix(visitor, "attention out", with_bias(o, spec.o_bias), o_b_proj);
  visit_vector(visitor, replicated(compressed::kSinks, spec.heads), sinks);
}

}  // namespace

KvShape kv_shape(const CompressedAttentionSpec& spec) {
  return {1, spec.head_dim, spec.head_dim, spec.heads};
}

int64_t kv_bytes(const CompressedAttentionSpec& spec, DType dtype, int32_t block_size) {
  const int32_t tokens = spec.compressed_tokens;
  const int32_t slots = tokens > 0 ? compressed_slots(tokens, block_size) : 0;
  const int64_t own = kv_part_bytes(dtype, block_size + slots, 1, spec.head_dim);
  return spec.indexer ? own + kv_part_bytes(dtype, block_size / tokens, 1, spec.index.dim) : own;
}

RecurrentSizes CompressedAttentionSpec::recurrent() const {
  RecurrentSizes out;
  if (compressed_tokens == 0) return out;
  // LayerState::inputs is the state of the compressor, LayerState::recurrence that of the indexer's
  // compressor.
  out.conv_kernel = 2;
  out.channels = compress_state(head_dim, overlap);
  out.heads = indexer ? 1 : 0;
  out.head_state = indexer ? compress_state(index.dim, overlap) : 0;
  return out;
}

// Compressed keys of all tokens are read, and so is the window of the tokens that they were made of.
MixerTraits mixer_traits(const CompressedAttentionSpec& spec) {
  const bool compresses = spec.compressed_tokens > 0;
  return {.window = compresses || spec.indexer ? 0 : spec.window,
          .masks = 1,
          .compresses_keys = true,
          .tokens_per_indexed_key = compresses && spec.indexer ? spec.compressed_tokens : 1,
          .scales_move = false,
          .input_scales_move = false};
}

// A block has at most as many slots for compressed keys as for tokens, and the last block may be incomplete.
int64_t compressed_places(int64_t tokens) {
  constexpr int64_t kMostSlots = 1024;
  return 2 * tokens + kMostSlots;
}

std::unique_ptr<Mixer> make_mixer(const CompressedAttentionSpec& spec) {
  return std::make_unique<CompressedAttention>(spec);
}

}  // namespace quire
