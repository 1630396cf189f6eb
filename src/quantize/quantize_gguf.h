// Converts a float checkpoint to a GGUF file that llama.cpp and tools based on it can load. Some rows of a
// tensor are in memory at a time; with calibration, one layer. Called by one thread, which works with the
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

// The type "q8_0" of "gguf-q8_0"; null if the type is unknown or cannot be written. gguf_formats lists all of
// them.
const GgmlType* gguf_target(std::string_view format);
std::vector<std::string> gguf_formats();

struct GgufOptions {
  const GgmlType* type = nullptr;  // type of the matrices
  std::filesystem::path output;    // a directory that does not exist yet or is empty
  std::string name;                // model name; the file is NAME-TYPE.gguf
  GgufMetadata tokenizer;
  Method method = Method::kNearest;  // kNearest, kGptq or kImportance
  GptqOptions gptq = {};
  std::vector<std::vector<int32_t>> calibration = {};  // token ids; each entry is a separate sequence
};

// Number of tokens that the tokenizer metadata must have: the rows of the embedding.
int64_t vocabulary_size(const Checkpoint& checkpoint);

// Throws Error if the architecture cannot be written as GGUF, and in the cases of quantize_model.
QuantizeResult quantize_gguf(Checkpoint& checkpoint, const GgufOptions& options, ThreadPool& pool,
                             const QuantizeProgress& progress);

}  // namespace quire
