// The weights of one layer, made from its LayerSpec. Owned by the Decoder; read-only after load.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "models/model_spec.h"
#include "nn/alt_up.h"
#include "nn/compressed_attention.h"
#include "nn/delta_net.h"
#include "nn/indexer.h"
#include "nn/kimi_delta.h"
#include "nn/layers.h"
#include "nn/lightning.h"
#include "nn/mamba.h"
#include "nn/mamba1.h"
#include "nn/mla.h"
#include "nn/moa.h"
#include "nn/moe.h"
#include "nn/per_layer_input.h"
#include "nn/shared_block.h"
#include "nn/short_conv.h"
#include "nn/streams.h"

namespace quire {

struct ParallelMixer {
  Attention attention;
  Mamba mamba;
  float attention_multiplier = 1.0F;
  float mamba_multiplier = 1.0F;
};

struct ParallelMoe {
  Mlp mlp;
  Moe moe;
  Norm router_norm;          // input of the router
  Norm experts_norm;         // input of the experts
  Norm experts_output_norm;  // output of the experts
  Norm mlp_output_norm;      // output of the MLP
};

struct ShortcutMoe {
  Mlp mlp;
  Moe moe;
};

// The weights that visit() fills from a spec.
template <class Spec>
struct WeightsOf;
// clang-format off
template <> struct WeightsOf<std::monostate> { using Type = std::monostate; };
template <> struct WeightsOf<AttentionSpec> { using Type = Attention; };
template <> struct WeightsOf<MlaSpec> { using Type = Mla; };
template <> struct WeightsOf<CompressedAttentionSpec> { using Type = CompressedAttention; };
template <> struct WeightsOf<MoaSpec> { using Type = Moa; };
template <> struct WeightsOf<MambaSpec> { using Type = Mamba; };
template <> struct WeightsOf<Mamba1Spec> { using Type = Mamba1; };
template <> struct WeightsOf<DeltaNetSpec> { using Type = DeltaNet; };
template <> struct WeightsOf<KimiDeltaSpec> { using Type = KimiDelta; };
template <> struct WeightsOf<ShortConvSpec> { using Type = ShortConv; };
template <> struct WeightsOf<LightningSpec> { using Type = Lightning; };
template <> struct WeightsOf<ParallelMixerSpec> { using Type = ParallelMixer; };
template <> struct WeightsOf<MlpSpec> { using Type = Mlp; };
template <> struct WeightsOf<MoeSpec> { using Type = Moe; };
template <> struct WeightsOf<ParallelMoeSpec> { using Type = ParallelMoe; };
template <> struct WeightsOf<ShortcutMoeSpec> { using Type = ShortcutMoe; };
// clang-format on
template <class... Specs>
struct WeightsOf<std::variant<Specs...>> {
  using Type = std::variant<typename WeightsOf<Specs>::Type...>;
};

using Mixer = WeightsOf<MixerSpec>::Type;
using FeedForward = WeightsOf<FeedForwardSpec>::Type;

// One use of a shared block, which runs before the layer's mixer.
struct SharedBlockLayer {
  const SharedBlock* block = nullptr;  // owned by the Decoder
  BlockUse use;
};

struct DecoderLayer {
  Mixer mixer;
  std::optional<Indexer> indexer;  // if the mixer is an Attention that selects keys
  FeedForward feed_forward;
  std::optional<Norm> mixer_norm;
  std::optional<Norm> feed_forward_norm;
  ResidualAdd mixer_join;
  ResidualAdd feed_forward_join;
  const Rope* rope = nullptr;  // owned by the Decoder; null = no rotary embedding
  std::optional<SharedBlockLayer> shared_block;
  std::optional<PerLayerInput> input;
  std::optional<AltUp> alt_up;
  std::optional<Laurel> laurel;
  std::optional<HyperConnections>
      mixer_streams;  // hyper-connections around mixer and feed-forward: both or neither
  std::optional<HyperConnections> feed_forward_streams;
  float scalar = 1.0F;  // factor on the layer's output
};

}  // namespace quire
