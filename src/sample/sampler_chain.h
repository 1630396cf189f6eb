// The steps between the processed logits and the draw, and the order in which a request applies them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace quire {

enum class SamplerStep : uint8_t {
  kPenalties,  // the first two change single logits, before all others
  kDry,
  kTopNSigma,
  kTemperature,
  kMinP,
  kTopK,
  kTypicalP,
  kTopP,
  kXtc,
};

struct SamplerChain {
  bool penalties = true;  // repetition, frequency and presence penalty are applied
  bool dry = true;
  std::vector<SamplerStep> steps;  // the others, in order

  bool contains(SamplerStep step) const;
};

// The chain that `samplers` (SamplingParams) names; the default one if it is empty. Fails for an unknown or
// repeated name, and for penalties or dry after another step.
Result<SamplerChain> read_samplers(std::span<const std::string> samplers);

}  // namespace quire
