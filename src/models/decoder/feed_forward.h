// One interface for the feed-forward parts of all layers: MLPs, experts, and both together.
#pragma once

#include <cstdint>
#include <span>

#include "models/decoder/layer.h"

namespace quire {

// Number of rows that go through a feed-forward layer at once, which limits its scratch memory. With more
// rows the scratch no longer fits the caches.
inline constexpr int64_t kMlpRows = 512;

// The arguments for at most kMlpRows rows of a step.
struct FeedForwardArgs {
  TensorView out;                   // [rows, hidden_size]; may be x
  TensorView x;                     // [rows, hidden_size], normalized
  TensorView residual;              // [rows, hidden_size], added to the output; empty = nothing is added
  TensorView hidden;                // [rows, hidden_size], before the norm
  TensorView shortcut;              // [rows, hidden_size], output of the experts of a ShortcutMoe
  std::span<const int32_t> tokens;  // [rows], for hash routing
  float* work = nullptr;            // at least feed_forward_scratch_size() floats
};
// out = feed_forward(x) (+ residual).
void run_feed_forward(const OpRunner& run, const DecoderLayer& layer, const FeedForwardArgs& args);

// Scratch of the layer's feed-forward part, in floats, for at most `rows` rows at once.
int64_t feed_forward_scratch_size(const DecoderLayer& layer, int64_t hidden_size, int64_t rows);

}  // namespace quire
