// Gemma 3n's hidden states: several streams of them for each token, of which attention and MLP run on one
// alone (AltUp, arXiv 2301.13310); and the short way past attention that learns what to leave out (Laurel,
// arXiv 2411.07501).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers.h"

namespace quire {

// One layer's. Weights are read-only after load.
struct AltUp {
  Norm router_norm;  // [hidden]
  Linear router;     // [streams, hidden]
  Linear predict;    // [streams * streams, streams]: for each stream what it takes of all of them
  Linear correct;    // [streams, streams], its biases 1: what each stream takes of the layer's news
  Buffer scale;      // float32 [hidden] or empty: of what the layer's own input reads (nn/layer_input.h)
};

// From the embedding to the streams behind the first, and back.
struct AltUpEnds {
  std::vector<Linear> in;   // [streams - 1] of [hidden, hidden]
  std::vector<Linear> out;  // the same
};

struct Laurel {
  Linear down;  // [rank, hidden]
  Linear up;    // [hidden, rank]
  Norm norm;    // [hidden]
};

struct AltUpSizes {
  int32_t streams = 0;
  int64_t hidden = 0;
  int64_t rank = 0;  // of Laurel
};

// Views of one piece of memory for so many rows.
struct AltUpScratch {
  TensorView streams;         // [rows, streams * hidden], kept from layer to layer
  TensorView predicted;       // the same, before the layer has run
  TensorView scores;          // [rows, streams]
  TensorView shares;          // [rows, streams * streams]
  TensorView narrow;          // [rows, rank]
  std::span<int32_t> places;  // [rows * streams] 0, 1, 2, …
};
// Floats that the scratch takes.
int64_t alt_up_scratch_size(const AltUpSizes& sizes, int64_t rows);
AltUpScratch make_alt_up_scratch(const AltUpSizes& sizes, int64_t rows, float* memory);
// The part of it for so many rows.
AltUpScratch part_of(const AltUpScratch& scratch, int64_t rows);

// The streams of the embedding `hidden`, each as large as it.
void begin_streams(const OpTable& ops, const OpContext& ctx, const AltUpEnds& ends, const TensorView& hidden,
                   const AltUpScratch& at);
// hidden = the mean of all streams, each as large as the first. branch [rows, hidden] is scratch.
void join_streams(const OpTable& ops, const OpContext& ctx, const AltUpEnds& ends, const TensorView& hidden,
                  const TensorView& branch, const AltUpScratch& at);

// What the streams are foreseen to be behind the layer; hidden = the first, which the layer then runs on.
// branch [rows, hidden] is scratch.
void predict(const OpTable& ops, const OpContext& ctx, const AltUp& alt_up, const TensorView& hidden,
             const TensorView& branch, const AltUpScratch& at);
// The streams once the layer has made `hidden` of the first of them; hidden = the first, scaled. branch
// [rows, hidden] is scratch.
void correct(const OpTable& ops, const OpContext& ctx, const AltUp& alt_up, const TensorView& hidden,
             const TensorView& branch, const AltUpScratch& at);
// Adds x [rows, hidden] to all streams but the first.
void add_to_others(const OpTable& ops, const OpContext& ctx, const TensorView& x, const AltUpScratch& at);

// hidden += x + norm(up(down(x))). branch [rows, hidden] is scratch.
void apply(const OpTable& ops, const OpContext& ctx, const Laurel& laurel, const TensorView& hidden,
           const TensorView& x, const TensorView& branch, const AltUpScratch& at);

}  // namespace quire
