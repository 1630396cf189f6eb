#include "models/decoder/mixers.h"

#include <algorithm>
#include <type_traits>

namespace quire {
namespace {

struct AttentionScratch {
  TensorView qkv;    // [rows, qkv_size]
  TensorView heads;  // [rows, result_size]
  IndexerScratch indexer;
};

AttentionScratch make_scratch(const Attention& attention, const std::optional<Indexer>& indexer,
                              ScratchLayout& layout) {
  AttentionScratch out;
  out.qkv = layout.matrix(attention.qkv_size());
  out.heads = layout.matrix(attention.result_size());
  if (indexer) out.indexer = quire::make_scratch(indexer->sizes, layout);
  return out;
}

void run_attention(const OpRunner& run, const Attention& attention, const std::optional<Indexer>& indexer,
                   const MixerArgs& args) {
  ScratchLayout layout = args.layout();
  AttentionScratch at = make_scratch(attention, indexer, layout);
  SparseMask chosen;
  if (indexer) {
    at.indexer.chosen = args.chosen;
    const KvCacheView& kv = args.kv;
    const int64_t own =
        kv_bytes_per_block(kv.dtype, kv.block_size, kv.num_kv_heads, kv.head_dim, kv.value_dim);
    choose(run, *indexer, args.x, args.x, args.batch, index_cache(kv, own, indexer->sizes), at.indexer);
    if (has_choice(indexer->sizes, args.batch.attention)) chosen = at.indexer.chosen;
  }
  apply(run, attention, args.rope, args.out, args.x, args.residual, args.batch, args.kv, at.qkv, at.heads,
        chosen);
}

void run_parallel(const OpRunner& run, const ParallelMixer& mixer, const MixerArgs& args) {
  apply(run, mixer.mamba, args);
  if (mixer.mamba_multiplier != 1.0F) run(ops::ScaleSoftcap{.x = args.out, .scale = mixer.mamba_multiplier});
  MixerArgs in_place = args;
  in_place.out = args.x;
  run_attention(run, mixer.attention, {}, in_place);
  if (mixer.attention_multiplier != 1.0F)
    run(ops::ScaleSoftcap{.x = args.x, .scale = mixer.attention_multiplier});
  run(ops::Add{.x = args.out, .y = args.x});
}

}  // namespace

void run_mixer(const OpRunner& run, const DecoderLayer& layer, const MixerArgs& args) {
  std::visit(
      [&](const auto& weights) {
        using Weights = std::remove_cvref_t<decltype(weights)>;
        if constexpr (std::is_same_v<Weights, Attention>) {
          run_attention(run, weights, layer.indexer, args);
        } else if constexpr (std::is_same_v<Weights, ParallelMixer>) {
          run_parallel(run, weights, args);
        } else if constexpr (!std::is_same_v<Weights, std::monostate>) {
          apply(run, weights, args);
        }
      },
      layer.mixer);
}

int64_t mixer_scratch_size(const DecoderLayer& layer, int64_t rows) {
  return std::visit(
      [&](const auto& weights) {
        using Weights = std::remove_cvref_t<decltype(weights)>;
        ScratchLayout layout(rows, nullptr);
        if constexpr (std::is_same_v<Weights, Attention>) {
          make_scratch(weights, layer.indexer, layout);
        } else if constexpr (std::is_same_v<Weights, ParallelMixer>) {
          ScratchLayout mamba(rows, nullptr);
          count_scratch(weights.mamba, mamba);
          make_scratch(weights.attention, {}, layout);
          return std::max(layout.size(), mamba.size());
        } else if constexpr (!std::is_same_v<Weights, std::monostate>) {
          count_scratch(weights, layout);
        }
        return layout.size();
      },
      layer.mixer);
}

}  // namespace quire
