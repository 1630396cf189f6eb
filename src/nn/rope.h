// Rotary position embeddings: angle tables with their scalings, made once at load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

// How the angle of dimension pair i grows with the position. Plain: theta^(-2i / rotary_dim) radians a token.
struct RopeSpec {
  double theta = 10000.0;
  int32_t rotary_dim = 0;  // the first dimensions of a head that turn; even
  RopeStyle style = RopeStyle::kHalves;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;               // kLinear, kLlama3, kYarn: how much longer than in training
  double original_max_position = 0;  // kLlama3, kYarn: the length of training
  double low_freq_factor = 1.0;      // kLlama3
  double high_freq_factor = 4.0;     // kLlama3
  double beta_fast = 32.0;           // kYarn
  double beta_slow = 1.0;            // kYarn
  bool truncate = true;              // kYarn: whole dimensions as borders of the ramp
  double attention_factor = 1.0;     // multiplied into cosines and sines
};

// The angle a token adds, for each pair of dimensions: [rotary_dim / 2]. In float32 steps as transformers
// computes them (modeling_rope_utils), so that long positions turn by the same angle.
std::vector<float> rope_inverse_frequencies(const RopeSpec& spec);

struct Rope {
  RopeStyle style = RopeStyle::kHalves;
  Buffer data;
  TensorView cos_sin;  // [max_positions, rotary_dim] float32: cosines, then sines
};

// Positions in parallel on ctx's pool.
Rope make_rope(const OpContext& ctx, const RopeSpec& spec, int64_t max_positions);
// Turns x [rows, heads, head_dim] in place.
void apply(const OpTable& ops, const OpContext& ctx, const Rope& rope, const TensorView& x,
           std::span<const int32_t> positions);

}  // namespace quire
