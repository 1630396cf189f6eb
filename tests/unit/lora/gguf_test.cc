// Adapters in GGUF files: what they change, and why they are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "io/gguf/ggml_decode.h"
#include "unit/io/gguf_writer.h"
#include "unit/lora/lora_testing.h"

namespace quire::lora {
namespace {

using quire::test::GgufWriter;
using test::change_of;
using test::counted_change;
using testing::AllOf;
using testing::HasSubstr;

// small_model() as a Llama, whose queries and keys have heads of 4 and 2 rows.
AdapterTargets llama() {
  AdapterTargets targets = test::small_model();
  targets.model_type = "llama";
  for (AdapterRange& range : targets.modules.at("layers.{}.self_attn.q_proj").ranges) range.unit = 4;
  for (AdapterRange& range : targets.modules.at("layers.{}.self_attn.k_proj").ranges) range.unit = 2;
  return targets;
}

std::vector<float> counting_values(const std::vector<uint64_t>& dims, int first = 1) {
  std::vector<float> values(std::accumulate(dims.begin(), dims.end(), uint64_t{1}, std::multiplies<>()));
  std::iota(values.begin(), values.end(), static_cast<float>(first));
  return values;
}

// A file that the converter would write.
class GgufAdapterFile {
 public:
  GgufWriter writer;

  explicit GgufAdapterFile(const std::string& architecture = "llama", float alpha = 4.0F) {
    writer.text("general.architecture", architecture);
    writer.text("general.type", "adapter");
    writer.text("adapter.type", "lora");
    writer.f32("adapter.lora.alpha", alpha);
  }

  // Dimensions in the order of the file: A has [in, rank], B [rank, out].
  void add(const std::string& tensor, const std::vector<uint64_t>& dims, int first = 1) {
    writer.f32_tensor(tensor, dims, counting_values(dims, first));
  }
  void add_pair(const std::string& module, uint64_t in, uint64_t rank, uint64_t out) {
    add(module + ".weight.lora_a", {in, rank});
    add(module + ".weight.lora_b", {rank, out});
  }

  AdapterSource source() const { return {"sql", path()}; }
  std::filesystem::path path() const { return dir_->path() / "adapter.gguf"; }
  void write() const { write(writer.file()); }
  void write(std::string_view bytes) const { dir_->write("adapter.gguf", bytes); }

 private:
  std::shared_ptr<quire::test::TempDir> dir_ = std::make_shared<quire::test::TempDir>();
};

LoadedAdapter load(const GgufAdapterFile& file, const AdapterTargets& targets = llama()) {
  file.write();
  auto loaded = load_adapter(file.source(), targets);
  if (loaded.ok()) return std::move(loaded).value();
  ADD_FAILURE() << loaded.failure().message;
  return {std::make_shared<AdapterWeights>(), {}};
}

std::string refusal_of(const GgufAdapterFile& file, const AdapterTargets& targets = llama(),
                       const AdapterLimits& limits = {}) {
  const auto loaded = load_adapter(file.source(), targets, limits);
  if (!loaded.ok()) return loaded.failure().message;
  ADD_FAILURE() << "it was loaded";
  return "";
}
std::string refusal(const GgufAdapterFile& file, const AdapterTargets& targets = llama(),
                    const AdapterLimits& limits = {}) {
  file.write();
  return refusal_of(file, targets, limits);
}

std::vector<float> rows_of(const std::vector<float>& change, const std::vector<size_t>& rows, size_t k = 4) {
  std::vector<float> out;
  for (const size_t row : rows)
    out.insert(out.end(), change.begin() + static_cast<ptrdiff_t>(row * k),
               change.begin() + static_cast<ptrdiff_t>((row + 1) * k));
  return out;
}

TEST(GgufAdapter, ChangesTheModulesThatItsTensorsStandFor) {
  GgufAdapterFile file;
  file.add_pair("blk.0.ffn_up", 4, 2, 6);
  file.add_pair("blk.1.ffn_down", 6, 1, 4);
  const LoadedAdapter loaded = load(file);
  EXPECT_EQ(rows_of(change_of(*loaded.adapter->at(1), 12), {6, 7, 8, 9, 10, 11}),
            counted_change(6, 2, 4, 2.0F));
  EXPECT_EQ(change_of(*loaded.adapter->at(5), 4), counted_change(4, 1, 6, 4.0F));
  ASSERT_EQ(loaded.info.modules.size(), 2U);
  EXPECT_EQ(loaded.info.modules[0].name, "model.layers.0.mlp.up_proj");
}

TEST(GgufAdapter, WithAlphaZeroHasScalesOfOne) {
  GgufAdapterFile file("llama", 0.0F);
  file.add_pair("blk.0.ffn_down", 6, 2, 4);
  EXPECT_EQ(change_of(*load(file).adapter->at(2), 4), counted_change(4, 2, 6, 1.0F));
}

TEST(GgufAdapter, HasRowsOfQueriesAndKeysInPairsForALlama) {
  GgufAdapterFile file;
  for (const auto& [part, rows] : {std::pair("q", 4), std::pair("k", 2), std::pair("v", 2)})
    file.add_pair(std::string("blk.0.attn_") + part, 4, 2, static_cast<uint64_t>(rows));
  const auto change = change_of(*load(file).adapter->at(0), 8);
  // Rows 0 and 2 of the file's queries are the first half of the head.
  EXPECT_EQ(rows_of(change, {0, 2, 1, 3}), counted_change(4, 2, 4, 2.0F));
  EXPECT_EQ(rows_of(change, {4, 5}), counted_change(2, 2, 4, 2.0F));
  EXPECT_EQ(rows_of(change, {6, 7}), counted_change(2, 2, 4, 2.0F));
}

TEST(GgufAdapter, HasRowsInTheirOrderForAnotherArchitecture) {
  AdapterTargets targets = llama();
  targets.model_type = "qwen2";
  GgufAdapterFile file("qwen2");
  file.add_pair("blk.0.attn_q", 4, 2, 4);
  const auto change = change_of(*load(file, targets).adapter->at(0), 8);
  EXPECT_EQ(rows_of(change, {0, 1, 2, 3}), counted_change(4, 2, 4, 2.0F));
}

TEST(GgufAdapter, MayHaveQueriesKeysAndValuesInOneTensor) {
  GgufAdapterFile file;
  file.add_pair("blk.0.attn_qkv", 4, 2, 8);
  const auto change = change_of(*load(file).adapter->at(0), 8);
  EXPECT_EQ(rows_of(change, {0, 2, 1, 3, 4, 5, 6, 7}), counted_change(8, 2, 4, 2.0F));
}

// Two experts with the names of Mixtral.
AdapterTargets mixtral() {
  AdapterTargets targets = test::small_model();
  targets.model_type = "mixtral";
  AdapterModule& module = targets.modules["layers.{}.block_sparse_moe.experts.{}.w1"];
  for (int32_t expert = 0; expert < 2; ++expert)
    module.ranges.push_back(
        {.numbers = {0, expert, -1, -1}, .site = expert, .rows = 3, .in = 4, .site_rows = 3});
  return targets;
}

TEST(GgufAdapter, HasTheMatricesOfAllExpertsInOneTensor) {
  GgufAdapterFile file;
  file.add("blk.0.ffn_gate_exps.weight.lora_a", {4, 2, 2});
  file.add("blk.0.ffn_gate_exps.weight.lora_b", {2, 3, 2});
  const LoadedAdapter loaded = load(file, mixtral());
  EXPECT_EQ(change_of(*loaded.adapter->at(0), 3), counted_change(3, 2, 4, 2.0F));
  GgufAdapterFile second;
  second.add("blk.0.ffn_gate.1.weight.lora_a", {4, 2}, 1 + 8);
  second.add("blk.0.ffn_gate.1.weight.lora_b", {2, 3}, 1 + 6);
  // Old files have a tensor for each expert.
  const LoadedAdapter apart = load(second, mixtral());
  EXPECT_EQ(change_of(*loaded.adapter->at(1), 3), change_of(*apart.adapter->at(1), 3));
  EXPECT_EQ(apart.adapter->at(0), nullptr);
}

TEST(GgufAdapter, MustHaveAllExpertsOfTheModel) {
  GgufAdapterFile file;
  file.add("blk.0.ffn_gate_exps.weight.lora_a", {4, 2, 1});
  file.add("blk.0.ffn_gate_exps.weight.lora_b", {2, 3, 3});
  EXPECT_THAT(refusal(file, mixtral()),
              AllOf(HasSubstr("ffn_gate_exps.weight.lora_a: has 1 experts, this model needs 2"),
                    HasSubstr("ffn_gate_exps.weight.lora_b: has 3 experts, this model needs 2")));
}

TEST(GgufAdapter, HasTheEmbeddingOfATokenInARow) {
  GgufAdapterFile file;
  file.add("token_embd.weight.lora_a", {2, 10});  // [rank, tokens]
  file.add("token_embd.weight.lora_b", {2, 4});
  const LoadedAdapter loaded = load(file);
  const EmbeddingChange& change = *loaded.adapter->embeddings.begin()->second;
  EXPECT_EQ(change.rank, 2);
  EXPECT_EQ(change.vocab_size, 10);
  // As [tokens, rank].
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_EQ(load_f32(change.dtype, change.a.data(), i), static_cast<float>(i + 1));
}

TEST(GgufAdapter, MayHaveTheEmbeddingOfATokenInAColumn) {
  GgufAdapterFile file;
  file.add("token_embd.weight.lora_a", {10, 2});
  file.add("token_embd.weight.lora_b", {2, 4});
  const LoadedAdapter loaded = load(file);
  const EmbeddingChange& change = *loaded.adapter->embeddings.begin()->second;
  EXPECT_EQ(load_f32(change.dtype, change.a.data(), 0), 1.0F);
  EXPECT_EQ(load_f32(change.dtype, change.a.data(), 1), 11.0F);
}

TEST(GgufAdapter, KeepsTheTypesOfFloats) {
  for (const auto& [name, dtype] : {std::pair("F16", DType::kF16), std::pair("BF16", DType::kBF16)}) {
    SCOPED_TRACE(name);
    const auto as_bytes = [dtype = dtype](const std::vector<uint64_t>& dims) {
      const auto values = counting_values(dims);
      std::string bytes(values.size() * 2, '\0');
      encode_f32(dtype, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
      return bytes;
    };
    GgufAdapterFile file;
    const uint32_t type = find_ggml_type(name)->id;
    file.writer.tensor("blk.0.attn_q.weight.lora_a", std::vector<uint64_t>{4, 2}, type, as_bytes({4, 2}));
    file.writer.tensor("blk.0.attn_q.weight.lora_b", std::vector<uint64_t>{2, 4}, type, as_bytes({2, 4}));
    const LoadedAdapter loaded = load(file);
    EXPECT_EQ(loaded.adapter->at(0)->dtype, dtype);
    EXPECT_EQ(rows_of(change_of(*loaded.adapter->at(0), 8), {0, 2, 1, 3}), counted_change(4, 2, 4, 2.0F));
  }
}

// A module with rows of 32 elements, one block of most types.
AdapterTargets wide() {
  AdapterTargets targets;
  targets.architecture = "Qwen2ForCausalLM";
  targets.model_type = "qwen2";
  targets.prefixes = {"model.", ""};
  targets.num_layers = 1;
  targets.modules["layers.{}.mlp.up_proj"].ranges = {
      {.numbers = {0, -1, -1, -1}, .site = 0, .rows = 2, .in = 32, .site_rows = 2}};
  targets.num_sites = 1;
  return targets;
}

// A file whose A [1, 32] is a block of Q8_0: the codes 0 to 31 with a scale.
GgufAdapterFile quantized_file(float scale) {
  GgufAdapterFile file("qwen2");
  const GgmlType& type = *find_ggml_type("Q8_0");
  std::string block(type.bytes, '\0');
  store_f32(DType::kF16, block.data(), 0, scale);
  for (size_t i = 0; i < 32; ++i) block[2 + i] = static_cast<char>(i);
  file.writer.tensor("blk.0.ffn_up.weight.lora_a", std::vector<uint64_t>{32, 1}, type.id, block);
  file.add("blk.0.ffn_up.weight.lora_b", {1, 2});
  return file;
}

TEST(GgufAdapter, DecodesQuantizedTensors) {
  const GgufAdapterFile file = quantized_file(0.5F);
  const LoadedAdapter loaded = load(file, wide());
  EXPECT_EQ(loaded.info.bytes, (32 + 2) * 4);
  const auto change = change_of(*loaded.adapter->at(0), 2);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(change[i], 4.0F * 0.5F * static_cast<float>(i));
    EXPECT_EQ(change[32 + i], 8.0F * 0.5F * static_cast<float>(i));
  }
}

TEST(GgufAdapter, MustHaveFiniteValues) {
  EXPECT_THAT(refusal(quantized_file(std::numeric_limits<float>::infinity()), wide()),
              HasSubstr("up_proj.lora_A.weight: element 0 is not a finite number"));
  GgufAdapterFile file;
  file.add("blk.0.ffn_down.weight.lora_a", {6, 1});
  file.writer.f32_tensor("blk.0.ffn_down.weight.lora_b", {1, 4}, {1, 2, std::nanf(""), 3});
  EXPECT_THAT(refusal(file), HasSubstr("lora_B.weight: element 2 is not a finite number"));
}

TEST(GgufAdapter, MayBeTheOnlyFileOfADirectory) {
  const quire::test::TempDir dir;
  GgufAdapterFile file;
  file.add_pair("blk.0.ffn_down", 6, 2, 4);
  dir.write("any-name.gguf", file.writer.file());
  const AdapterSource source{"sql", dir.path()};
  EXPECT_TRUE(load_adapter(source, llama()).ok());
  dir.write("another.gguf", file.writer.file());
  EXPECT_THAT(load_adapter(source, llama()).failure().message, HasSubstr("several GGUF models"));
}

TEST(GgufAdapter, IsExaminedWithoutAModel) {
  GgufAdapterFile file;
  file.writer.text("general.base_model.0.repo_url", "https://huggingface.co/org/base");
  file.add_pair("blk.0.attn_q", 4, 2, 4);
  file.add("blk.0.ffn_gate_exps.weight.lora_a", {4, 2, 3});
  file.add("blk.0.ffn_gate_exps.weight.lora_b", {2, 5, 3});
  file.write();
  const auto info = examine_adapter(file.source(), nullptr, {.base_name = "other"});
  ASSERT_TRUE(info.ok()) << info.failure().message;
  EXPECT_EQ(info->modules.size(), 4U);
  EXPECT_EQ(info->modules[0].name, "model.layers.0.block_sparse_moe.experts.0.w1");
  EXPECT_EQ(info->modules[0].out, 5);
  EXPECT_EQ(info->max_rank, 2);
  EXPECT_THAT(info->warnings, testing::ElementsAre(HasSubstr("made for 'https://huggingface.co/org/base'")));
  EXPECT_TRUE(examine_adapter(file.source(), nullptr, {.base_name = "base"})->warnings.empty());
}

TEST(GgufAdapter, HasTensorsWithoutEffectReported) {
  AdapterTargets targets = llama();
  targets.unused = {"layers.{}.self_attn.o_proj"};
  GgufAdapterFile file;
  file.add_pair("blk.0.attn_output", 4, 2, 4);
  file.add_pair("blk.0.ffn_down", 6, 2, 4);
  EXPECT_EQ(load(file, targets).info.without_effect.size(), 2U);
}

TEST(GgufAdapter, IsRefusedWithAllProblems) {
  GgufAdapterFile file;
  file.add("blk.0.attn_q.weight.lora_a", {4, 2});
  file.add_pair("blk.0.ffn_up", 5, 2, 6);
  file.add_pair("blk.0.unknown", 4, 2, 4);
  file.add_pair("blk.7.ffn_up", 4, 2, 6);
  file.add_pair("blk.0.ffn_down", 6, 9, 4);
  file.add("blk.0.ffn_gate.weight", {4, 6});
  file.add("blk.0.ffn_gate.lora_mid", {4, 6});
  const std::string message = refusal(file, llama(), {.max_rank = 8});
  EXPECT_THAT(message,
              AllOf(HasSubstr("layers.0.self_attn.q_proj: has no lora_B"),
                    HasSubstr("layers.0.mlp.up_proj: lora_A is [2, 5], this model needs [2, 4]"),
                    HasSubstr("blk.0.unknown.weight.lora_a: the architecture 'llama' has no such tensor"),
                    HasSubstr("layers.7.mlp.up_proj: this model has no such module in this layer"),
                    HasSubstr("down_proj: has rank 9, at most 8 is allowed (--max-lora-rank)")));
  EXPECT_THAT(message, AllOf(HasSubstr("blk.0.ffn_gate.weight: is not a tensor of a LoRA adapter"),
                             HasSubstr("blk.0.ffn_gate.lora_mid: is not a tensor of a LoRA adapter")));
}

TEST(GgufAdapter, MustBeForTheArchitectureOfTheModel) {
  GgufAdapterFile qwen("qwen2");
  qwen.add_pair("blk.0.ffn_up", 4, 2, 6);
  EXPECT_THAT(refusal(qwen),
              HasSubstr("general.architecture: the adapter is for 'qwen2', this model is 'llama' "
                        "(LlamaForCausalLM)"));
  GgufAdapterFile unknown("no-such");
  unknown.add_pair("blk.0.ffn_up", 4, 2, 6);
  EXPECT_THAT(refusal(unknown), HasSubstr("'no-such' is not supported"));
  GgufAdapterFile gpt2("gpt2");
  gpt2.add_pair("blk.0.ffn_up", 4, 2, 6);
  EXPECT_THAT(refusal(gpt2), HasSubstr("exchanges A and B"));
}

TEST(GgufAdapter, MayHaveNorms) {
  GgufAdapterFile file;
  file.add("blk.0.attn_norm.weight", {4}, 5);
  EXPECT_EQ(at_site(load(file).adapter->norms, 0)->weight.as<float>()[0], 5.0F);
  AdapterTargets gemma = llama();
  gemma.model_type = "gemma";
  GgufAdapterFile plus_one("gemma");
  plus_one.add("blk.0.attn_norm.weight", {4}, 5);
  EXPECT_EQ(at_site(load(plus_one, gemma).adapter->norms, 0)->weight.as<float>()[0], 4.0F);
}

TEST(GgufAdapter, MustBeInTheFormOfTheModelsFile) {
  AdapterTargets targets = llama();
  targets.converted = {".mlp."};
  GgufAdapterFile file;
  file.add_pair("blk.0.ffn_up", 4, 2, 6);
  file.add_pair("blk.0.attn_v", 4, 2, 2);
  EXPECT_THAT(refusal(file, targets),
              HasSubstr("up_proj: GGUF files have other values here than checkpoints; "
                        "use the adapter that PEFT has saved"));
  test::AdapterFiles peft;
  EXPECT_NE(test::load(peft, targets).adapter->at(1), nullptr);
  targets.from_gguf = true;
  EXPECT_NE(load(file, targets).adapter->at(1), nullptr);
  EXPECT_THAT(test::refusal(peft, {}, targets), HasSubstr("use the adapter in a GGUF file"));
}

TEST(GgufAdapter, MustBeALoraAdapter) {
  struct Case {
    std::string type;
    std::string kind;
    std::string message;
  };
  for (const Case& tested : {Case{"model", "lora", "is not an adapter: general.type is 'model'"},
                             Case{"", "lora", "is not an adapter: general.type is missing"},
                             Case{"adapter", "", "adapter.type is missing"},
                             Case{"adapter", "other", "adapter.type is 'other', only 'lora' is supported"}}) {
    GgufAdapterFile file;
    file.writer = GgufWriter();
    file.writer.text("general.architecture", "llama");
    if (!tested.type.empty()) file.writer.text("general.type", tested.type);
    if (!tested.kind.empty()) file.writer.text("adapter.type", tested.kind);
    EXPECT_THAT(refusal(file), HasSubstr(tested.message));
  }
  GgufAdapterFile vector;
  vector.writer = GgufWriter();
  vector.writer.text("general.architecture", "controlvector");
  vector.add("direction.1", {4});
  EXPECT_THAT(refusal(vector), HasSubstr("is a control vector"));
}

TEST(GgufAdapter, MustHaveMetadataThatIsUnderstood) {
  GgufAdapterFile activated;
  activated.writer.numbers<uint32_t>("adapter.alora.invocation_tokens", GgufType::kU32, {1, 2});
  activated.writer.text("adapter.new_key", "x");
  activated.add_pair("blk.0.ffn_down", 6, 2, 4);
  EXPECT_THAT(refusal(activated), AllOf(HasSubstr("adapter.alora.invocation_tokens: activated LoRA"),
                                        HasSubstr("adapter.new_key: is not known")));
  GgufAdapterFile without;
  without.writer = GgufWriter();
  without.writer.text("general.architecture", "llama");
  without.writer.text("general.type", "adapter");
  without.writer.text("adapter.type", "lora");
  without.add_pair("blk.0.ffn_down", 6, 2, 4);
  EXPECT_THAT(refusal(without), HasSubstr("adapter.lora.alpha: is missing"));
  GgufAdapterFile part;
  part.writer.u32("split.count", 2);
  EXPECT_THAT(refusal(part), HasSubstr("one of several files"));
}

TEST(GgufAdapter, MustBeComplete) {
  GgufAdapterFile file;
  file.add_pair("blk.0.ffn_down", 6, 2, 4);
  const std::string whole = file.writer.file();
  for (const size_t size : {size_t{0}, size_t{3}, size_t{30}, size_t{200}, whole.size() - 1}) {
    file.write(whole.substr(0, size));
    EXPECT_THAT(refusal_of(file), HasSubstr(size < 4 ? "is not a GGUF file" : "truncated")) << size;
  }
}

TEST(GgufAdapter, MustNotHaveTensorsThatOverlap) {
  GgufAdapterFile file;
  file.add("blk.0.ffn_down.weight.lora_a", {6, 2});
  file.writer.tensor_at("blk.0.ffn_down.weight.lora_b", std::vector<uint64_t>{2, 4}, 0, 0);
  EXPECT_THAT(refusal(file), HasSubstr("overlap"));
}

TEST(GgufAdapter, MustNotHaveTwoTensorsForOneMatrix) {
  GgufAdapterFile file;
  file.add("blk.0.ffn_gate_exps.weight.lora_a", {4, 2, 2});
  file.add("blk.0.ffn_gate_exps.weight.lora_b", {2, 3, 2});
  file.add("blk.0.ffn_gate.1.weight.lora_a", {4, 2});
  EXPECT_THAT(refusal(file, mixtral()),
              HasSubstr("experts.1.w1.lora_A.weight: two tensors of the file are for it"));
}

TEST(GgufAdapter, IsNotAPipe) {
  const GgufAdapterFile file;
  ASSERT_EQ(::mkfifo(file.path().c_str(), 0600), 0);
  EXPECT_THAT(refusal_of(file), HasSubstr("named pipe"));
}

TEST(GgufAdapter, MustNotHaveChangedSinceItWasExamined) {
  GgufAdapterFile file;
  file.add_pair("blk.0.ffn_down", 6, 2, 4);
  file.write();
  const auto examined = examine_adapter(file.source(), nullptr);
  ASSERT_TRUE(examined.ok());
  file.add_pair("blk.0.ffn_up", 4, 2, 6);
  EXPECT_THAT(refusal(file, llama(), {.identity = examined->identity}), HasSubstr("has changed on disk"));
}

TEST(GgufAdapter, MayHaveALongHeader) {
  GgufAdapterFile file;
  file.writer.text("general.description", std::string(300000, 'x'));
  file.add_pair("blk.0.ffn_down", 6, 2, 4);
  EXPECT_EQ(change_of(*load(file).adapter->at(2), 4), counted_change(4, 2, 6, 2.0F));
}

}  // namespace
}  // namespace quire::lora
