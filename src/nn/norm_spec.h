// Normalization layers: what differs between models. Plain data.
#pragma once

#include <cstdint>

namespace quire {

enum class NormKind : uint8_t { kRms, kLayer };

struct NormSpec {
  NormKind kind = NormKind::kRms;
  float eps = 1e-6F;
  float weight_offset = 0.0F;  // added to the stored weights (Gemma: 1)
  bool bias = false;           // kLayer

  friend bool operator==(const NormSpec&, const NormSpec&) = default;
};

// Over which dimensions queries and keys are normalized.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,           // each head, all with the same weights
  kPerHeadWeights,  // each head with its own weights
  kFullProjection,  // the full projection at once
};

}  // namespace quire
