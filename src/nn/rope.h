// Rotary position embeddings: angle tables with their scalings, made once at load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace quire {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,
  kLlama3,
  kYarn,
  kLongRope,
  kDynamic,
  kProportional,
  kStill
};

// How the angle of dimension pair i grows with the position. Plain: theta^(-2i / rotary_dim) radians a token.
struct RopeSpec {
  double theta = 10000.0;
  int32_t rotary_dim = 0;  // the first dimensions of a head that turn; even
  RopeStyle style = RopeStyle::kHalves;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;               // how much longer than in training
  double original_max_position = 0;  // the length of training
  double low_freq_factor = 1.0;      // kLlama3
  double high_freq_factor = 4.0;     // kLlama3
  double beta_fast = 32.0;           // kYarn
  double beta_slow = 1.0;            // kYarn
  bool truncate = true;              // kYarn: whole dimensions as borders of the ramp
  double attention_factor = 1.0;     // multiplied into cosines and sines
  // kLongRope: what wavelengths are multiplied with, [rotary_dim / 2]. The long ones, and their factor, hold
  // where sequences may become longer than in training.
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  double long_attention_factor = 1.0;
  double turning = 1.0;    // kProportional: the part of the pairs that turn at all
  bool backwards = false;  // pairs turn the other way round
  // Queries at position p are also multiplied with 1 + beta log(1 + floor((p + offset) / length)). beta 0:
  // not.
  double query_beta = 0.0;
  double query_length = 1.0;
  int32_t query_offset = 0;
};

// The angle a token adds, for each pair of dimensions: [rotary_dim / 2]. In float32 steps as transformers
// computes them (modeling_rope_utils), so that long positions turn by the same angle. kLongRope and kDynamic
// depend on how long sequences may become, never on how long one is: a cache's keys stay right.
std::vector<float> rope_inverse_frequencies(const RopeSpec& spec, int64_t max_positions = 0);
// What cosines and sines are multiplied with.
double rope_attention_factor(const RopeSpec& spec, int64_t max_positions);

struct Rope {
  RopeStyle style = RopeStyle::kHalves;
  bool still = false;  // keys are left as they are
  Buffer data;
  Buffer query_data;         // where queries are scaled
  TensorView cos_sin;        // [max_positions, rotary_dim] float32: cosines, then sines
  TensorView query_cos_sin;  // the same for queries
};

// Positions in parallel on ctx's pool.
Rope make_rope(const OpContext& ctx, const RopeSpec& spec, int64_t max_positions);
// Turns queries q [rows, heads, head_dim] and keys k [rows, kv_heads, head_dim] in place.
void apply(const OpTable& ops, const OpContext& ctx, const Rope& rope, const TensorView& q,
           const TensorView& k, std::span<const int32_t> positions);

void apply_to_queries(const OpTable& ops, const OpContext& ctx, const Rope& rope, const TensorView& q,
                      std::span<const int32_t> positions);

}  // namespace quire
