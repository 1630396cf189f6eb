// Hyper-connections (arXiv 2512.24880): the hidden states of a token are several streams. Attention and MLP
// each read one mixture of them; what they give joins all, which are mixed among themselves meanwhile.
#pragma once

#include <cstdint>
#include <span>

#include "nn/layers.h"

namespace quire {

// What all the streams of a token say of how they are mixed. Weights are read-only after load.
struct StreamMix {
  Norm norm;      // [streams * hidden], without weights
  Linear scores;  // [streams (streams + 2), streams * hidden]; at the model's end [streams, streams * hidden]
  Buffer base;    // float32, as many as scores
  Buffer scale;   // float32 [3], or [1]
  StreamParams params;
};

struct StreamSizes {
  int32_t streams = 0;
  int64_t hidden = 0;

  int64_t scores() const { return int64_t{streams} * (streams + 2); }
};

// Views of one piece of memory for so many rows: the streams, the one mixture, the streams of the next step.
struct StreamScratch {
  TensorView first;   // [rows * streams, hidden], where the streams are between two layers
  TensorView hidden;  // [rows, hidden] behind it
  TensorView second;  // [rows * streams, hidden] behind that
  int32_t streams = 0;
  TensorView scores;  // [rows, streams (streams + 2)]
  TensorView in;      // [rows, streams]
  TensorView out;     // [rows, streams (streams + 1)]
  // Rows that are gathered or added up:
  std::span<int32_t> own;       // [rows * streams] 0, 1, 2, …
  std::span<int32_t> repeated;  // [rows * streams] each row `streams` times
  // [rows * streams, streams + 1] all streams of a row and its mixture: from `first` on, or from `hidden` on.
  std::span<int32_t> of_first;
  std::span<int32_t> of_second;
};
// Floats that the scratch takes.
int64_t stream_scratch_size(const StreamSizes& sizes, int64_t rows);
StreamScratch make_stream_scratch(const StreamSizes& sizes, int64_t rows, float* memory);

// Of the first n rows:
// all streams = hidden.
void begin_streams(const OpTable& ops, const OpContext& ctx, const StreamScratch& at, int64_t n);
// hidden = the mixture of the streams; how they will be mixed stays in the scratch. second: they are there,
// else in `first`; the other one is scratch.
void enter_streams(const OpTable& ops, const OpContext& ctx, const StreamMix& mix, const StreamScratch& at,
                   bool second, int64_t n);
// The streams mixed, with `hidden` added as enter_streams has found: from `first` to `second`, or back.
void leave_streams(const OpTable& ops, const OpContext& ctx, const StreamScratch& at, bool second, int64_t n);

}  // namespace quire
