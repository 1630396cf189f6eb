// adapter_config.json of PEFT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lora/problems.h"

namespace quire::lora {

// The keys that change the result of an adapter, with PEFT's defaults.
struct PeftConfig {
  int64_t r = 8;
  double alpha = 8.0;
  bool rslora = false;  // scales are alpha / sqrt(r), not alpha / r
  // The configuration of a GGUF file: ranks are those of the tensors, and alpha 0 stands for scales of 1.
  bool of_gguf = false;
  // By regular expression for the name of a module, in the order of the file.
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  // Ends of names, all of which have an adapter; empty if the modules are chosen in another way.
  std::vector<std::string> target_modules;
  std::vector<std::string> target_parameters;  // ends of names of parameters that have an adapter
  // trainable_token_indices: tokens by the end of a module's name; "" = the embedding of tokens.
  std::vector<std::pair<std::string, std::vector<int64_t>>> trained_tokens;
  std::vector<std::string> saved_modules;  // modules_to_save: ends of names
  std::string base_model;                  // base_model_name_or_path; may be empty
  std::string peft_version;                // may be empty
};

// Adds to `problems` each key that has a wrong type or value, whose effect is not supported, or that is
// unknown and set. Throws Error if the text is not a JSON object. `file` appears in that error.
PeftConfig parse_peft_config(std::string_view text, const std::string& file, Problems& problems);

}  // namespace quire::lora
