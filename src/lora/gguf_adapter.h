// Adapters in GGUF files, as llama.cpp's convert_lora_to_gguf.py writes them: general.type is "adapter",
// adapter.type "lora", and each changed tensor T of the model has T.lora_a [rank, in] and T.lora_b [out,
// rank]. They are read as if PEFT had saved them, under the names that the modules have in checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/gguf/gguf_file.h"
#include "io/safetensors.h"
#include "lora/problems.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

// How the file has the values of a tensor.
struct GgufForm {
  const GgmlType* type = nullptr;
  size_t bytes = 0;         // in the file, from TensorInfo::offset
  bool transposed = false;  // as [columns, rows]
  // > 1: of each head, which has this many rows, the first half of the rows are the even ones, and the second
  // half the odd ones.
  int64_t pairs_of = 1;
  bool plus_one = false;  // the weights of a norm with 1 added
};

// The contents of the header. Plain data.
struct GgufAdapter {
  double alpha = 0.0;      // 0 = all scales are 1
  std::string base_model;  // a URL of the model that it was made for; may be empty
  std::vector<std::string> warnings;
  Problems problems;
  // The parts of the file's tensors, with the names that PEFT would give them. Sizes are those of the decoded
  // values.
  std::vector<TensorInfo> tensors;
  std::map<std::string, GgufForm, std::less<>> forms;  // by these names
};

// targets: null = without a model. Throws Error if the file is not a LoRA adapter.
GgufAdapter read_gguf_adapter(const GgufFile& file, const AdapterTargets* targets);

}  // namespace quire::lora
