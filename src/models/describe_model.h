// The description of a whole model: one traversal of all its parameters, by the functions visit() of its
// mechanisms.
#pragma once

#include "models/model.h"
#include "models/model_spec.h"
#include "models/pooling_files.h"
#include "nn/params.h"

namespace quire {

// The model that a traversal describes. files: pooling files next to the checkpoint; null = none.
struct ModelToDescribe {
  const ModelSpec& spec;
  const PoolingFiles* files = nullptr;
  ModelPart part = {};
};

// Visits every parameter of the given part of the model, for a pass that does not fill the results. Throws
// Error if a pooling file does not match modules.json.
void describe_model(const ModelToDescribe& model, ParamVisitor& visitor);

}  // namespace quire
