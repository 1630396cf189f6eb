// From a checkpoint of floats to a directory with a quantized one that other engines load too. One tensor is
// in memory at a time; with calibration a layer, what its matrices' inputs were, and the hidden states of the
// calibration text. Called by one thread, which works with the pool.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "io/checkpoint.h"
#include "quantize/gptq.h"
#include "quantize/target.h"

namespace quire {

// A file of the model that is no weights: tokenizer, template, generation_config.json.
struct SideFile {
  std::string name;
  std::string bytes;
};

// How codes are chosen. All but the first need calibration text.
enum class Method : uint8_t {
  kNearest,      // each group by itself
  kGptq,         // gptq.h
  kAwq,          // scaling.h, then the nearest, weighted by the inputs' size
  kSmoothQuant,  // scaling.h, then the nearest
  kImportance,  // the nearest, with scales for which errors count as much as the inputs are large; GGUF alone
};

struct QuantizeOptions {
  Target target;
  Method method = Method::kNearest;
  GptqOptions gptq;
  float smooth_strength = 0.5F;  // kSmoothQuant
  // Scales of keys and values for caches of 8-bit floats, by the calibration text; compressed-tensors alone.
  bool kv_scales = false;
  std::vector<std::vector<int32_t>> calibration;  // token ids, each a sequence of its own
  std::filesystem::path output;                   // a directory that is not there yet, or is empty
  std::vector<SideFile> files;                    // are put beside the weights
};

struct QuantizeResult {
  int64_t bytes_before = 0;  // of all tensors
  int64_t bytes_after = 0;
  int64_t num_quantized = 0;       // weights that became codes
  int64_t quantized_bytes = 0;     // what these take, scales included
  double relative_error = 0.0;     // sqrt(sum of (error of a weight)^2 / sum of weight^2) over all of them
  std::vector<std::string> kept;   // matrices of the layers that stay floats
  std::vector<std::string> notes;  // for the person who runs it
};

// Tokens that a sequence of the model may have.
int64_t longest_sequence(const Checkpoint& checkpoint);

// Called with the part of the work that is done, 0 to 1.
using QuantizeProgress = std::function<void(double)>;

// Throws Error: the method does not choose what the format stores, the model is quantized already, the
// directory holds something, the disk is too small, a weight is not finite. What was made is removed then.
QuantizeResult quantize_model(Checkpoint& checkpoint, const QuantizeOptions& options, ThreadPool& pool,
                              const QuantizeProgress& progress);

}  // namespace quire
