// Mixture of attention heads (arXiv 2210.05144): a router selects a few experts for each token. Each expert
// has a query projection and an output projection. Keys and values are the same for all experts.
#pragma once

#include <vector>

#include "nn/layers.h"
#include "nn/mixer.h"
#include "nn/moa_spec.h"
#include "nn/params.h"

namespace quire {

// Weights are read-only after load.
struct Moa {
  struct Expert {
    Linear q_proj;  // [kv_size, hidden]
    Linear o_proj;  // [hidden, kv_size]
  };

  MoaSpec spec;
  Linear router;   // [num_experts, hidden]
  Linear kv_proj;  // [2 kv_size, hidden]: keys, values
  std::vector<Expert> experts;
  Buffer bias;  // float32 [hidden]: added to the output
};

// out = sum over a row's experts e of weight * o_proj_e(attend(q_proj_e(x), k, v)) + bias (+ residual).
void apply(const OpRunner& run, const Moa& moa, const MixerArgs& args);
void count_scratch(const Moa& moa, ScratchLayout& layout);

void visit(const MoaSpec& spec, const InputSpec& x, ParamVisitor& visitor, Moa& moa);

}  // namespace quire
