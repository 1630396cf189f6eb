// Converts a float checkpoint to a directory with a quantized one that other engines can load, too. One
// tensor is in memory at a time; with calibration, one layer, the input statistics of its matrices, and the
// hidden states of the calibration text. Called by one thread, which works with the pool.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "io/checkpoint.h"
#include "quantize/gptq.h"
#include "quantize/output_directory.h"
#include "quantize/target.h"

namespace quire {

// Rounding methods. All except kNearest need calibration text.
enum class Method : uint8_t {
  kNearest,      // each group independently, to nearest
  kGptq,         // gptq.h
  kAwq,          // scaling.h, then nearest, weighted by the size of the inputs
  kSmoothQuant,  // scaling.h, then nearest
  kImportance,   // nearest, with scales that weight errors by the size of the inputs; GGUF only
};

struct QuantizeOptions {
  Target target;
  Method method = Method::kNearest;
  GptqOptions gptq;
  float smooth_strength = 0.5F;  // kSmoothQuant
  // Adds scales of keys and values for fp8 KV caches, measured on the calibration text. compressed-tensors
  // only.
  bool kv_scales = false;
  std::vector<std::vector<int32_t>> calibration;  // token ids; each entry is a separate sequence
  std::filesystem::path output;                   // a directory that does not exist yet or is empty
  std::vector<SideFile> files;                    // copied next to the weights
};

struct QuantizeResult {
  int64_t bytes_before = 0;  // all tensors
  int64_t bytes_after = 0;
  int64_t num_quantized = 0;    // quantized matrices
  int64_t quantized_bytes = 0;  // their bytes, including scales
  double relative_error =
      0.0;  // sqrt(sum of (error of a weight)^2 / sum of weight^2) over the quantized matrices
  std::vector<std::string> kept;   // matrices of the layers that remain floats
  std::vector<std::string> notes;  // messages for the user
};

// Maximum sequence length of the model.
int64_t longest_sequence(const Checkpoint& checkpoint);

// Called with the completed fraction of the work, 0 to 1.
using QuantizeProgress = std::function<void(double)>;

// Throws Error if the method does not apply to the format, the model is already quantized, the directory is
// not empty, the disk is too small, or a weight is not finite. In these cases, files that were already
// written are removed.
QuantizeResult quantize_model(Checkpoint& checkpoint, const QuantizeOptions& options, ThreadPool& pool,
                              const QuantizeProgress& progress);

}  // namespace quire
