// Describes a LoRA adapter, alone or for a base model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/engine_config.h"

namespace quire {

// Modules of several layers with the same name and the same kind of change.
struct AdapterModulesReport {
  std::string name;  // with {} for the numbers: "model.layers.{}.self_attn.q_proj"
  int64_t modules = 0;
  std::string change;  // as in lora::AdapterModuleInfo
  int64_t rank = 0;
  int64_t experts = 0;  // > 0: each is a parameter with the matrices of this many experts
  float scale = 1.0F;
  int64_t in_features = 0;
  int64_t out_features = 0;
  std::string dtype;
  bool bias = false;  // lora_bias
};

struct AdapterReport {
  std::string path;
  std::string made_for;      // base_model_name_or_path; may be empty
  std::string peft_version;  // may be empty
  std::string model;         // the base that it was compared with; empty = none
  std::string digest;        // content digest for this base; empty without a base
  int64_t max_rank = 0;
  int64_t bytes = 0;        // in memory; without a base, of the tensors in the file
  int64_t num_modules = 0;  // changed ones
  std::vector<AdapterModulesReport> modules;
  std::vector<std::string> without_effect;  // tensors
  std::vector<std::string> warnings;
};

// Whether the path is a directory with an adapter and without a model.
bool is_adapter(const std::string& path);

// base: its model and how to run it; null = none. Throws Error with all problems if the adapter cannot be
// applied in full.
AdapterReport inspect_adapter(const std::string& path, const EngineConfig* base);

}  // namespace quire
