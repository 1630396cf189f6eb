// Fields that quire does not read: which are named in a warning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "io/config_fields.h"
#include "io/gguf/gguf_checkpoint.h"
#include "models/pooling_files.h"
#include "unit/models/config_testing.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using test::json;
using test::llama;
using test::with;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> warnings_for(const nlohmann::json& changes) {
  return parse_model(with(llama(), changes)).warnings;
}

std::vector<std::string> warnings_of(const Checkpoint& checkpoint) {
  return read_spec(checkpoint, Runner::kAuto).warnings;
}

TEST(ConfigWarnings, NameTheFieldsThatAreUnknown) {
  EXPECT_THAT(warnings_for({{"attention_sink_bias", true}}),
              ElementsAre(AllOf(HasSubstr("config.json: 'attention_sink_bias' is unknown"),
                                HasSubstr("has no effect"))));
  EXPECT_THAT(warnings_for({{"zebra", 0.5}, {"hidden_size_x", 64}, {"apple", "red"}}),
              ElementsAre(HasSubstr(
                  "'apple', 'hidden_size_x' and 'zebra' are unknown or not supported and have no")));
  EXPECT_THAT(warnings_for({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"sharpness", 2}}}}),
              ElementsAre(HasSubstr("'rope_scaling.sharpness' is")));
}

TEST(ConfigWarnings, ListAtMostTwelveFields) {
  json changes = json::object();
  for (int i = 0; i < 15; ++i) changes[cat("x", 100 + i)] = 1;
  EXPECT_THAT(warnings_for(changes),
              ElementsAre(AllOf(HasSubstr("'x111' and 3 more are"), Not(HasSubstr("x112")))));
}

TEST(ConfigWarnings, AreNotGivenForFieldsThatSayNothing) {
  EXPECT_THAT(warnings_for({{"transformers_version", "5.0"},
                            {"torch_dtype", "bfloat16"},
                            {"_name_or_path", "x"},
                            {"use_cache", true},
                            {"attention_dropout", 0.1},
                            {"no_such_field", nullptr},
                            {"no_such_list", json::array()},
                            {"is_encoder_decoder", false},
                            {"repetition_penalty", 1.0}}),
              IsEmpty());
}

TEST(ConfigWarnings, DependOnTheValueOfFieldsWithANeutralOne) {
  EXPECT_THAT(warnings_for({{"repetition_penalty", 1.2}}), ElementsAre(HasSubstr("'repetition_penalty' is")));
  EXPECT_THAT(warnings_for({{"add_cross_attention", true}}),
              ElementsAre(HasSubstr("'add_cross_attention' is")));
}

TEST(ConfigWarnings, AreForTheLanguageModelOfAMultimodalOne) {
  json config = {{"architectures", {"LlavaForConditionalGeneration"}},
                 {"vision_config", {{"hidden_size", 3}}},
                 {"projector_hidden_act", "gelu"},
                 {"text_config", with(llama(), {{"model_type", "llama"}, {"swoosh", 1}})}};
  EXPECT_THAT(parse_model(config).warnings, ElementsAre(HasSubstr("'text_config.swoosh' is")));
}

TEST(ConfigWarnings, NameFieldsOfTheQuantization) {
  test::EditedCheckpoint edited(test::quantized_model("gptq-4bit"));
  EXPECT_THAT(warnings_of(*edited.open()), IsEmpty());
  edited.config["quantization_config"]["rotation"] = "hadamard";
  edited.config["quantization_config"]["damp_percent"] = 0.01;
  EXPECT_THAT(warnings_of(*edited.open()),
              ElementsAre(HasSubstr("config.json: 'quantization_config.rotation' is")));
}

// A field that is not in the table of fields_without_effect.cc and that the architecture does not read is an
// omission in one of them.
TEST(ConfigWarnings, AreNotGivenForTheGoldenModels) {
  for (const std::string set : {"models", "quantized", "pooling"}) {
    for (const std::string& name : test::golden_names(set)) {
      const auto checkpoint = Checkpoint::open(test::golden_checkpoint(cat(set, "/", name)));
      EXPECT_THAT(warnings_of(*checkpoint), IsEmpty()) << set << "/" << name;
    }
  }
}

TEST(ConfigWarnings, AreNotGivenForGgufFiles) {
  for (const std::string set : {"models", "pooling"}) {
    const nlohmann::json goldens = test::gguf_goldens(set);
    for (const auto& [name, golden] : goldens.items()) {
      const std::string file = test::make_gguf(golden, test::golden_checkpoint(cat(set, "/", name)));
      const auto checkpoint = gguf_from_memory(std::as_bytes(std::span(file)), name + ".gguf");
      EXPECT_THAT(warnings_of(*checkpoint), IsEmpty()) << set << "/" << name;
    }
  }
}

// The warnings for a golden model's GGUF file with further metadata.
std::vector<std::string> gguf_warnings(const std::string& model, std::vector<json> more) {
  json golden = test::gguf_goldens("models")[model];
  for (json& entry : more) golden["metadata"].push_back(std::move(entry));
  const std::string file = test::make_gguf(golden, test::golden_model(model));
  return warnings_of(*gguf_from_memory(std::as_bytes(std::span(file)), "m.gguf"));
}

TEST(GgufWarnings, NameMetadataThatNothingReads) {
  EXPECT_THAT(
      gguf_warnings("llama", {{"llama.attention.sinks", {"BOOL"}, true}}),
      ElementsAre(AllOf(HasSubstr("m.gguf: 'llama.attention.sinks' is unknown"), HasSubstr("no effect"))));
  EXPECT_THAT(gguf_warnings("llama", {{"llama.logit_scale", {"FLOAT32"}, 0.5},
                                      {"general.sampling.penalty_last_n", {"INT32"}, 64}}),
              ElementsAre(HasSubstr("'general.sampling.penalty_last_n' and 'llama.logit_scale' are")));
}

// The readers copy these into fields that Llama does not have.
TEST(GgufWarnings, NameMetadataThatAnArchitectureDoesNotUse) {
  EXPECT_THAT(gguf_warnings("llama", {{"llama.attention.layer_norm_epsilon", {"FLOAT32"}, 0.5}}),
              ElementsAre(HasSubstr("'llama.attention.layer_norm_epsilon' is")));
  EXPECT_THAT(gguf_warnings("llama", {{"llama.attention.clamp_kqv", {"FLOAT32"}, 8.0}}),
              ElementsAre(HasSubstr("'llama.attention.clamp_kqv' is")));
  EXPECT_THAT(gguf_warnings("olmo", {{"olmo.attention.clamp_kqv", {"FLOAT32"}, 8.0}}), IsEmpty());
}

TEST(GgufWarnings, DependOnTheValue) {
  const auto rotated = [](int size) {
    json golden = test::gguf_goldens("models")["llama"];
    for (json& entry : golden["metadata"]) {
      if (entry[0] == "llama.rope.dimension_count") entry[2] = size;
    }
    const std::string file = test::make_gguf(golden, test::golden_model("llama"));
    return warnings_of(*gguf_from_memory(std::as_bytes(std::span(file)), "m.gguf"));
  };
  EXPECT_THAT(rotated(2), ElementsAre(HasSubstr("'llama.rope.dimension_count' is")));
  EXPECT_THAT(gguf_warnings("llama", {{"general.sampling.penalty_last_n", {"INT32"}, -1},
                                      {"general.sampling.mirostat", {"UINT32"}, 2},
                                      {"general.sampling.sequence", {"STRING"}, "top_k;temperature"},
                                      {"llama.attention.causal", {"BOOL"}, true}}),
              IsEmpty());
  EXPECT_THAT(gguf_warnings("llama", {{"llama.attention.causal", {"BOOL"}, false}}),
              ElementsAre(HasSubstr("'llama.attention.causal' is")));
}

TEST(GgufWarnings, AreNotGivenForNotesOfTheFile) {
  EXPECT_THAT(gguf_warnings("llama", {{"general.quantized_by", {"STRING"}, "a user"},
                                      {"general.license.link", {"STRING"}, "https://example.org"},
                                      {"quantize.imatrix.chunks_count", {"INT32"}, 128},
                                      {"publisher.remarks", {"STRING"}, "none"},
                                      {"llama.tensor_data_layout", {"STRING"}, "Meta AI original pth"}}),
              IsEmpty());
}

TEST(ConfigWarnings, AreNotGivenForSharedModels) {
  const auto dir = test::shared_dir() / "data/models/stories260K";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << dir << " does not exist";
  EXPECT_THAT(warnings_of(*Checkpoint::open(dir)), IsEmpty());
  EXPECT_THAT(warnings_of(*Checkpoint::open(dir.string() + ".gguf")), IsEmpty());
}

TEST(FieldsWithoutEffect, HaveAReasonAndAValidValue) {
  for (const FieldWithoutEffect& row : fields_without_effect()) {
    EXPECT_FALSE(row.reason.empty()) << row.field;
    EXPECT_TRUE(row.value.empty() || nlohmann::json::accept(row.value)) << row.field;
  }
}

}  // namespace
}  // namespace quire
