// Reads LoRA adapters for a loaded model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/open_file.h"
#include "lora/load_saved.h"
#include "nn/adapter.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

struct AdapterSource {
  std::string name;            // in messages; may be empty
  std::filesystem::path path;  // a directory that PEFT wrote, or a GGUF file
};

struct AdapterLimits {
  int64_t max_rank = 0;  // 0 = no limit
  // The name of the base, which a warning compares with the one that the adapter was made for; empty = none.
  std::string base_name = {};
  // The file that was examined before; another one is refused.
  std::optional<FileIdentity> identity = std::nullopt;
};

// A module that the adapter changes.
struct AdapterModuleInfo {
  std::string name;
  std::string pattern;  // the name without_numbers()
  // "low_rank", "replaced" (a saved module), "bias" (a trained bias only) or "tokens" (trained tokens).
  std::string change = "low_rank";
  int64_t rank = 0;
  int64_t experts = 0;  // > 0: a parameter with the matrices of this many experts
  float scale = 1.0F;
  int64_t in = 0;  // tokens: their number
  int64_t out = 0;
  std::string dtype;  // of lora_A, or of the saved weight
  bool bias = false;
};

// The contents of an adapter by its configuration and its header. Plain data.
struct AdapterInfo {
  FileIdentity identity;
  std::string base_model;  // that it was made for; may be empty
  std::string peft_version;
  int64_t max_rank = 0;
  int64_t bytes = 0;  // in memory, once loaded; without a model, of the tensors in the file
  std::vector<AdapterModuleInfo> modules;  // by name
  std::vector<std::string>
      without_effect;                 // tensors of modules that quire does not run, or equal to the base's
  std::vector<std::string> warnings;  // complete clauses, for the log
};

// Reads the configuration and the header of the file only. targets: null = without a model, for what the
// files alone tell. An adapter that cannot be applied in full is a Failure with all problems: kNotFound if
// the path does not exist, else kInvalidArgument. Any thread.
Result<AdapterInfo> examine_adapter(const AdapterSource& source, const AdapterTargets* targets,
                                    const AdapterLimits& limits = {});

struct LoadedAdapter {
  std::shared_ptr<const AdapterWeights> adapter;
  AdapterInfo info;
};

// Reads everything. Memory is allocated only after the header has been checked against the file and the
// model. Fails as examine_adapter does, and if a value is not finite. Any thread.
Result<LoadedAdapter> load_adapter(const AdapterSource& source, const AdapterTargets& targets,
                                   const AdapterLimits& limits = {}, const AdapterBase& base = {});

}  // namespace quire::lora
