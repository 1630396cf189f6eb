// The names that modules have in transformers, for all models of tests/golden/models and
// tests/golden/pooling: each stands for rows of the loaded model with the same shape, or is in a list with a
// reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "io/gguf/gguf_checkpoint.h"
#include "models/adapter_targets.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"

namespace quire::test {
namespace {

using nlohmann::json;

// Modules that quire does not have, by a part of their pattern. Empty model = all models.
struct Exception {
  std::string_view model;
  std::string_view part;
  std::string_view reason;
};
constexpr std::array<Exception, 4> kExceptions = {{
    {"models/dbrx", ".ffn.experts.mlp.", "stacked as rows: for PEFT, one matrix with one change"},
    {"models/gpt_oss", "_proj_bias", "biases of stacked experts"},
    {"models/mllama", ".cross_attn.", "layers of cross-attention have no effect without an image"},
    {"models/kimi_linear-default-layers", ".self_attn.q_proj",
     "its layers with latent attention have q_b_proj instead, whose other name this is"},
}};

bool is_exception(std::string_view model, std::string_view pattern) {
  return std::ranges::any_of(kExceptions, [&](const Exception& exception) {
    return model.starts_with(exception.model) && pattern.find(exception.part) != std::string_view::npos;
  });
}

// The module of a pattern, which may have a prefix.
const AdapterModule* find_pattern(const AdapterTargets& targets, std::string_view pattern) {
  for (const std::string& prefix : targets.prefixes) {
    if (!pattern.starts_with(prefix)) continue;
    const auto at = targets.modules.find(pattern.substr(prefix.size()));
    if (at != targets.modules.end()) return &at->second;
  }
  return nullptr;
}

// Parameters are listed with their own names.
std::string without_weight(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

// A name that the pattern stands for.
std::string example(std::string pattern) {
  for (size_t at = pattern.find("{}"); at != std::string::npos; at = pattern.find("{}"))
    pattern.replace(at, 2, "0");
  return pattern;
}

std::string problem_of(const AdapterTargets& targets, const std::string& kind, const std::string& name,
                       const std::vector<int64_t>& shape) {
  const bool pattern = name.find("{}") != std::string::npos;
  const AdapterTarget target = find_target(targets, name);
  const AdapterModule* module = pattern ? find_pattern(targets, name) : target.module;
  if (module == nullptr) return is_unused(targets, example(name)) ? "" : "is not known";
  const bool stacked = module->kind == AdapterModuleKind::kStacked;
  const bool embedding = module->kind == AdapterModuleKind::kEmbedding;
  if (module->kind == AdapterModuleKind::kDerived && !pattern && !target.ranges.empty()) {
    const ModuleShape own = module_shape(target.ranges);
    return shape == std::vector<int64_t>{own.out, own.in} ? "" : "has another shape";
  }
  if (module->kind != AdapterModuleKind::kMatrix && !stacked && !embedding) {
    return kind == "linear" && module->kind == AdapterModuleKind::kVector ? "is not a matrix" : "";
  }
  if (embedding != (kind == "embedding")) return embedding ? "is an embedding" : "is not an embedding";
  const auto ranges = pattern ? std::span<const AdapterRange>(module->ranges) : target.ranges;
  if (ranges.empty()) return embedding ? "" : "has no place";  // positions and types of tokens
  for (const AdapterRange& place : ranges) {
    if (stacked) {
      const std::array<int64_t, 2> stored = {place.rows, place.in};
      if (shape.size() != 3 || shape[module->transposed ? 2 : 1] != stored[0] ||
          shape[module->transposed ? 1 : 2] != stored[1])
        return cat("has other shapes than [", stored[0], ", ", stored[1], "]");
      continue;
    }
    if (shape != std::vector<int64_t>{place.rows, place.in})
      return cat("is [", shape[0], ", ", shape.size() > 1 ? shape[1] : 0, "], its place [", place.rows, ", ",
                 place.in, "]");
  }
  return "";
}

json golden_modules() {
  return read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/lora/modules.json")
      .at("models");
}

// Expects that all modules of a model in transformers are found. Returns their number.
size_t expect_all(const std::string& model, const json& kinds, const AdapterTargets& targets) {
  size_t found = 0;
  for (const auto& [kind, modules] : kinds.items()) {
    for (const auto& [name, shape] : modules.items()) {
      if (is_exception(model, name)) continue;
      EXPECT_EQ(problem_of(targets, kind, without_weight(name), shape.get<std::vector<int64_t>>()), "")
          << model << ": " << kind << " " << name;
      ++found;
    }
  }
  return found;
}

TEST(AdapterNames, FindAllModulesOfTransformersWithTheirShape) {
  size_t found = 0;
  const json all = golden_modules();
  for (const auto& [model, kinds] : all.items()) {
    const auto checkpoint = Checkpoint::open(golden_checkpoint(model));
    const ModelSpec spec = read_spec(*checkpoint, Runner::kAuto);
    found += expect_all(model, kinds, adapter_targets(*checkpoint, spec));
  }
  EXPECT_GT(found, 2700U);
}

TEST(AdapterNames, FindThemInGgufFilesToo) {
  const json all = golden_modules();
  const json files = gguf_goldens("models");
  size_t found = 0;
  for (const auto& [name, file] : files.items()) {
    const std::string bytes = make_gguf(file, golden_model(name));
    const auto checkpoint = gguf_from_memory(std::as_bytes(std::span(bytes.data(), bytes.size())), "m.gguf");
    const ModelSpec spec = read_spec(*checkpoint, Runner::kAuto);
    const std::string model = "models/" + name;
    found += expect_all(model, all.at(model), adapter_targets(*checkpoint, spec));
  }
  EXPECT_GT(found, 500U);
}

}  // namespace
}  // namespace quire::test
