// What the files that sentence-transformers writes beside a model say: how a text becomes one vector, and
// what is put before it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "models/arch_spec.h"

namespace quire {

// What a model is started for.
enum class Runner : uint8_t { kAuto, kGenerate, kPooling };
// "auto", "generate", "pooling". Throws Error naming them.
Runner runner_from_name(const std::string& name);

// A linear layer behind the pooling, with its own file.
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
  std::vector<PoolKind> pooling;  // empty: there is no such module
  std::vector<DenseModule> dense;
  bool normalize = false;
  std::optional<std::array<int32_t, 2>> score_tokens;  // ArchSpec::score_tokens
  int64_t max_length = 0;                              // tokens of a text; 0: not said
};

// None: the checkpoint has no modules.json. Throws Error naming the file and field of what is broken or not
// supported.
std::optional<PoolingFiles> read_pooling_files(const Checkpoint& checkpoint);

// Texts that are put before others, by name, and the name of the one that is put where none is asked for.
struct PromptFiles {
  std::map<std::string, std::string> prompts;
  std::string default_name;  // empty: none
};
PromptFiles read_prompts(const Checkpoint& checkpoint);

// parse_arch(), and what its other files and the runner make of it. Throws Error where the model cannot do
// what the runner says.
ArchSpec read_spec(const Checkpoint& checkpoint, Runner runner);

}  // namespace quire
