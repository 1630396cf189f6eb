// Merges a LoRA adapter into its base: writes a checkpoint with the weights W + scale · B A. One tensor is in
// memory at a time, besides the adapter. Called by one thread, which works with the pool.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "io/checkpoint.h"
#include "nn/adapter.h"
#include "quantize/output_directory.h"

namespace quire {

struct MergeOptions {
  std::filesystem::path output;               // a directory that does not exist yet or is empty
  std::vector<SideFile> files;                // copied next to the weights
  std::function<void(double)> progress = {};  // called with the fraction of the bytes that are written
};

struct MergeResult {
  int64_t tensors = 0;      // changed tensors of the checkpoint
  int64_t total_bytes = 0;  // size of all tensors
  // The new tensor of the output embedding, which was tied to the input embedding; empty if there is none.
  std::string own_head;
  // Of merge_adapter(): what the adapter has.
  int64_t modules = 0;
  std::vector<std::string> without_effect;  // tensors
  std::vector<std::string> warnings;        // complete clauses
};

// Each changed weight is computed in float32 and rounded once to its type in the checkpoint. Everything else
// is copied. path: a directory that PEFT wrote. base_name: a warning compares it with the base that the
// adapter was made for.
//
// Throws Error if the adapter cannot be applied in full, if the base is a GGUF file or a changed matrix is
// quantized, if a sum is too large for its type, or if the output cannot be written. Nothing is left behind
// then.
MergeResult merge_adapter(Checkpoint& checkpoint, const std::filesystem::path& path,
                          const std::string& base_name, const MergeOptions& options, ThreadPool& pool);

// The same for an adapter in memory, whose sites are those of this model. Adapters have the sites of
// adapter_targets(), and the values of matrices that are replaced.
MergeResult merge_weights(Checkpoint& checkpoint, const AdapterWeights& adapter, const MergeOptions& options,
                          ThreadPool& pool);

}  // namespace quire
