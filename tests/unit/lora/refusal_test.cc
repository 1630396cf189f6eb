// Errors about adapters, which name the tensor or the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <limits>

#include "lora/name_patterns.h"
#include "unit/lora/lora_testing.h"

namespace quire::lora {
namespace {

using test::AdapterFiles;
using test::counting;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kLayer = AdapterFiles::kLayer;

std::string refusal_of_source(const AdapterSource& source, ErrorKind kind = ErrorKind::kInvalidArgument) {
  const auto loaded = load_adapter(source, test::small_model());
  if (loaded.ok()) {
    ADD_FAILURE() << "it was loaded";
    return "";
  }
  EXPECT_EQ(loaded.failure().kind, kind);
  return loaded.failure().message;
}

TEST(AdapterFile, MustExist) {
  const AdapterFiles files;
  const std::string missing = (files.path() / "none").string();
  EXPECT_EQ(refusal_of_source({"sql", missing}, ErrorKind::kNotFound),
            "adapter 'sql' (" + missing + "): does not exist");
}

TEST(AdapterFile, MustHaveAConfigurationAndWeights) {
  const AdapterFiles files;
  EXPECT_THAT(refusal_of_source(files.source()), HasSubstr("has no adapter_config.json"));
  files.write("adapter_config.json", "{}");
  EXPECT_THAT(refusal_of_source(files.source()), HasSubstr("has no adapter_model.safetensors"));
}

TEST(AdapterFile, IsADirectoryOrAGgufFile) {
  const AdapterFiles files;
  files.write("adapter.gguf", "PK");
  files.write("adapter.bin", "PK");
  EXPECT_THAT(refusal_of_source({"sql", files.path() / "adapter.gguf"}), HasSubstr("is not a GGUF file"));
  EXPECT_THAT(refusal_of_source({"sql", files.path() / "adapter.bin"}), HasSubstr("is neither a directory"));
}

TEST(AdapterFile, IsNotAPickle) {
  const AdapterFiles files;
  files.write("adapter_config.json", "{}");
  files.write("adapter_model.bin", "PK");
  EXPECT_THAT(refusal_of_source(files.source()), HasSubstr("convert it to safetensors"));
}

TEST(AdapterFile, IsNotAPipe) {
  const AdapterFiles files;
  files.write("adapter_config.json", "{}");
  ASSERT_EQ(::mkfifo((files.path() / "adapter_model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(refusal_of_source(files.source()), HasSubstr("named pipe"));
}

TEST(AdapterFile, MustNotBeTruncated) {
  const AdapterFiles files;
  files.write();
  const std::string whole = files.weights();
  for (const size_t size : {size_t{0}, size_t{7}, size_t{40}, whole.size() - 1}) {
    files.write("adapter_model.safetensors", whole.substr(0, size));
    EXPECT_THAT(refusal_of_source(files.source()), HasSubstr("truncated")) << size;
  }
}

TEST(AdapterFile, MustNotHaveTensorsThatOverlap) {
  AdapterFiles files;
  std::string weights = files.weights();
  const size_t at = weights.find("[80,112]");
  ASSERT_NE(at, std::string::npos);
  weights.replace(at, 8, "[76,108]");
  files.write();
  files.write("adapter_model.safetensors", weights);
  EXPECT_THAT(refusal_of_source(files.source()), HasSubstr("overlaps"));
}

TEST(AdapterFile, MustNotHaveChangedSinceItWasExamined) {
  AdapterFiles files;
  files.write();
  const auto examined = examine_adapter(files.source(), nullptr);
  ASSERT_TRUE(examined.ok());
  files.add("self_attn.v_proj", {2, 4}, {2, 2});
  EXPECT_THAT(refusal(files, {.identity = examined->identity}), HasSubstr("has changed on disk"));
}

TEST(AdapterConfig, MustBeAnObjectInJson) {
  const AdapterFiles files;
  files.write();
  for (const auto& [text, problem] :
       {std::pair("{\"r\": ", "adapter_config.json:1"), std::pair("[1]", "is not a JSON object")}) {
    files.write("adapter_config.json", text);
    EXPECT_THAT(refusal_of_source(files.source()), HasSubstr(problem));
  }
}

struct WrongField {
  const char* text;
  const char* problem;
};

TEST(AdapterConfig, RefusesEachFieldThatIsWrongOrNotSupported) {
  constexpr std::array<WrongField, 30> kFields = {{
      {R"("r": 0)", "r is 0, expected an integer from 1"},
      {R"("r": -4)", "r is -4, expected an integer"},
      {R"("r": 2.5)", "r is 2.5, expected an integer"},
      {R"("r": "2")", "r is \"2\", expected an integer"},
      {R"("lora_alpha": NaN)", "lora_alpha is"},
      {R"("lora_alpha": 1e300)", "lora_alpha is 1e+300, expected a finite number"},
      {R"("lora_alpha": [1])", "lora_alpha is a list, expected a finite number"},
      {R"("use_rslora": 1)", "use_rslora is 1, expected true or false"},
      {R"("rank_pattern": [1])", "rank_pattern is a list, expected an object"},
      {R"("rank_pattern": {"q_proj": 0})", "rank_pattern: q_proj is 0"},
      {R"("alpha_pattern": {"q_proj": "a"})", "alpha_pattern: q_proj is \"a\""},
      {R"("alpha_pattern": {"(q": 1})", "alpha_pattern: the regular expression '(q' is not valid"},
      {R"("base_model_name_or_path": 3)", "base_model_name_or_path is 3, expected a string"},
      {R"("peft_type": "LOHA")", "peft_type is 'LOHA'; only LORA is supported"},
      {R"("use_dora": true)", "DoRA is not supported"},
      {R"("alora_invocation_tokens": [1, 2])", "activated LoRA is not supported"},
      {R"("layer_replication": [[0, 1]])", "repeat layers"},
      {R"("use_qalora": true)", "QALoRA"},
      {R"("use_bdlora": {"nblocks": 2})", "block-diagonal"},
      {R"("arrow_config": {"top_k": 2})", "Arrow"},
      {R"("kasa_config": {"beta": 1})", "KaSA"},
      {R"("ensure_weight_tying": true)", "tied modules"},
      {R"("init_lora_weights": "pissa")", "convert the adapter"},
      {R"("init_lora_weights": "pissa_niter_16")", "convert the adapter"},
      {R"("init_lora_weights": "olora")", "convert the adapter"},
      {R"("init_lora_weights": "corda")", "convert the adapter"},
      {R"("init_lora_weights": "lora_ga")", "convert the adapter"},
      {R"("init_lora_weights": "loftq")", "merge the adapter"},
      {R"("init_lora_weights": "other")", "init_lora_weights is \"other\", which is not supported"},
      {R"("velora_config": {"rank": 2})", "velora_config is an object: the key is not supported"},
  }};
  const AdapterFiles files;
  files.write();
  for (const WrongField& field : kFields) {
    files.write("adapter_config.json", std::string("{\"lora_alpha\": 4, ").append(field.text).append("}"));
    const bool twice = std::string_view(field.text).find("lora_alpha") != std::string_view::npos;
    if (twice) files.write("adapter_config.json", std::string("{").append(field.text).append("}"));
    EXPECT_THAT(refusal_of_source(files.source()), HasSubstr(field.problem)) << field.text;
  }
}

TEST(AdapterConfig, StopsARegularExpressionThatBacktracksEndlessly) {
  AdapterFiles files;
  files.config["rank_pattern"] = {{"((a|[a-z_.0-9]+)*)*[!?]", 2}};
  EXPECT_THAT(refusal(files), HasSubstr("match limit exceeded"));
}

TEST(AdapterConfig, LimitsTheNumberOfRegularExpressions) {
  AdapterFiles files;
  auto& patterns = files.config["rank_pattern"] = nlohmann::ordered_json::object();
  for (int i = 0; i < 300; ++i) patterns["x" + std::to_string(i) + ".*"] = 2;
  EXPECT_THAT(refusal(files), HasSubstr("rank_pattern: has more than 256 regular expressions"));
}

TEST(AdapterConfig, LimitsTheWorkOfRegularExpressionsForManyModules) {
  std::vector<std::string> patterns;
  for (int i = 0; i < 200; ++i) patterns.push_back("x" + std::to_string(i) + "?y");
  NamePatterns names("rank_pattern", patterns);
  EXPECT_EQ(names.find("model.x7y"), 7U);
  std::string problem;
  for (int i = 0; i < 2000 && problem.empty(); ++i) {
    try {
      names.find("model.layers.0.self_attn.q_proj");
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  EXPECT_EQ(problem, "rank_pattern: has too many regular expressions for the number of modules");
}

TEST(AdapterTensors, NameTheModuleAndBothShapesIfOneDoesNotFit) {
  AdapterFiles files;
  files.add("self_attn.q_proj", {2, 5}, {4, 2});
  EXPECT_EQ(refusal(files),
            "adapter 'sql' (" + files.path().string() +
                "): model.layers.0.self_attn.q_proj: lora_A is [2, 5], this model needs [2, 4]; "
                "it was made for 'org/base'");
  files.add("self_attn.q_proj", {2, 4}, {7, 2});
  EXPECT_THAT(refusal(files), HasSubstr("q_proj: lora_B is [7, 2], this model needs [4, 2]"));
}

TEST(AdapterTensors, ReportAllProblemsAtOnce) {
  AdapterFiles files;
  files.config["use_dora"] = true;
  files.config["new_key"] = 1;
  files.add("self_attn.q_proj", {2, 5}, {4, 2});
  files.add("self_attn.other_proj", {2, 4}, {4, 2});
  EXPECT_THAT(refusal(files), AllOf(HasSubstr("\n  adapter_config.json: use_dora"), HasSubstr("new_key"),
                                    HasSubstr("q_proj: lora_A is [2, 5]"), HasSubstr("other_proj")));
}

TEST(AdapterTensors, LimitTheLengthOfTheMessage) {
  AdapterFiles files;
  for (int i = 0; i < 100; ++i)
    files.add("other_proj" + std::to_string(i) + std::string(1000, 'x'), {2, 4}, {4, 2});
  const std::string message = refusal(files);
  EXPECT_THAT(message, HasSubstr("and 80 more"));
  EXPECT_LT(message.size(), 10000U);
}

TEST(AdapterTensors, MustBeInPairs) {
  for (const auto& [removed, problem] :
       {std::pair("lora_A", "has no lora_A"), std::pair("lora_B", "has no lora_B")}) {
    AdapterFiles files;
    files.tensors.erase(std::string(kLayer) + "mlp.up_proj." + removed + ".weight");
    EXPECT_THAT(refusal(files), AllOf(HasSubstr("model.layers.0.mlp.up_proj"), HasSubstr(problem)));
  }
}

TEST(AdapterTensors, MustHaveTheConfiguredRank) {
  AdapterFiles files;
  files.config["r"] = 3;
  EXPECT_THAT(refusal(files),
              HasSubstr("up_proj: lora_A is [2, 4], but the rank in adapter_config.json is 3"));
  files.config["r"] = 2;
  files.add("self_attn.q_proj", {2, 4}, {4, 3});
  EXPECT_THAT(refusal(files), HasSubstr("lora_A is [2, 4] and lora_B [4, 3]"));
}

TEST(AdapterTensors, MustNotExceedTheLargestRank) {
  const AdapterFiles files;
  EXPECT_THAT(refusal(files, {.max_rank = 1}), HasSubstr("has rank 2, at most 1 is allowed"));
}

TEST(AdapterTensors, MustBeMatricesThatAreNotEmpty) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{0}, {8}, {2, 0}, {2, 2, 2}}) {
    AdapterFiles files;
    files.tensor("self_attn.q_proj.lora_A.weight") = counting(shape);
    EXPECT_THAT(refusal(files), HasSubstr("self_attn.q_proj: lora_A is [")) << shape.size();
  }
  AdapterFiles files;
  files.tensor("self_attn.q_proj.lora_B.weight") = counting({0});
  EXPECT_THAT(refusal(files), HasSubstr("ZeRO-3"));
}

TEST(AdapterTensors, MustBeFloats) {
  AdapterFiles files;
  files.tensor("self_attn.q_proj.lora_A.weight") = counting({2, 4}, 0, DType::kI64);
  EXPECT_THAT(refusal(files), HasSubstr("lora_A is int64, expected float32, bfloat16 or float16"));
}

TEST(AdapterTensors, MustBeFinite) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      AdapterFiles files;
      files.add("self_attn.q_proj", {2, 4}, {4, 2}, dtype);
      store_f32(dtype, files.tensor("self_attn.q_proj.lora_B.weight").bytes.data(), 3, value);
      EXPECT_THAT(refusal(files), HasSubstr("q_proj.lora_B.weight: element 3 is not a finite number"));
    }
  }
}

TEST(AdapterTensors, MustBelongToModulesOfTheModel) {
  AdapterFiles files;
  files.add("self_attn.other_proj", {2, 4}, {4, 2});
  EXPECT_THAT(
      refusal(files),
      HasSubstr("model.layers.0.self_attn.other_proj: this model (LlamaForCausalLM) has no such module"));
}

TEST(AdapterTensors, MustBelongToLayersOfTheModel) {
  AdapterFiles files;
  files.tensors["base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"] = counting({2, 4});
  EXPECT_THAT(refusal(files),
              HasSubstr("model.layers.2.self_attn.q_proj: this model has no such module in this layer"));
}

TEST(AdapterTensors, MustNotChangeTheSameWeightsTwice) {
  AdapterFiles files;
  files.add("self_attn.qkv_proj", {2, 4}, {8, 2});
  EXPECT_THAT(refusal(files), HasSubstr("change the same weights"));
}

TEST(AdapterTensors, MustNotBeThereTwice) {
  AdapterFiles files;
  files.tensors["model.layers.0.self_attn.q_proj.lora_A.default.weight"] = counting({2, 4});
  EXPECT_THAT(refusal(files), HasSubstr("two tensors for the same part"));
}

TEST(AdapterTensors, MustHaveAnEffect) {
  AdapterFiles files;
  files.tensors.clear();
  files.add("self_attn.unused_proj", {2, 4}, {4, 2});
  EXPECT_THAT(refusal(files), HasSubstr("no tensor has an effect on this model"));
}

TEST(AdapterTensors, MustHaveASupportedForm) {
  struct Form {
    const char* tensor;
    const char* problem;
  };
  constexpr std::array<Form, 17> kForms = {{
      {"model.embed_tokens.lora_embedding_A", "has no lora_embedding_B"},
      {"model.embed_tokens.lora_embedding_B", "has no lora_embedding_A"},
      {"model.embed_tokens.lora_A.weight", "is an embedding, whose adapter has lora_embedding_A"},
      {"model.layers.0.self_attn.q_proj.lora_embedding_A", "has no lora_embedding_B"},
      {"model.position_embeddings.weight", "saved modules (modules_to_save) are supported for"},
      {"model.layers.0.self_attn.o_proj.weight", "has no such module"},
      {"model.layers.0.self_attn.q_proj.weight", "saved modules (modules_to_save) are supported for"},
      {"model.layers.0.self_attn.sinks.weight", "this vector cannot be saved"},
      {"model.embed_tokens.token_adapter.trainable_tokens_delta", "trainable_token_indices lists 0 tokens"},
      {"lm_head.modules_to_save.weight", "the saved weight is [2, 4], this model needs [10, 4]"},
      {"lm_head.weight", "the saved weight is [2, 4], this model needs [10, 4]"},
      {"model.layers.0.self_attn.q_proj.base_layer.bias", "the trained bias is [2, 4], expected a vector"},
      {"model.layers.0.self_attn.q_proj.bias", "the trained bias is [2, 4], expected a vector"},
      {"model.layers.0.self_attn.q_proj.lora_magnitude_vector", "DoRA"},
      {"model.layers.0.self_attn.kv_b_proj.lora_A.weight", "rearranged"},
      {"model.layers.0.input_layernorm.lora_A.weight", "only linear modules"},
      {"model.layers.0.self_attn.q_proj.lora_C", "is not a tensor of a LoRA adapter"},
  }};
  for (const Form& form : kForms) {
    AdapterFiles files;
    files.tensors[std::string("base_model.model.") + form.tensor] = counting({2, 4});
    EXPECT_THAT(refusal(files), HasSubstr(form.problem)) << form.tensor;
  }
}

TEST(AdapterTensors, AreShownWithoutControlCharacters) {
  AdapterFiles files;
  files.tensors["layers.0.a\n\x1b[31m.lora_A.weight"] = counting({2, 4});
  EXPECT_THAT(refusal(files), AllOf(Not(HasSubstr("\x1b")), HasSubstr("a??[31m")));
}

}  // namespace
}  // namespace quire::lora
