// The names that modules have in transformers, for all models of tests/golden/models: each is a place of the
// loaded model with the same shape, or is in a list with a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "models/adapter_targets.h"
#include "unit/models/golden_models.h"

namespace quire::test {
namespace {

// Modules that quire does not have, by a part of their pattern. Empty model = all models.
struct Exception {
  std::string_view model;
  std::string_view part;
  std::string_view reason;
};
constexpr std::array<Exception, 3> kExceptions = {{
    {"gpt_oss", "_proj_bias", "biases of stacked experts"},
    {"mllama", ".cross_attn.", "layers of cross-attention have no effect without an image"},
    {"kimi_linear-default-layers", ".self_attn.q_proj",
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
  if (is_unused(targets, example(name))) return "";
  const bool pattern = name.find("{}") != std::string::npos;
  const AdapterTarget target = find_target(targets, name);
  const AdapterModule* module = pattern ? find_pattern(targets, name) : target.module;
  if (module == nullptr) return "is not known";
  if (module->kind != AdapterModuleKind::kMatrix) {
    if (kind == "embedding" && module->kind != AdapterModuleKind::kEmbedding) return "is not an embedding";
    return kind == "linear" && module->kind == AdapterModuleKind::kVector ? "is not a matrix" : "";
  }
  if (kind == "embedding") return "is not an embedding";
  const auto ranges = pattern ? std::span<const AdapterRange>(module->ranges) : target.ranges;
  if (ranges.empty()) return "has no place";
  for (const AdapterRange& place : ranges) {
    if (shape != std::vector<int64_t>{place.rows, place.in})
      return cat("is [", shape[0], ", ", shape.size() > 1 ? shape[1] : 0, "], its place [", place.rows, ", ",
                 place.in, "]");
  }
  return "";
}

TEST(AdapterNames, AllModulesOfTransformersResolveToAPlaceOfTheirShape) {
  const auto golden =
      read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/lora/modules.json");
  size_t resolved = 0;
  for (const auto& [model, kinds] : golden.at("models").items()) {
    const auto checkpoint = Checkpoint::open(golden_model(model));
    const AdapterTargets targets = adapter_targets(*checkpoint, Runner::kAuto);
    for (const auto& [kind, modules] : kinds.items()) {
      for (const auto& [name, shape] : modules.items()) {
        if (is_exception(model, name)) continue;
        const std::string problem =
            problem_of(targets, kind, without_weight(name), shape.get<std::vector<int64_t>>());
        EXPECT_EQ(problem, "") << model << ": " << kind << " " << name;
        ++resolved;
      }
    }
  }
  EXPECT_GT(resolved, 2300U);
}

}  // namespace
}  // namespace quire::test
