// Rotary position embeddings: what differs between models. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op_table.h"

namespace quire {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,
  kLlama3,
  kYarn,
  kLongRope,
  kDynamic,
  kProportional,
  kQueryScaleOnly  // cosines 1 and sines 0: only the query scaling applies
};

// How the rotation angle of dimension pair i grows with the position. Without scaling: theta^(-2i /
// rotary_dim) radians per token.
struct RopeSpec {
  double theta = 10000.0;
  int32_t rotary_dim = 0;  // rotated dimensions of a head, from its first on; even
  RopeStyle style = RopeStyle::kNeox;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;               // maximum length relative to training
  double original_max_position = 0;  // maximum length in training
  double low_freq_factor = 1.0;      // kLlama3
  double high_freq_factor = 4.0;     // kLlama3
  double beta_fast = 32.0;           // kYarn
  double beta_slow = 1.0;            // kYarn
  bool truncate = true;              // kYarn: the ramp begins and ends at whole dimensions
  double attention_factor = 1.0;     // multiplies cosines and sines
  // kLongRope: factors on the wavelengths, [rotary_dim / 2]. The long ones, and their attention factor, apply
  // if sequences may become longer than in training.
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  double long_attention_factor = 1.0;
  double partial_rotary_factor = 1.0;  // kProportional: fraction of the pairs that are rotated
  bool inverse = false;                // rotate by the negative angle
  // Queries at position p are also multiplied by 1 + beta log(1 + floor((p + offset) / length)). beta 0 =
  // they are not.
  double query_scale_beta = 0.0;
  double query_scale_floor = 1.0;
  int32_t query_scale_offset = 0;
};

}  // namespace quire
