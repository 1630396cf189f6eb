// AltUp (Gemma 3n, arXiv 2301.13310): each token has several streams of hidden states, but attention and MLP
// run on the first one only; the others are predicted and corrected. Laurel (arXiv 2411.07501): a low-rank
// residual branch parallel to attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/alt_up_spec.h"
#include "nn/layers.h"
#include "nn/params.h"
#include "nn/scratch.h"

namespace quire {

// AltUp of one layer. Weights are read-only after load.
struct AltUp {
  Norm router_norm;  // [hidden]
  Linear router;     // [streams, hidden]
  Linear predict;    // [streams * streams, streams]: each stream's coefficients over all streams
  Linear correct;    // [streams, streams], biases 1: each stream's coefficient of the innovation
  Buffer scale;      // float32 [hidden] or empty: scales the input of the per-layer embeddings
};

// Projections from the embedding to the streams after the first, and back.
struct AltUpEnds {
  std::vector<Linear> in;   // [streams - 1] of [hidden, hidden]
  std::vector<Linear> out;  // [streams - 1] of [hidden, hidden]
};

struct Laurel {
  Linear down;  // [rank, hidden]
  Linear up;    // [hidden, rank]
  Norm norm;    // [hidden]
};

struct AltUpScratch {
  TensorView streams;              // [rows, streams * hidden], kept from layer to layer
  TensorView predicted;            // [rows, streams * hidden]: predictions of the layer's output
  TensorView scores;               // [rows, streams]
  TensorView shares;               // [rows, streams * streams]
  TensorView narrow;               // [rows, rank]
  std::span<int32_t> row_indices;  // [rows * streams] 0, 1, 2, …
};
AltUpScratch make_scratch(const AltUpSpec& spec, ScratchLayout& layout);
// The first `rows` rows.
AltUpScratch part_of(const AltUpScratch& scratch, int64_t rows);

// Initializes the streams from the embedding `hidden`, each scaled to its magnitude.
void begin_streams(const OpRunner& run, const AltUpEnds& ends, const TensorView& hidden,
                   const AltUpScratch& at);
// hidden = the mean of all streams, each scaled to the magnitude of the first. branch [rows, hidden] is
// scratch.
void join_streams(const OpRunner& run, const AltUpEnds& ends, const TensorView& hidden,
                  const TensorView& branch, const AltUpScratch& at);

// Predicts all streams after the layer; hidden = the prediction of the first, which is the layer's input.
// branch [rows, hidden] is scratch.
void predict(const OpRunner& run, const AltUp& alt_up, const TensorView& hidden, const TensorView& branch,
             const AltUpScratch& at);
// Corrects all streams, given the layer's output `hidden` for the first one; hidden = the corrected first
// stream, scaled. branch [rows, hidden] is scratch.
void correct(const OpRunner& run, const AltUp& alt_up, const TensorView& hidden, const TensorView& branch,
             const AltUpScratch& at);
// Adds x [rows, hidden] to all streams but the first.
void add_to_others(const OpRunner& run, const TensorView& x, const AltUpScratch& at);

// hidden += x + norm(up(down(x))). branch [rows, hidden] is scratch.
void apply(const OpRunner& run, const Laurel& laurel, const TensorView& hidden, const TensorView& x,
           const TensorView& branch, const AltUpScratch& at);

void visit(const AltUpSpec& spec, ParamVisitor& visitor, AltUpEnds& ends);
void visit(const AltUpSpec& spec, const NormSpec& router_norm, ParamVisitor& visitor, AltUp& alt_up);
void visit(const AltUpSpec& spec, const NormSpec& norm, ParamVisitor& visitor, Laurel& laurel);

}  // namespace quire
