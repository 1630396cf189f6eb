// The files of sentence-transformers next to a checkpoint, which configure pooling and prompts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "models/model_spec.h"

namespace quire {

// The task that a model is started for (--runner).
enum class Runner : uint8_t { kAuto, kGenerate, kPooling };
// name: "auto", "generate" or "pooling". Throws Error that lists them for any other name.
Runner runner_from_name(const std::string& name);

// A dense layer after the pooling, with a file of its own.
struct DenseModule {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  std::optional<Activation> activation;
  bool tanh = false;
  std::string weights;  // a safetensors file
  std::string file;     // its name, for errors
};

struct PoolingFiles {
  std::vector<PoolKind> pooling;  // empty = no pooling module
  std::vector<DenseModule> dense;
  bool normalize = false;
  std::optional<std::array<int32_t, 2>> score_tokens;  // ModelSpec::score_tokens
  int64_t max_length = 0;                              // maximum number of tokens; 0 = not specified
  std::vector<std::string> warnings;                   // ModelSpec::warnings
};

// Returns nullopt if the checkpoint has no modules.json. Throws Error with file and field if a file is
// invalid or not supported.
std::optional<PoolingFiles> read_pooling_files(const Checkpoint& checkpoint);

// Prompts that are put before texts, by name, and the name of the default prompt.
struct PromptFiles {
  std::map<std::string, std::string> prompts;
  std::string default_name;  // empty = none
};
PromptFiles read_prompts(const Checkpoint& checkpoint);

// parse_model(), with the settings of the pooling files and the runner. Throws Error if the runner does not
// fit the model.
ModelSpec read_spec(const Checkpoint& checkpoint, Runner runner);

}  // namespace quire
