// Loading: checkpoints that do not match their configuration, and unusual ones that do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/decoder/decoder.h"
#include "ops/reference.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using test::EditedCheckpoint;
using test::zeros;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<int32_t> kPrompt = {3, 50, 17, 81, 9, 22, 64, 5, 40};

std::unique_ptr<Model> load(Checkpoint& checkpoint, const ModelOptions& options = {}) {
  return Model::load(checkpoint, reference_ops(), {}, options, {});
}

std::string load_error(EditedCheckpoint& edited, const ModelOptions& options = {}) {
  const auto checkpoint = edited.open();
  try {
    load(*checkpoint, options);
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "it was loaded";
  return "";
}

using Logits = std::vector<std::vector<float>>;

Logits run(const Model& model) {
  return test::PagedRunner(model, reference_ops(), nullptr, {}).append(kPrompt, 4);
}

Logits run(EditedCheckpoint& edited, size_t shift = 0, const ModelOptions& options = {}) {
  const auto checkpoint = edited.open(shift);
  return run(*load(*checkpoint, options));
}

Logits run_golden(const std::string& name) {
  return run(*test::load_model(test::golden_model(name), reference_ops()).model);
}

TEST(Loader, NamesEveryMissingSurplusAndMisshapenTensor) {
  EditedCheckpoint edited(test::golden_model("llama"));
  edited.tensors.erase("model.layers.1.self_attn.q_proj.weight");
  edited.tensors.erase("model.norm.weight");
  edited.tensors["model.layers.0.mlp.up_proj.weight"] = zeros({28, 31});
  edited.tensors["model.layers.0.mlp.gate_proj.weight"] = zeros({32, 28});
  edited.tensors["model.layers.0.input_layernorm.weight"] = zeros({2, 32});
  edited.tensors["model.layers.1.mlp.down_proj.weight"] = zeros({32, 28}, DType::kI32);
  edited.tensors["model.layers.2.mlp.down_proj.weight"] = zeros({2});
  edited.tensors["surprise"] = zeros({3, 4, 5});
  EXPECT_THAT(
      load_error(edited),
      AllOf(
          HasSubstr(
              "edited: the tensors are not those of the LlamaForCausalLM that the configuration describes:"),
          HasSubstr("\n  missing: model.layers.1.self_attn.q_proj.weight [32, 32]"),
          HasSubstr("\n  missing: model.norm.weight [32]"),
          HasSubstr("\n  wrong shape: model.layers.0.mlp.up_proj.weight is [28, 31], expected [28, 32]"),
          HasSubstr("\n  wrong shape: model.layers.0.mlp.gate_proj.weight is [32, 28], expected [28, 32]"),
          HasSubstr("\n  wrong shape: model.layers.0.input_layernorm.weight is [2, 32], expected [32]"),
          HasSubstr("\n  wrong type: model.layers.1.mlp.down_proj.weight is int32, expected float32, "
                    "bfloat16 or float16"),
          HasSubstr("\n  surplus: model.layers.2.mlp.down_proj.weight [2]"),
          HasSubstr("\n  surplus: surprise [3, 4, 5]")));
}

TEST(Loader, AtMostTwentyProblemsAreListed) {
  EditedCheckpoint edited(test::golden_model("llama"));
  edited.config["num_hidden_layers"] = 4;
  edited.config["tie_word_embeddings"] = false;
  // 9 tensors for each of two layers, the output embedding, and three too many.
  for (const char* name : {"x", "y", "z"}) edited.tensors[name] = zeros({1});
  const std::string error = load_error(edited);
  EXPECT_THAT(error, AllOf(HasSubstr("missing: lm_head.weight [96, 32]"), HasSubstr("\n  and 2 more")));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 21);
}

TEST(Loader, ExpectsBiasesIfTheConfigurationHasThem) {
  EditedCheckpoint edited(test::golden_model("llama-bias"));
  edited.tensors.erase("model.layers.0.self_attn.o_proj.bias");
  EXPECT_THAT(load_error(edited), HasSubstr("missing: model.layers.0.self_attn.o_proj.bias [24]"));
  EditedCheckpoint plain(test::golden_model("llama-bias"));
  plain.config["attention_bias"] = false;
  EXPECT_THAT(load_error(plain),
              AllOf(HasSubstr("surplus: model.layers.0.self_attn.o_proj.bias [24]"), Not(HasSubstr("mlp"))));
}

TEST(Loader, TransposedMatricesAreExpectedAsStored) {
  EditedCheckpoint edited(test::golden_model("gpt2"));
  edited.tensors["transformer.h.0.attn.c_attn.weight"] = zeros({72, 24});
  EXPECT_THAT(load_error(edited),
              HasSubstr("transformer.h.0.attn.c_attn.weight is [72, 24], expected [24, 72]"));
}

TEST(Loader, IgnoresUnusedTensors) {
  EditedCheckpoint edited(test::golden_model("llama"));
  const Logits expected = run(edited);
  edited.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = zeros({4});
  edited.tensors["model.rotary_emb.inv_freq"] = zeros({4});
  EXPECT_EQ(run(edited), expected);
}

// tie_word_embeddings is a default for checkpoints without an output embedding, as in transformers.
TEST(Loader, AnOutputEmbeddingOfItsOwnIsUsedAlthoughTheEmbeddingsAreTied) {
  EditedCheckpoint edited(test::golden_model("llama"));
  const Logits tied = run(edited);
  edited.tensors["lm_head.weight"] = edited.tensors["model.embed_tokens.weight"];
  EXPECT_EQ(run(edited), tied);
  const auto copied = edited.open();
  EXPECT_TRUE(load(*copied)->spec().tie_word_embeddings);

  auto& rows = edited.tensors["lm_head.weight"].bytes;
  std::rotate(rows.begin(), rows.begin() + 32 * sizeof(float), rows.end());
  EditedCheckpoint untied = edited;
  untied.config["tie_word_embeddings"] = false;
  EXPECT_NE(run(edited), tied);
  EXPECT_EQ(run(edited), run(untied));
  const auto checkpoint = edited.open();
  EXPECT_THAT(load(*checkpoint)->spec().warnings,
              testing::ElementsAre(AllOf(HasSubstr("tie_word_embeddings is true, but lm_head.weight differs"),
                                         HasSubstr("model.embed_tokens.weight"))));
}

TEST(Loader, NamesWithoutThePrefixAreRead) {
  EditedCheckpoint edited(test::golden_model("llama-untied"));
  const Logits expected = run(edited);
  std::map<std::string, test::EditedTensor> bare;
  for (auto& [name, tensor] : edited.tensors) {
    bare.emplace(name.starts_with("model.") ? name.substr(6) : name, std::move(tensor));
  }
  edited.tensors = std::move(bare);
  EXPECT_EQ(run(edited), expected);
}

TEST(Loader, UnalignedTensorsAreRead) {
  for (const char* name : {"llama-untied", "llama-bfloat16", "gpt2"}) {
    EditedCheckpoint edited(test::golden_model(name));
    const Logits expected = run(edited);
    EXPECT_EQ(run(edited, 1), expected) << name;
    EXPECT_EQ(run(edited, 7), expected) << name;
  }
}

TEST(Loader, MixedTypesInOneFusedMatrixBecomeFloat32) {
  EditedCheckpoint edited(test::golden_model("llama"));
  auto& tensor = edited.tensors["model.layers.0.self_attn.k_proj.weight"];
  // Rounded to bfloat16, and kept in either type: the same values.
  test::EditedTensor narrow = zeros(tensor.shape, DType::kBF16);
  for (size_t i = 0; i < tensor.bytes.size() / 4; ++i) {
    float value = 0.0F;
    std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
    const uint16_t rounded = f32_to_bf16(value);
    value = bf16_to_f32(rounded);
    std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
    std::memcpy(narrow.bytes.data() + 2 * i, &rounded, 2);
  }
  const Logits expected = run(edited);
  edited.tensors["model.layers.0.self_attn.k_proj.weight"] = narrow;
  EXPECT_EQ(run(edited), expected);
}

TEST(Loader, DTypeConvertsMatricesWhilePacking) {
  EditedCheckpoint edited(test::golden_model("llama-bfloat16"));
  const auto checkpoint = edited.open();
  const auto stored = load(*checkpoint);
  const auto wide = load(*checkpoint, {.dtype = DType::kF32});
  const auto half = load(*checkpoint, {.dtype = DType::kF16});
  EXPECT_EQ(stored->weight_dtype(), DType::kBF16);
  EXPECT_EQ(wide->weight_dtype(), DType::kF32);
  EXPECT_EQ(half->weight_dtype(), DType::kF16);
  EXPECT_LT(stored->weight_bytes(), wide->weight_bytes());
  EXPECT_EQ(run(*wide), run(*stored));  // bfloat16 is exact in float32
  EXPECT_THAT(load_error(edited, {.dtype = DType::kI8}), HasSubstr("weights cannot be kept as int8"));
}

TEST(Loader, QuantizesMatricesWhilePacking) {
  EditedCheckpoint edited(test::golden_model("llama-bfloat16"));
  const auto checkpoint = edited.open();
  const auto plain = load(*checkpoint);
  EXPECT_EQ(plain->quantization(), "");
  const Logits expected = run(*plain);
  int64_t bytes = plain->weight_bytes();
  for (const auto* name : {"int8", "int4"}) {
    const auto rounded = load(*checkpoint, {.quantization = quantization_from_name(name)});
    EXPECT_EQ(rounded->quantization(), name);
    EXPECT_EQ(rounded->weight_dtype(), DType::kBF16);
    EXPECT_EQ(rounded->num_parameters(), plain->num_parameters());
    EXPECT_LT(rounded->weight_bytes(), bytes);
    bytes = rounded->weight_bytes();
    const Logits logits = run(*rounded);
    double square = 0;
    double error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t j = 0; j < expected[i].size(); ++j) {
        square += double{expected[i][j]} * double{expected[i][j]};
        error += std::pow(double{logits[i][j]} - double{expected[i][j]}, 2);
      }
    }
    EXPECT_LT(error, (std::string(name) == "int8" ? 0.004 : 0.4) * square) << name;
    EXPECT_GT(error, 0.0) << name;
  }
}

// read_spec() compares the bytes of embeddings: a caller that needs it before the weights passes it on.
TEST(Loader, TakesTheSpecThatTheCallerHasRead) {
  const auto checkpoint = Checkpoint::open(test::golden_model("llama"));
  ModelOptions options;
  options.spec = read_spec(*checkpoint, Runner::kAuto);
  options.spec->warnings = {"read before"};
  EXPECT_EQ(load(*checkpoint, options)->spec().warnings, options.spec->warnings);
}

TEST(Loader, PlansTheBytesThatItKeeps) {
  for (const std::string& model : test::golden_names("models")) {
    for (const auto* quantization : {"auto", "int8", "int4"}) {
      const auto checkpoint = Checkpoint::open(test::golden_model(model));
      const ModelOptions options = {.quantization = quantization_from_name(quantization)};
      EXPECT_EQ(Model::planned_weight_bytes(*checkpoint, options), load(*checkpoint, options)->weight_bytes())
          << model << ", " << quantization;
    }
  }
}

TEST(Loader, ProgressEndsWithTheBytesOfTheCheckpoint) {
  for (const char* name :
       {"qwen2_moe", "qwen2_moe-stacked", "gemma4-keys-as-values", "deepseek_v3", "gpt_oss"}) {
    const auto checkpoint = Checkpoint::open(test::golden_model(name));
    std::pair<int64_t, int64_t> last;
    Model::load(*checkpoint, reference_ops(), {}, {}, [&](int64_t done, int64_t total) {
      last = {done, total};
    });
    EXPECT_EQ(last.first, last.second) << name;
  }
}

TEST(Loader, ProgressRisesToTheBytesOfTheCheckpoint) {
  const auto checkpoint = Checkpoint::open(test::golden_model("llama-untied"));
  std::vector<std::pair<int64_t, int64_t>> calls;
  Model::load(*checkpoint, reference_ops(), {}, {},
              [&](int64_t done, int64_t total) { calls.emplace_back(done, total); });
  ASSERT_GT(calls.size(), 10U);
  EXPECT_EQ(calls.front().first, 0);
  EXPECT_TRUE(std::is_sorted(calls.begin(), calls.end()));
  EXPECT_EQ(calls.back().first, checkpoint->total_bytes());
  for (const auto& call : calls) EXPECT_EQ(call.second, checkpoint->total_bytes());
}

TEST(Loader, CountsParametersAndBytes) {
  const auto tied = test::load_model(test::golden_model("llama"), reference_ops());
  EXPECT_EQ(tied.model->num_parameters() * 4, tied.checkpoint->total_bytes());
  EXPECT_GE(tied.model->weight_bytes(), tied.checkpoint->total_bytes());
  EXPECT_LE(tied.model->weight_bytes(),
            tied.checkpoint->total_bytes() * 5 / 4);  // rows padded to whole panels
}

TEST(Loader, TiedEmbeddingsAreStoredOnce) {
  // The same tensors, once with the output embedding as a tensor of its own.
  EditedCheckpoint edited(test::golden_model("llama"));
  auto checkpoint = edited.open();
  const auto tied = load(*checkpoint);
  EditedCheckpoint untied(test::golden_model("llama"));
  untied.config["tie_word_embeddings"] = false;
  untied.tensors["lm_head.weight"] = untied.tensors["model.embed_tokens.weight"];
  auto other = untied.open();
  const auto separate = load(*other);
  EXPECT_EQ(separate->weight_bytes() - tied->weight_bytes(), 96 * 32 * 4);
  EXPECT_EQ(run(*separate), run(*tied));
}

TEST(Loader, LearnedPositionsLimitTheLength) {
  EditedCheckpoint edited(test::golden_model("gpt2"));
  EXPECT_THAT(load_error(edited, {.max_model_len = 97}), HasSubstr("positions for 96 tokens, not for 97"));
  const auto checkpoint = edited.open();
  EXPECT_EQ(load(*checkpoint, {.max_model_len = 50})->max_model_len(), 50);
}

TEST(Loader, MaxModelLenLimitsTheRopeTable) {
  EditedCheckpoint edited(test::golden_model("llama"));
  const auto checkpoint = edited.open();
  EXPECT_EQ(load(*checkpoint)->max_model_len(), 128);
  const auto model = load(*checkpoint, {.max_model_len = 9});
  EXPECT_EQ(model->max_model_len(), 9);
  EXPECT_EQ(run(*model), run_golden("llama"));
}

TEST(Model, ActivationBytesAreWhatIsAllocated) {
  for (const char* name : {"llama", "gpt2", "gemma3n-common-inputs"}) {
    const auto loaded = test::load_model(test::golden_model(name), reference_ops());
    for (const int64_t tokens : {1, 3, 64}) {
      const ActivationBuffers buffers = loaded.model->make_buffers(tokens);
      EXPECT_EQ(static_cast<int64_t>(buffers.data.size()), loaded.model->activation_bytes(tokens));
      const auto* end = buffers.data.data() + buffers.data.size();
      for (const TensorView& view : {buffers.scratch->hidden, buffers.scratch->normed}) {
        EXPECT_LE(reinterpret_cast<const std::byte*>(view.as<float>() + view.shape.numel()), end);
      }
    }
  }
}

TEST(Model, ComputesLogitsOfSelectedRowsInAnyOrder) {
  const auto loaded = test::load_model(test::golden_model("llama"), reference_ops());
  const Model& model = *loaded.model;
  const int64_t vocab = model.spec().vocab_size;
  ActivationBuffers buffers = model.make_buffers(6);
  // Any values serve as hidden states here.
  Buffer memory(5 * 32 * sizeof(float));
  const TensorView hidden = make_view(memory.data(), DType::kF32, Shape{5, 32});
  for (int64_t i = 0; i < 5 * 32; ++i) hidden.as<float>()[i] = std::sin(static_cast<float>(i));
  const auto logits = [&](const std::vector<int32_t>& rows) {
    std::vector<float> out(rows.size() * static_cast<size_t>(vocab));
    model.logits({}, hidden, rows, buffers,
                 make_view(out.data(), DType::kF32, Shape{static_cast<int64_t>(rows.size()), vocab}));
    return out;
  };
  const auto all = logits({0, 1, 2, 3, 4});
  const auto some = logits({4, 1, 1, 2});
  const auto slice = logits({2, 3});
  const auto row = [&](const std::vector<float>& values, int64_t i) {
    return std::vector<float>(values.begin() + i * vocab, values.begin() + (i + 1) * vocab);
  };
  EXPECT_EQ(row(some, 0), row(all, 4));
  EXPECT_EQ(row(some, 1), row(all, 1));
  EXPECT_EQ(row(some, 2), row(all, 1));
  EXPECT_EQ(row(some, 3), row(all, 2));
  EXPECT_EQ(row(slice, 0), row(all, 2));
  EXPECT_EQ(row(slice, 1), row(all, 3));
  EXPECT_TRUE(logits({}).empty());
}

TEST(Model, RejectsStepsThatDoNotFitIntoTheBuffers) {
  const auto loaded = test::load_model(test::golden_model("llama"), reference_ops());
  ActivationBuffers buffers = loaded.model->make_buffers(2);
  const std::vector<int32_t> three = {1, 2, 3};
  const std::vector<int64_t> slots = {0, 1, 2};
  const std::vector<KvCacheView> kv(2);
  ForwardBatch batch;
  batch.token_ids = three;
  batch.positions = three;
  batch.slot_mapping = slots;
  batch.kv = kv;
  EXPECT_THROW(loaded.model->forward({}, batch, buffers), Error);
}

}  // namespace
}  // namespace quire
