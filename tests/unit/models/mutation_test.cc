// Nothing is ignored silently: a checkpoint with one change, in a field of its config.json, in the metadata
// of a GGUF file or in a tensor, either computes something else, or a message says why not: an error, a
// warning, or the table of fields without effect.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "io/config_fields.h"
#include "io/gguf/gguf_checkpoint.h"
#include "ops/reference.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using nlohmann::json;
using test::EditedCheckpoint;

// The results of a model.
struct Outcome {
  std::string error;
  std::string settings;  // length, token ids and labels
  std::vector<std::string> warnings;
  std::vector<std::vector<float>> values;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome_of(const std::function<std::unique_ptr<Checkpoint>()>& open) {
  constexpr int32_t kTokens = 40;
  Outcome out;
  try {
    const auto checkpoint = open();
    const auto model = Model::load(*checkpoint, reference_ops(), {}, {}, {});
    const ModelSpec& spec = model->spec();
    out.warnings = spec.warnings;
    out.settings = cat(spec.max_model_len, " ", spec.bos_token_id.value_or(-1));
    for (const int32_t id : spec.eos_token_ids) out.settings += cat(" ", id);
    for (const std::string& label : spec.labels) out.settings += " " + label;
    std::vector<int32_t> prompt;
    const auto limit = static_cast<int32_t>(std::min<int64_t>(spec.vocab_size, 90));
    for (int32_t i = 0; i < kTokens; ++i) prompt.push_back((i * 37 + 5) % limit);
    test::PagedRunner runner(*model, reference_ops(), nullptr, {});
    out.values = model->pooler() != nullptr ? runner.append_hidden(prompt) : runner.append(prompt, kTokens);
  } catch (const Error& error) {
    out.error = error.what();
  }
  return out;
}

Outcome outcome_of(EditedCheckpoint& edited) {
  return outcome_of([&] { return edited.open(); });
}

Outcome outcome_of_gguf(const std::string& file) {
  return outcome_of([&] { return gguf_from_memory(std::as_bytes(std::span(file)), "edited.gguf"); });
}

bool names(const Outcome& outcome, const std::string& field) {
  return std::ranges::any_of(outcome.warnings, [&](const std::string& warning) {
    return warning.find("'" + field + "'") != std::string::npos;
  });
}

// Other values of the same kind.
std::vector<json> other_values(const json& value) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {value.get<int64_t>() + 1, value.get<int64_t>() * 2 + 3, 1};
  if (value.is_number()) return {value.get<double>() * 1.5 + 0.125, value.get<double>() * 0.5};
  if (value.is_string()) return {value.get<std::string>() + "_other"};
  if (!value.is_array() || value.empty()) return {};
  json shorter = value;
  shorter.erase(shorter.size() - 1);
  std::vector<json> all = {shorter};
  for (const json& first : other_values(value.front())) {
    all.push_back(value);
    all.back().front() = first;
  }
  return all;
}

// The fields of an object and of the objects within it, as JSON pointers.
void list_fields(const json& object, const json::json_pointer& at, std::vector<json::json_pointer>& all) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && !value.empty()) {
      list_fields(value, at / key, all);
    } else if (!value.is_null()) {
      all.push_back(at / key);
    }
  }
}

bool is_in_table(const json::json_pointer& field, const json& value, const std::string& model_type) {
  std::string path = field.to_string().substr(1);
  std::ranges::replace(path, '/', '.');
  if (path.starts_with("label2id.") || path.starts_with("id2label.")) path.resize(8);
  constexpr std::string_view kQuantization = "quantization_config.";
  if (path.starts_with(kQuantization))
    return has_no_effect(ConfigFile::kQuantization, std::string_view(path).substr(kQuantization.size()),
                         value);
  return has_no_effect(ConfigFile::kModel, path, value, model_type);
}

// Fields whose effect a small model does not show, with the reason.
const std::map<std::string, std::string> kTooSmall = {
    {"models/gpt_oss:/rope_scaling/beta_fast", "all frequencies of a small head are on one side of the ramp"},
    {"models/gpt_oss:/rope_scaling/beta_slow", "the same"},
    {"models/gpt_oss:/rope_scaling/truncate", "the same"},
};

// Tensors without effect, by the end of their name.
struct Unneeded {
  std::string_view model;
  std::string_view suffix;
  std::string_view reason;
};
constexpr Unneeded kUnneeded[] = {
    {"quantized/gptq-4bit-act-order", ".qzeros", "symmetric values have their zero point in the middle"},
    {"quantized/compressed-w4a16-zeros", ".weight_shape", "a second one is not read"},
};

class Mutation : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { expected_ = outcome_of(edited_); }

  const std::string name_ = GetParam();
  EditedCheckpoint edited_{test::golden_checkpoint(name_)};
  Outcome expected_;
};

TEST_P(Mutation, ChangesTheResultOrIsExplainedForFields) {
  ASSERT_EQ(expected_.error, "");
  const json original = edited_.config;
  std::vector<json::json_pointer> fields;
  list_fields(original, json::json_pointer(), fields);
  ASSERT_GT(fields.size(), 8U);
  for (const json::json_pointer& field : fields) {
    const json& value = original.at(field);
    bool shown = kTooSmall.contains(cat(name_, ":", field.to_string()));
    for (const json& other : other_values(value)) {
      if (shown || other == value) continue;
      edited_.config = original;
      edited_.config[field] = other;
      shown = outcome_of(edited_) != expected_ || is_in_table(field, other, original.value("model_type", ""));
    }
    EXPECT_TRUE(shown || value.empty()) << field << " has no effect: " << value;
  }
}

TEST_P(Mutation, IsNoticedInNamesOfFields) {
  const json original = edited_.config;
  for (const auto& [key, value] : original.items()) {
    if (value.is_null() || value.empty()) continue;
    edited_.config = original;
    edited_.config.erase(key);
    edited_.config["zz_" + key] = value;
    const Outcome outcome = outcome_of(edited_);
    EXPECT_TRUE(names(outcome, "zz_" + key) || !outcome.error.empty() ||
                has_no_effect(ConfigFile::kModel, "zz_" + key, value))
        << key;
  }
}

TEST_P(Mutation, ChangesTheResultOrIsExplainedForTensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : edited_.tensors) names.push_back(name);
  for (const std::string& name : names) {
    auto taken = edited_.tensors.extract(name);
    const bool unneeded = std::ranges::any_of(
        kUnneeded, [&](const Unneeded& row) { return row.model == name_ && name.ends_with(row.suffix); });
    EXPECT_TRUE(unneeded || outcome_of(edited_) != expected_) << name << " was dropped";
    for (const std::string& other : {name + "_other", "other." + name}) {
      taken.key() = other;
      auto at = edited_.tensors.insert(std::move(taken)).position;
      EXPECT_TRUE(outcome_of(edited_) != expected_) << name << " was renamed to " << other;
      taken = edited_.tensors.extract(at);
    }
    taken.key() = name;
    const auto copy = edited_.tensors.insert(std::move(taken)).position->second;
    const std::string second = name.starts_with("model.") ? name.substr(6) : "model." + name;
    edited_.tensors.emplace(second, copy);
    EXPECT_TRUE(unneeded || outcome_of(edited_) != expected_)
        << name << " is in the file as " << second << ", too";
    edited_.tensors.erase(second);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Mutation,
                         testing::Values("models/llama", "models/llama-untied", "models/llama-rope-yarn",
                                         "models/qwen2-window", "models/gemma3", "models/mixtral",
                                         "models/deepseek_v3", "models/gpt2", "models/mamba2",
                                         "models/gpt_oss", "pooling/bert-classifier",
                                         "quantized/gptq-4bit-act-order", "quantized/compressed-w4a16-zeros",
                                         "quantized/fp8-blocks"),
                         [](const auto& test) { return test::test_name(test.param); });

// Entries of the metadata whose effect a small model does not show, with the reason.
const std::map<std::string, std::string> kMetadataTooSmall = {
    {"gpt-oss.rope.scaling.yarn_beta_fast", "all frequencies of a small head are on one side of the ramp"},
    {"gpt-oss.rope.scaling.yarn_beta_slow", "the same"},
    {"qwen3next.rope.freq_base", "the only pair that is rotated has the frequency 1"},
};

class GgufMutation : public testing::TestWithParam<const char*> {
 protected:
  std::string file_with(const json& metadata) const {
    json model = golden_;
    model["metadata"] = metadata;
    return test::make_gguf(model, test::golden_model(GetParam()));
  }

  const json golden_ = test::gguf_goldens("models")[GetParam()];
  const json metadata_ = golden_["metadata"];
  const Outcome expected_ = outcome_of_gguf(file_with(metadata_));
};

TEST_P(GgufMutation, ChangesTheResultOrIsExplainedForMetadata) {
  ASSERT_EQ(expected_.error, "");
  const auto architecture = metadata_[0][2].get<std::string>();
  for (size_t i = 1; i < metadata_.size(); ++i) {
    const auto key = metadata_[i][0].get<std::string>();
    bool shown = kMetadataTooSmall.contains(key);
    for (const json& other : other_values(metadata_[i][2])) {
      if (shown || other == metadata_[i][2]) continue;
      json changed = metadata_;
      changed[i][2] = other;
      shown = outcome_of_gguf(file_with(changed)) != expected_ ||
              has_no_effect(ConfigFile::kGguf, key, other, architecture);
    }
    EXPECT_TRUE(shown) << key << " has no effect: " << metadata_[i][2];
  }
}

TEST_P(GgufMutation, IsNoticedInNamesOfMetadata) {
  for (size_t i = 1; i < metadata_.size(); ++i) {
    const auto key = metadata_[i][0].get<std::string>();
    const size_t name = key.find('.') + 1;
    const std::string other = cat(key.substr(0, name), "zz_", key.substr(name));
    json changed = metadata_;
    changed[i][0] = other;
    const Outcome outcome = outcome_of_gguf(file_with(changed));
    EXPECT_TRUE(names(outcome, other) || !outcome.error.empty()) << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, GgufMutation,
                         testing::Values("llama", "gemma2", "deepseek_v3", "granite", "mixtral",
                                         "mamba2-any-steps", "gpt_oss", "qwen3_next-all-experts", "lfm2_moe",
                                         "mpt"),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
