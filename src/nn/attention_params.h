// The parameters of attention and of feed-forward layers.
#pragma once

#include "nn/attention_spec.h"
#include "nn/layers.h"
#include "nn/mlp_spec.h"
#include "nn/params.h"

namespace quire {

// x: what q_proj, k_proj and v_proj read. Sets all of `attention` but the pointers in its parameters to
// tables that all layers share.
void visit(const AttentionSpec& spec, const InputSpec& x, ParamVisitor& visitor, Attention& attention);

void visit(const MlpSpec& spec, const MlpParams& params, const InputSpec& x, ParamVisitor& visitor, Mlp& mlp);

}  // namespace quire
