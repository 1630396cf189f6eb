// The description of a model as a list: its parameters in the order in which the model reads them, with the
// tensors that store them. The check of a checkpoint, the memory plan and the list of linear modules read it.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "models/pooling_files.h"
#include "models/tensor_resolver.h"

namespace quire {

// The model that a traversal describes. files: pooling files next to the checkpoint; null = none.
struct ModelToDescribe {
  const ModelSpec& spec;
  const PoolingFiles* files = nullptr;
  ModelPart part = {};
};

// Visits every parameter of the given part of the model, for a pass that does not fill the weights. Throws
// Error if a pooling file does not match modules.json.
void describe_model(const ModelToDescribe& model, ParamVisitor& visitor);

enum class ParamKind : uint8_t {
  kMatrix,
  kVector,
  kScalar,
  kIntegers,
  kEmbedding,
  kDerivedMatrices,
  kDerivedTable,
};
inline bool is_matrix(ParamKind kind) {
  return kind == ParamKind::kMatrix || kind == ParamKind::kDerivedMatrices;
}

// The parameters that one call of a ParamVisitor describes.
struct ListedParam {
  ParamKind kind;
  std::vector<ParamSpec> specs;     // the fused parameters, or the sources of derived ones
  std::vector<StoredParam> stored;  // their tensors
  ParamPlace place;
  Precision precision = Precision::kDefault;  // kMatrix
  std::vector<DerivedMatrix> matrices = {};   // kDerivedMatrices, also for the next one
  ParamId adapted = {};                       // DerivedSpec::adapted
  bool float32 = false;                       // DerivedSpec::float32
  int64_t count = 0;                          // kDerivedTable: elements
  int32_t norm = -1;                          // kVector: Norm::site
  float offset = 0.0F;                        // number that is added to the stored weights of a norm
};

// Uses only the names and shapes of the checkpoint. Throws Error as describe_model() does.
std::vector<ListedParam> list_params(const ModelToDescribe& model, const TensorResolver& resolver);

}  // namespace quire
