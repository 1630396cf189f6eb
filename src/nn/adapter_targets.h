// The weights of a loaded model that an adapter can change, by the names that its modules have in checkpoints
// and in transformers. Plain data, made from the description of a model (models/adapter_targets.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/row_layout.h"
#include "nn/source_rows.h"

namespace quire {

// The name with "{}" for its components of digits only: "layers.{}.mlp.experts.{}.up_proj" for
// "layers.3.mlp.experts.7.up_proj".
std::string without_numbers(std::string_view name);

// That pattern with the numbers, 3 and 7.
struct NumberedName {
  static constexpr size_t kMaxNumbers = 4;

  std::string pattern;
  std::array<int32_t, kMaxNumbers> numbers = {-1, -1, -1, -1};
  size_t count = 0;
};
// nullopt: there are more numbers than that, or larger ones than names of layers have.
std::optional<NumberedName> numbered_name(std::string_view name);

// A module that is a whole site and that an adapter can replace: an embedding, an output layer, a classifier,
// a norm.
struct WholeModule {
  std::string weight;   // the tensor in the checkpoint
  bool bias = false;    // there is one
  bool tied = false;    // the site is both the embedding and the output layer
  float offset = 0.0F;  // norms: added to the stored weights
};

// Rows of a site (nn/adapter.h) that are a matrix [rows, in] of the checkpoint. Norms: in is 0, and `site` is
// Norm::site.
struct AdapterRange {
  std::array<int32_t, NumberedName::kMaxNumbers> numbers = {-1, -1, -1, -1};  // in the module's name
  int32_t site = -1;
  int64_t out_begin = 0;  // first row
  int64_t rows = 0;
  int64_t in = 0;
  int64_t site_rows = 0;            // all rows of the site
  int64_t unit = 1;                 // rows that stay together, for example those of a head
  std::optional<RowLayout> layout;  // order of the checkpoint's rows; nullopt = as in the model
  std::optional<WholeModule> whole = std::nullopt;
  // The rows of the module that the site has, if it is computed from them; nullopt = all.
  std::optional<SourceRows> part = std::nullopt;
};

// The matrix [out, in] of a module in the checkpoint.
struct ModuleShape {
  int64_t out = 0;
  int64_t in = 0;
};
// ranges: those of one module, not empty.
ModuleShape module_shape(std::span<const AdapterRange> ranges);

// Kinds of modules. Only matrices, embeddings, and derived modules with ranges can have adapters.
enum class AdapterModuleKind : uint8_t {
  kMatrix,
  kStacked,    // a parameter with the matrices of all experts
  kStack,      // a module whose parameters are of that kind
  kEmbedding,  // of tokens; without ranges: of anything else
  kVector,
  kNorm,  // can be replaced only
  kGrouped,
  kDerived,  // matrices in memory are computed from it
  kShared
};

struct AdapterModule {
  AdapterModuleKind kind = AdapterModuleKind::kMatrix;
  // In order of the numbers. kMatrix, kEmbedding: one module may be in several ranges. kStacked: one for each
  // expert. kDerived: one for each matrix in memory.
  std::vector<AdapterRange> ranges;
  bool transposed = false;    // kStacked: transformers stores [experts, in, out], not [experts, out, in]
  bool named_weight = false;  // kStacked: it is the parameter "weight" of the module
  std::vector<std::string> parameters;  // kStack: their names, in the module's order
};

// Immutable once made, so that any thread may read it.
struct AdapterTargets {
  std::string architecture;           // the model's, for messages
  std::string model_type;             // as in config.json
  std::vector<std::string> prefixes;  // any of these may precede a name; the longest first
  std::map<std::string, AdapterModule, std::less<>> modules;  // by pattern, without a prefix
  // Patterns of modules that exist and that quire does not run; a final "*" stands for any rest.
  std::vector<std::string> unused;
  std::vector<int32_t> idle_layers;  // layers that compute nothing
  int32_t num_layers = 0;
  bool later_layers = false;                // those after num_layers exist and are not run
  std::vector<std::string> own_components;  // first components of names, if others belong to other inputs
                                            // (vision, audio); else empty
  int32_t num_sites = 0;
  int32_t num_norms = 0;
  // The checkpoint has divided the inputs of linear layers by factors for each channel (AWQ), so that
  // adapters of the original do not fit.
  bool scaled_inputs = false;
  bool from_gguf = false;  // the checkpoint is a GGUF file
  // Parts of the names of modules that have other values or another order in GGUF files than in other
  // checkpoints, so that an adapter must be in the form of the model's file. "" = all modules.
  std::vector<std::string> converted;
};

// The module of a name, which may have any prefix.
struct AdapterTarget {
  const AdapterModule* module = nullptr;  // null = unknown name
  std::span<const AdapterRange> ranges;   // those with the numbers of the name; may be empty
};
AdapterTarget find_target(const AdapterTargets& targets, std::string_view name);

// Whether the module exists but has no effect on what quire computes.
bool is_unused(const AdapterTargets& targets, std::string_view name);

}  // namespace quire
