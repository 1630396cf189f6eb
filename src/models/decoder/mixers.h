// Runs the mixer of any layer.
#pragma once

#include <cstdint>

#include "models/decoder/layer.h"
#include "nn/mixer.h"

namespace quire {

// out = mixer(x) (+ residual). In a layer with a ParallelMixer, out must not be x, which is overwritten, and
// nothing is added.
void run_mixer(const OpRunner& run, const DecoderLayer& layer, const MixerArgs& args);

// Scratch of the layer's mixer, in floats, for steps of up to `rows` rows.
int64_t mixer_scratch_size(const DecoderLayer& layer, int64_t rows);

}  // namespace quire
