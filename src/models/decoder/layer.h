// The weights of one layer, made from its LayerSpec. Owned by the Decoder; read-only after load.
#pragma once

#include <memory>
#include <optional>

#include "models/decoder/feed_forward.h"
#include "models/model_spec.h"
#include "nn/alt_up.h"
#include "nn/mixer.h"
#include "nn/per_layer_input.h"
#include "nn/shared_block.h"
#include "nn/streams.h"

namespace quire {

// One use of a shared block, which runs before the layer's mixer.
struct SharedBlockLayer {
  const SharedBlock* block = nullptr;  // owned by the Decoder
  BlockUse use;
};

struct DecoderLayer {
  std::unique_ptr<Mixer> mixer;  // null = none
  FeedForward feed_forward;
  std::optional<Norm> mixer_norm;
  std::optional<Norm> feed_forward_norm;
  ResidualAdd mixer_join;
  ResidualAdd feed_forward_join;
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
