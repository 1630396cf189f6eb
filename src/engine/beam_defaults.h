// What a door does with a model's own sampling defaults where a request asks for beam search.
#pragma once

#include "contract/sampling_params.h"

namespace quire {

// Puts the fields that only sampling has a use for, and that a beam search would refuse, to their neutral
// values: nobody asked for a model's default of them. For the defaults, before the request's own fields are
// set.
inline void drop_sampling_defaults(SamplingParams& params) {
  const SamplingParams neutral;
  params.temperature = neutral.temperature;
  params.top_p = neutral.top_p;
  params.top_k = neutral.top_k;
  params.min_p = neutral.min_p;
  params.repetition_penalty = neutral.repetition_penalty;
  params.presence_penalty = neutral.presence_penalty;
  params.frequency_penalty = neutral.frequency_penalty;
}

}  // namespace quire
