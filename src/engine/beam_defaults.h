// The model's sampling defaults for requests with beam search.
#pragma once

#include "contract/sampling_params.h"

namespace quire {

// Resets the fields that only apply to sampling, and that a beam search rejects, to their neutral values.
// Called on the model's defaults before the fields of the request are set, so that only explicit fields are
// rejected.
inline void drop_sampling_defaults(SamplingParams& params) {
  const SamplingParams neutral;
  params.temperature = neutral.temperature;
  params.top_p = neutral.top_p;
  params.top_k = neutral.top_k;
  params.min_p = neutral.min_p;
  params.repetition_penalty = neutral.repetition_penalty;
  params.presence_penalty = neutral.presence_penalty;
  params.frequency_penalty = neutral.frequency_penalty;
  params.typical_p = neutral.typical_p;
  params.top_n_sigma = neutral.top_n_sigma;
  params.dynatemp_range = neutral.dynatemp_range;
  params.xtc_probability = neutral.xtc_probability;
  params.dry_multiplier = neutral.dry_multiplier;
  params.mirostat_mode = neutral.mirostat_mode;
  params.samplers = neutral.samplers;
}

}  // namespace quire
