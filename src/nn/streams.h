// Hyper-connections (arXiv 2512.24880): each token has several residual streams. The pre-mapping computes the
// input of attention or MLP as a weighted sum of the streams. The post-mapping mixes the streams with each
// other and adds the output to all of them.
#pragma once

#include <cstdint>
#include <span>

#include "nn/hyper_connection_spec.h"
#include "nn/layers.h"
#include "nn/params.h"
#include "nn/scratch.h"

namespace quire {

// Computes the mixing coefficients from all streams of a token. Weights are read-only after load.
struct HyperConnections {
  Norm norm;  // [streams * hidden], without weights
  Linear
      scores;   // [streams (streams + 2), streams * hidden]; after the last layer [streams, streams * hidden]
  Buffer base;  // float32 [outputs of scores]
  Buffer scale;  // float32 [3], or [1]
  StreamParams params;
};

// Views of one piece of memory, for up to `rows` rows: the streams, their mixture, and the streams after the
// post-mapping.
struct StreamScratch {
  TensorView first;   // [rows * streams, hidden]: the streams between two layers
  TensorView hidden;  // [rows, hidden], stored after `first`: the mixture
  TensorView second;  // [rows * streams, hidden], stored after `hidden`
  int32_t streams = 0;
  TensorView scores;  // [rows, streams (streams + 2)]
  TensorView in;      // [rows, streams]
  TensorView out;     // [rows, streams (streams + 1)]
  // Row indices of gathers and sums:
  std::span<int32_t> own;       // [rows * streams] 0, 1, 2, …
  std::span<int32_t> repeated;  // [rows * streams]: each row `streams` times
  // [rows * streams, streams + 1]: all streams of a row and its mixture, as rows of the memory that begins at
  // `first` or at `hidden`.
  std::span<int32_t> of_first;
  std::span<int32_t> of_second;
};
StreamScratch make_scratch(const StreamSpec& spec, ScratchLayout& layout);

// n is the number of rows. Sets all streams to hidden.
void begin_streams(const OpRunner& run, const StreamScratch& at, int64_t n);
// Pre-mapping: hidden = the mixture of the streams. The coefficients of the post-mapping stay in the scratch.
// The streams are in `second` if second is set, otherwise in `first`; the other one is scratch.
void hc_pre_mapping(const OpRunner& run, const HyperConnections& mix, const StreamScratch& at, bool second,
                    int64_t n);
// Post-mapping, with the coefficients of hc_pre_mapping: mixes the streams and adds `hidden`, from `first` to
// `second` or back.
void hc_post_mapping(const OpRunner& run, const StreamScratch& at, bool second, int64_t n);

// eps: eps of the norm before the scores.
void visit(const StreamSpec& spec, const HyperConnectionParams& params, float eps, ParamVisitor& visitor,
           HyperConnections& mix);

}  // namespace quire
