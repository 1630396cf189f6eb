// The changes of an adapter to a model, from its configuration and the header of its file. Reads no data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "lora/adapter_file.h"
#include "lora/embedding_plan.h"
#include "lora/peft_config.h"
#include "lora/problems.h"
#include "lora/saved_plan.h"
#include "lora/token_plan.h"
#include "nn/adapter_targets.h"
#include "tensor/dtype.h"

namespace quire::lora {

// One module with a change B A of low rank.
struct PlannedModule {
  std::string name;                // as in the base, with its prefix
  TensorInfo a;                    // [rank, in]
  TensorInfo b;                    // [out, rank]
  std::optional<TensorInfo> bias;  // [out]
  int64_t rank = 0;
  int64_t in = 0;
  int64_t out = 0;
  float scale = 1.0F;
  // Number of experts whose matrices the module has, as a parameter of the form in lora/stacked_experts.h. 0
  // = the module is a single matrix.
  int64_t experts = 0;
  bool transposed = false;           // the change of each expert is
  std::vector<AdapterRange> ranges;  // empty without a model; experts: one for each
};

struct AdapterPlan {
  PeftConfig config;
  std::vector<PlannedModule> modules;  // by name
  std::vector<PlannedEmbedding> embeddings;
  std::vector<PlannedMatrix> saved;
  std::vector<PlannedBias> biases;
  std::vector<PlannedTokens> tokens;
  std::vector<PlannedNorm> norms;
  // Tensors of modules that exist and that quire does not run, by name.
  std::vector<std::string> without_effect;
  std::vector<std::string> warnings;
  Problems problems;

  // Whether nothing changes.
  bool empty() const {
    return modules.empty() && embeddings.empty() && saved.empty() && biases.empty() && tokens.empty() &&
           norms.empty();
  }
};

// targets: null = without a model, for what the files alone tell. max_rank: 0 = no limit. Throws Error if the
// configuration cannot be read at all; everything else is in `problems`.
AdapterPlan plan_adapter(const AdapterFile& file, const AdapterTargets* targets, int64_t max_rank);

// The pieces of one site, in order of rows. Adds to `problems` modules that change the same rows.
struct SitePlan {
  struct Piece {
    const PlannedModule* module = nullptr;
    const AdapterRange* range = nullptr;
    int64_t number = 0;  // index of the range, which is that of the expert
  };
  int32_t site = -1;
  DType dtype = DType::kF32;  // of A and B in memory: as stored, or float32 if the pieces differ
  bool has_bias = false;
  std::vector<Piece> pieces;

  // Bytes of the site in memory. The A of a module of derived matrices is in memory once for all of its rows,
  // and once for all transposed ones.
  int64_t bytes() const;
  int64_t a_bytes() const;
  int64_t b_bytes() const;
  int64_t bias_bytes() const;
};
// The result refers to the modules.
std::vector<SitePlan> plan_sites(const std::vector<PlannedModule>& modules, Problems& problems);

}  // namespace quire::lora
