// The models of tests/golden/models, and the checks that hold for each of them with any op table.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "io/json_file.h"
#include "models/model.h"
#include "support/golden_checkpoint.h"
#include "unit/models/paged_runner.h"

namespace quire::test {

// The checkpoint of a model. QUIRE_GOLDEN_MODELS names another directory of the same models
// (tools/check_saved_again.py).
inline std::filesystem::path golden_model(const std::string& name) {
  if (const char* dir = std::getenv("QUIRE_GOLDEN_MODELS")) return std::filesystem::path(dir) / name;
  return golden_checkpoint("models/" + name);
}

inline std::filesystem::path quantized_model(const std::string& name) {
  return golden_checkpoint("quantized/" + name);
}

inline std::filesystem::path shared_dir() {
  const char* dir = std::getenv("QUIRE_SHARED");
  return dir != nullptr ? std::filesystem::path(dir)
                        : std::filesystem::path(QUIRE_SOURCE_DIR).parent_path() / "shared";
}

// Names of tests may have letters, digits and underscores only.
inline std::string test_name(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

struct LoadedModel {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Model> model;
};

inline LoadedModel load_model(std::unique_ptr<Checkpoint> checkpoint, const OpTable& ops,
                              const ModelOptions& options = {}, OpProfile* profile = nullptr) {
  LoadedModel loaded;
  loaded.checkpoint = std::move(checkpoint);
  Buffer workspace(ops.workspace_bytes(64, 256, 16, 64, 1));
  const OpContext ctx{nullptr, {workspace.data(), workspace.size()}, profile};
  loaded.model = Model::load(*loaded.checkpoint, ops, ctx, options, {});
  return loaded;
}

inline LoadedModel load_model(const std::filesystem::path& dir, const OpTable& ops,
                              const ModelOptions& options = {}, OpProfile* profile = nullptr) {
  return load_model(Checkpoint::open(dir), ops, options, profile);
}

inline double logprob(const std::vector<float>& logits, int32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(x - top);
  return logits[static_cast<size_t>(token)] - top - std::log(sum);
}

// Whether matrix products of the table round activations to bfloat16 for this model, because its weights are
// bfloat16.
inline bool rounds_activations(const std::string& name, const OpTable& ops) {
  return std::string_view(ops.name).ends_with("_bf16") && name.ends_with("-bfloat16");
}

// Expects logits and log-probabilities within 1e-4 of the largest, the greedy tokens, and the same bits in
// any chunking. Goldens have float32 activations, so the tolerance is larger if activations are rounded: to
// bfloat16 (relative error 2^-9), or to 16 bits with quantized weights (2^-15.9 of the maximum of a group).
// open: opens the model in another file format. set: "models" or "quantized".
inline void expect_golden(const std::string& name, const OpTable& ops,
                          const std::function<std::unique_ptr<Checkpoint>()>& open = {},
                          const std::string& set = "models", const ModelOptions& options = {}) {
  const std::filesystem::path dir = set == "models" ? golden_model(name) : quantized_model(name);
  const double tolerance = rounds_activations(name, ops)                               ? 5e-2
                           : options.quantized_activations == ActivationFormat::kInt16 ? 1e-3
                                                                                       : 1e-4;
  const OpTable checking = checked(ops);
  const LoadedModel loaded = load_model(open ? open() : Checkpoint::open(dir), checking, options);
  const nlohmann::json golden = read_json_file(dir / "golden.json");
  ASSERT_FALSE(golden["cases"].empty());
  for (const auto& item : golden["cases"]) {
    const auto prompt = item["prompt"].get<std::vector<int32_t>>();
    const auto expected = item["logits"].get<std::vector<float>>();
    const auto logprobs = item["logprobs"].get<std::vector<double>>();
    const auto tokens = item["greedy"].get<std::vector<int32_t>>();
    SCOPED_TRACE(name + ", prompt of " + std::to_string(prompt.size()));
    PagedRunner whole(*loaded.model, ops, nullptr, {});
    const auto logits = whole.append(prompt, static_cast<int64_t>(prompt.size()));

    float largest = 0.0F;
    for (const float x : expected) largest = std::max(largest, std::abs(x));
    ASSERT_EQ(logits.back().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(logits.back()[i], expected[i], tolerance * largest) << i;
    for (size_t i = 0; i < logprobs.size(); ++i) {
      ASSERT_NEAR(logprob(logits[i], prompt[i + 1]), logprobs[i], 2 * tolerance * largest) << i;
    }
    for (const int64_t chunk : {1, 7}) {
      RunnerOptions other;
      other.seed = static_cast<uint32_t>(chunk) + 100;
      PagedRunner chunked(*loaded.model, ops, nullptr, other);
      ASSERT_EQ(chunked.append(prompt, chunk), logits) << "chunks of " << chunk;
      PagedRunner again(*loaded.model, ops, nullptr, other);
      ASSERT_EQ(again.greedy(prompt, chunk, tokens.size()), tokens) << "chunks of " << chunk;
    }
  }
}

// The 200 tokens of shared/data/models/stories260K, exactly. `file`: the same model in another format.
inline void expect_stories(const OpTable& ops, const std::filesystem::path& file = {}) {
  const auto dir = shared_dir() / "data/models/stories260K";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << dir << " does not exist: stories260K was not run";
  const OpTable checking = checked(ops);
  const LoadedModel loaded = load_model(file.empty() ? dir : file, checking);
  const nlohmann::json expected = read_json_file(dir / "expected.json");
  const auto prompt = expected["prompt_token_ids"].get<std::vector<int32_t>>();
  const auto tokens = expected["token_ids"].get<std::vector<int32_t>>();
  PagedRunner runner(*loaded.model, ops, nullptr, {});
  EXPECT_EQ(runner.greedy(prompt, 16, tokens.size()), tokens);
}

// Expects the logits of the golden of W8A8 whose activations are rounded to int8 with one scale per token.
// With one scale for all tokens, or with several per token, logits differ by more than 20 times the
// tolerance.
inline void expect_token_scales(const OpTable& ops) {
  const std::filesystem::path dir = quantized_model("compressed-w8a8");
  const nlohmann::json cases = read_json_file(dir / "golden.json").at("rounded");
  ASSERT_GE(cases.size(), 3U);
  const LoadedModel loaded = load_model(dir, ops, {.quantized_activations = ActivationFormat::kInt8});
  for (const auto& item : cases) {
    const auto prompt = item["prompt"].get<std::vector<int32_t>>();
    const auto expected = item["logits"].get<std::vector<float>>();
    SCOPED_TRACE(item["prompt"].dump());
    PagedRunner runner(*loaded.model, ops, nullptr, {});
    const auto logits = runner.append(prompt, static_cast<int64_t>(prompt.size())).back();
    ASSERT_EQ(logits.size(), expected.size());
    float largest = 0.0F;
    for (const float x : expected) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4 * largest) << i;
  }
}

}  // namespace quire::test
