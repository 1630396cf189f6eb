// The changes of an adapter to embeddings, from the header of its file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "lora/problems.h"
#include "lora/tensor_checks.h"
#include "lora/tensor_name.h"
#include "nn/adapter_targets.h"
#include "tensor/dtype.h"

namespace quire::lora {

struct PlannedEmbedding {
  std::string name;  // as in the base, with its prefix
  TensorInfo a;      // [rank, vocabulary]
  TensorInfo b;      // [size, rank]
  int64_t rank = 0;
  float scale = 1.0F;
  int32_t site = -1;  // without a model: -1

  // In memory: the type of the file, or float32 if A and B have different types.
  DType dtype() const { return a.dtype == b.dtype ? a.dtype : DType::kF32; }
  int64_t bytes() const;
};

// Collects lora_embedding_A and lora_embedding_B. targets: null = without a model.
class EmbeddingPlanner {
 public:
  EmbeddingPlanner(const AdapterTargets* targets, Problems& problems)
      : targets_(targets), problems_(problems) {}

  // Returns whether the tensor belongs to an adapter on an embedding.
  bool take(const TensorInfo& tensor, const AdapterTensorName& name);
  // By name. Adds to the problems what does not fit.
  std::vector<PlannedEmbedding> plan(const ScaleOf& scale_of);

 private:
  struct Tensors {
    const TensorInfo* a = nullptr;
    const TensorInfo* b = nullptr;
  };
  bool is_complete(const std::string& name, const Tensors& tensors);
  bool resolve(PlannedEmbedding& embedding);

  const AdapterTargets* targets_;
  Problems& problems_;
  std::map<std::string, Tensors> modules_;
};

}  // namespace quire::lora
