// From a checkpoint of floats to a GGUF file that llama.cpp and what is built on it load too. Some rows
// of a tensor are in memory at a time; with calibration a layer. Called by one thread, which works with the
// pool.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "io/checkpoint.h"
#include "io/gguf/gguf_writer.h"
#include "quantize/quantize_model.h"

namespace quire {

// "q8_0" of "gguf-q8_0"; null where the name is of no type that is written. All of them, for messages.
const GgmlType* gguf_target(std::string_view format);
std::vector<std::string> gguf_formats();

struct GgufOptions {
  const GgmlType* type = nullptr;  // of the matrices
  std::filesystem::path output;    // a directory that is not there yet, or is empty
  std::string name;                // of the model: the file is NAME-TYPE.gguf
  GgufMetadata tokenizer;
  Method method = Method::kNearest;  // or kGptq, kImportance
  GptqOptions gptq = {};
  std::vector<std::vector<int32_t>> calibration = {};  // token ids, each a sequence of its own
};

// The number of tokens that the tokenizer's keys must have: the rows of the embedding.
int64_t vocabulary_size(const Checkpoint& checkpoint);

// Throws Error: no GGUF files are written of the architecture, and as quantize_model does.
QuantizeResult quantize_gguf(Checkpoint& checkpoint, const GgufOptions& options, ThreadPool& pool,
                             const QuantizeProgress& progress);

}  // namespace quire
