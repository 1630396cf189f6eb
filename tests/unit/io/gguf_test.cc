// The GGUF reader: contents of valid files, and errors for invalid ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/gguf/gguf_checkpoint.h"
#include "io/gguf/gguf_file.h"
#include "unit/io/gguf_writer.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using test::GgufWriter;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kF32 = 0;

GgufFile read(const std::string& file) {
  return GgufFile(test::as_bytes(file), "test.gguf");
}
std::string error_of(const std::string& file) {
  return test::error_of([&] { read(file); });
}

// A file with several kinds of metadata and tensors.
GgufWriter small() {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("llama.block_count", 2);
  w.f32("llama.eps", 0.5F);
  w.boolean("flag", true);
  w.texts("words", {"a", "", "bc"});
  w.numbers<int32_t>("numbers", GgufType::kI32, {1, -2, 3});
  w.numbers<float>("scores", GgufType::kF32, {0.25F, -1.0F});
  w.f32_tensor("a", {3, 2}, {1, 2, 3, 4, 5, 6});
  w.f32_tensor("b", {2}, {7, 8});
  return w;
}

TEST(Gguf, ReadsMetadataAndTensorsOfBothVersions) {
  for (const uint32_t version : {2U, 3U}) {
    GgufWriter w = small();
    w.version = version;
    const std::string bytes = w.file();
    const GgufFile file = read(bytes);
    EXPECT_EQ(file.text("general.architecture"), "llama");
    EXPECT_EQ(file.integer("llama.block_count"), 2);
    EXPECT_EQ(file.number("llama.block_count"), 2.0);
    EXPECT_EQ(file.number("llama.eps"), 0.5);
    EXPECT_EQ(file.boolean("flag"), true);
    EXPECT_THAT(file.texts("words"), ElementsAre("a", "", "bc"));
    EXPECT_THAT(file.integers("numbers"), ElementsAre(1, -2, 3));
    EXPECT_THAT(file.numbers("scores"), ElementsAre(0.25, -1.0));
    EXPECT_EQ(file.integer("absent"), std::nullopt);
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_THAT(file.tensors()[0].shape, ElementsAre(2, 3));
    float last = 0;
    std::memcpy(&last, file.data(file.tensors()[1]).data() + 4, 4);
    EXPECT_EQ(last, 8.0F);
  }
}

TEST(Gguf, EveryMetadataTypeIsRead) {
  GgufWriter w;
  w.entry("u8", GgufType::kU8, GgufWriter::raw<uint8_t>(200));
  w.entry("i8", GgufType::kI8, GgufWriter::raw<int8_t>(-3));
  w.entry("u16", GgufType::kU16, GgufWriter::raw<uint16_t>(60000));
  w.entry("i16", GgufType::kI16, GgufWriter::raw<int16_t>(-300));
  w.entry("i32", GgufType::kI32, GgufWriter::raw<int32_t>(-70000));
  w.entry("u64", GgufType::kU64, GgufWriter::raw<uint64_t>(1ULL << 40));
  w.entry("i64", GgufType::kI64, GgufWriter::raw<int64_t>(-(1LL << 40)));
  w.entry("f64", GgufType::kF64, GgufWriter::raw(0.1));
  w.entry("huge", GgufType::kU64, GgufWriter::raw(~uint64_t{0}));
  w.array("nested", GgufType::kArray, 1,
          GgufWriter::raw(static_cast<uint32_t>(GgufType::kU8)) + GgufWriter::raw<uint64_t>(2) + "xy");
  const std::string bytes = w.file();
  const GgufFile file = read(bytes);
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i8"), -3);
  EXPECT_EQ(file.integer("u16"), 60000);
  EXPECT_EQ(file.integer("i16"), -300);
  EXPECT_EQ(file.integer("i32"), -70000);
  EXPECT_EQ(file.integer("u64"), 1LL << 40);
  EXPECT_EQ(file.integer("i64"), -(1LL << 40));
  EXPECT_EQ(file.number("f64"), 0.1);
  EXPECT_THAT(test::error_of([&] { file.integer("huge"); }), HasSubstr("'huge' is not an integer"));
  EXPECT_THAT(test::error_of([&] { file.text("u8"); }), HasSubstr("'u8' is not a string"));
  EXPECT_THAT(test::error_of([&] { file.texts("nested"); }), HasSubstr("list of strings"));
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string whole = small().file();
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "") << size;
  }
}

TEST(Gguf, RejectsOtherFilesAndVersions) {
  EXPECT_THAT(error_of("not a model at all, this one"), HasSubstr("not a GGUF file"));
  GgufWriter w = small();
  w.version = 1;
  EXPECT_THAT(error_of(w.file()), HasSubstr("unsupported GGUF version 1"));
  w.version = 3U << 24;
  EXPECT_THAT(error_of(w.file()), HasSubstr("big endian"));
}

TEST(Gguf, HugeCountsAllocateNothing) {
  const std::string head = "GGUF" + GgufWriter::raw<uint32_t>(3);
  EXPECT_THAT(error_of(head + GgufWriter::raw(~uint64_t{0}) + GgufWriter::raw<uint64_t>(0)),
              HasSubstr("tensors, more than fit in the file"));
  EXPECT_THAT(error_of(head + GgufWriter::raw<uint64_t>(0) + GgufWriter::raw(~uint64_t{0} / 2)),
              HasSubstr("metadata entries, more than fit in the file"));
  for (const GgufType type : {GgufType::kU64, GgufType::kString, GgufType::kArray, GgufType::kU8}) {
    GgufWriter w;
    w.array("list", type, ~uint64_t{0} / 8 + 2, "");
    EXPECT_THAT(error_of(w.file()), HasSubstr("truncated or damaged")) << static_cast<int>(type);
  }
}

TEST(Gguf, ErrorsNameTheInvalidMetadata) {
  GgufWriter twice;
  twice.u32("a", 1);
  twice.u32("a", 2);
  EXPECT_THAT(error_of(twice.file()), HasSubstr("duplicate metadata 'a'"));
  GgufWriter unknown;
  unknown.entry("odd", static_cast<GgufType>(13), "");
  EXPECT_THAT(error_of(unknown.file()), HasSubstr("'odd' has the unknown type 13"));
  GgufWriter alignment;
  alignment.u32("general.alignment", 24);
  EXPECT_THAT(error_of(alignment.file()), HasSubstr("general.alignment is 24"));
}

TEST(Gguf, ErrorsNameTheInvalidTensor) {
  const auto with = [](const std::function<void(GgufWriter&)>& change) {
    GgufWriter w = small();
    change(w);
    return error_of(w.file());
  };
  const std::vector<uint64_t> two = {2};
  EXPECT_THAT(with([&](auto& w) { w.f32_tensor("a", two, {0, 0}); }), HasSubstr("duplicate tensor 'a'"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", two, kF32, 64); }), HasSubstr("reaches past the end"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", two, kF32, 4); }),
              HasSubstr("tensor 'x' is not aligned to 32"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", two, kF32, 32); }), HasSubstr("overlap"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", two, kF32, ~uint64_t{31}); }),
              HasSubstr("reaches past the end"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", std::vector<uint64_t>{}, kF32, 0); }),
              HasSubstr("0 dimensions"));
  EXPECT_THAT(with([&](auto& w) {
                w.tensor_at("x", std::vector<uint64_t>{2, 0}, kF32, 0);
              }),
              HasSubstr("dimension 0"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", std::vector<uint64_t>(4, 1U << 30), kF32, 0); }),
              HasSubstr("too large"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", two, 9, 0); }),
              HasSubstr("tensor 'x' has the type Q8_1, which is not supported"));
  EXPECT_THAT(with([&](auto& w) { w.tensor_at("x", two, 77, 0); }), HasSubstr("type number 77"));
  EXPECT_THAT(with([&](auto& w) {
                w.tensor_at("x", std::vector<uint64_t>{33, 1}, 2, 0);
              }),
              HasSubstr("the block size 32 of Q4_0"));
}

// A Llama model with one layer, two heads of size 4 and one KV head.
GgufWriter tiny_llama(const std::string& architecture = "llama") {
  GgufWriter w;
  w.text("general.architecture", architecture);
  const auto u32 = [&](const std::string& key, uint32_t value) { w.u32(architecture + "." + key, value); };
  u32("block_count", 1);
  u32("context_length", 64);
  u32("embedding_length", 8);
  u32("feed_forward_length", 6);
  u32("attention.head_count", 2);
  u32("attention.head_count_kv", 1);
  w.f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  return w;
}
// Tensors are looked up in each layer. A file of one kilobyte must not cause a long loop.
TEST(GgufCheckpoint, RejectsTooManyLayers) {
  GgufWriter w;
  w.text("general.architecture", "llama");
  w.u32("llama.block_count", 1U << 24);
  w.u32("llama.embedding_length", 8);
  w.f32_tensor("token_embd.weight", {8, 5}, std::vector<float>(40));
  const std::string bytes = w.file();
  EXPECT_THAT([&] { gguf_from_memory(test::as_bytes(bytes), "tiny.gguf"); },
              ThrowsMessage<Error>(HasSubstr("'llama.block_count' is 16777216, expected 1 to 16384")));
}
std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}
TEST(GgufCheckpoint, HasTheConfigurationAndNamesOfHuggingFace) {
  GgufWriter w = tiny_llama();
  w.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  w.f32_tensor("blk.0.attn_q.weight", {8, 8}, counting(64));
  w.f32_tensor("odd.weight", {2}, {1, 2});
  const std::string bytes = w.file();
  const auto checkpoint = gguf_from_memory(test::as_bytes(bytes), "tiny.gguf");
  EXPECT_EQ(checkpoint->config()["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(checkpoint->config()["rms_norm_eps"], 1e-5);
  EXPECT_EQ(checkpoint->config()["vocab_size"], 5);
  EXPECT_EQ(checkpoint->config()["tie_word_embeddings"], true);
  EXPECT_THAT(checkpoint->names(), ElementsAre("model.embed_tokens.weight",
                                               "model.layers.0.self_attn.q_proj.weight", "odd.weight"));
  // For each head of four rows, the file contains rows 0, 2, 1, 3.
  const auto query = checkpoint->view("model.layers.0.self_attn.q_proj.weight");
  const auto* values = static_cast<const float*>(query.data);
  for (const auto& [row, stored] : {std::pair(0, 0), {1, 2}, {2, 1}, {3, 3}, {4, 4}, {5, 6}}) {
    EXPECT_EQ(values[row * 8], static_cast<float>(stored * 8)) << row;
  }
}

TEST(GgufCheckpoint, SplitsStackedMatrices) {
  GgufWriter w = tiny_llama();
  w.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  w.f32_tensor("blk.0.attn_qkv.weight", {8, 16}, counting(128));
  const std::string bytes = w.file();
  const auto checkpoint = gguf_from_memory(test::as_bytes(bytes), "tiny.gguf");
  EXPECT_THAT(checkpoint->find("model.layers.0.self_attn.q_proj.weight")->shape, ElementsAre(8, 8));
  EXPECT_THAT(checkpoint->find("model.layers.0.self_attn.k_proj.weight")->shape, ElementsAre(4, 8));
  const auto value = checkpoint->view("model.layers.0.self_attn.v_proj.weight");
  EXPECT_EQ(static_cast<const float*>(value.data)[0], 12.0F * 8);
}

TEST(GgufCheckpoint, SplitsExperts) {
  GgufWriter w = tiny_llama();
  w.u32("llama.expert_count", 3);
  w.u32("llama.expert_used_count", 2);
  w.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  w.f32_tensor("blk.0.ffn_up_exps.weight", {8, 6, 3}, counting(144));
  const std::string bytes = w.file();
  const auto checkpoint = gguf_from_memory(test::as_bytes(bytes), "tiny.gguf");
  EXPECT_EQ(checkpoint->config()["architectures"][0], "MixtralForCausalLM");
  const std::string name = "model.layers.0.block_sparse_moe.experts.2.w3.weight";
  ASSERT_NE(checkpoint->find(name), nullptr);
  EXPECT_THAT(checkpoint->find(name)->shape, ElementsAre(6, 8));
  EXPECT_EQ(static_cast<const float*>(checkpoint->view(name).data)[0], 96.0F);
}

TEST(GgufCheckpoint, ErrorsNameMissingOrUnsupportedParts) {
  const auto error = [](const GgufWriter& w) {
    const std::string bytes = w.file();
    return test::error_of([&] { gguf_from_memory(test::as_bytes(bytes), "tiny.gguf"); });
  };
  GgufWriter none;
  EXPECT_THAT(error(none), HasSubstr("metadata 'general.architecture' is missing"));
  GgufWriter other;
  other.text("general.architecture", "t5");
  EXPECT_THAT(error(other),
              HasSubstr("the architecture 't5' is not supported; supported: afmoe, apertus, arcee, bert, "));
  GgufWriter empty;
  empty.text("general.architecture", "llama");
  EXPECT_THAT(error(empty), HasSubstr("tensor 'token_embd.weight' is missing"));
  empty.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  EXPECT_THAT(error(empty), HasSubstr("no metadata 'llama.embedding_length'"));
  GgufWriter rows = tiny_llama();
  rows.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  rows.f32_tensor("blk.0.attn_q.weight", {8, 7}, counting(56));
  EXPECT_THAT(error(rows), HasSubstr("7 rows, which cannot be divided into 2 heads"));
  GgufWriter numbers = tiny_llama("apertus");
  numbers.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  EXPECT_THAT(error(numbers), HasSubstr("metadata 'xielu.alpha_p' has 0 numbers, expected 1"));
}

TEST(GgufCheckpoint, TokensThatEndATurnEndTheOutputWhateverTheirType) {
  const auto ends = [](const std::vector<std::string>& tokens, int32_t type, uint32_t eos = 4) {
    GgufWriter w = tiny_llama();
    w.f32_tensor("token_embd.weight", {8, 5}, counting(40));
    w.entry("tokenizer.ggml.eos_token_id", GgufType::kU32, GgufWriter::raw<uint32_t>(eos));
    w.texts("tokenizer.ggml.tokens", tokens);
    w.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kI32,
                       std::vector<int32_t>(tokens.size(), type));
    const std::string bytes = w.file();
    const auto config = gguf_from_memory(test::as_bytes(bytes), "tiny.gguf")->generation_config();
    return config->at("eos_token_id").get<std::vector<int>>();
  };
  constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4;
  for (const int32_t type : {kNormal, kControl, kUserDefined}) {
    EXPECT_EQ(ends({"a", "<|end|>", "<turn|>", "b", "<eos>"}, type), (std::vector<int>{4, 1, 2}));
    EXPECT_EQ(ends({"<|im_end|>", "[EOS]", "<|eot_id|>", "b", "c"}, type), (std::vector<int>{4, 0, 1, 2}));
  }
  // A tag of HTML, unless the file says otherwise.
  EXPECT_EQ(ends({"a", "b", "c", "</s>", "e"}, kNormal), (std::vector<int>{4}));
  EXPECT_EQ(ends({"a", "b", "c", "</s>", "e"}, kControl), (std::vector<int>{4, 3}));
  EXPECT_EQ(ends({"a", "b", "<end_of_turn>", "d", "e"}, kNormal, 77), (std::vector<int>{2}));
  // With several messages per response, the end of a message does not end the response.
  EXPECT_EQ(ends({"a", "<|end|>", "<|call|>", "<|return|>", "<eos>"}, kControl), (std::vector<int>{4, 2, 3}));
  EXPECT_EQ(ends({"a", "<|end|>", "<|calls|>", "<|flush|>", "e"}, kControl), (std::vector<int>{4, 2, 3}));
  EXPECT_EQ(ends({"</s>", "<|tool_response>", "c", "d", "e"}, kControl), (std::vector<int>{4, 1}));
}

nlohmann::json rope_of(const std::function<void(GgufWriter&)>& set) {
  GgufWriter w = tiny_llama();
  w.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  set(w);
  const std::string bytes = w.file();
  return gguf_from_memory(test::as_bytes(bytes), "tiny.gguf")->config();
}

TEST(GgufCheckpoint, ARopeFactorOfZeroIsOne) {
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    for (const char* type : {"", "linear"}) {
      const nlohmann::json config = rope_of([&](GgufWriter& w) {
        if (*type != '\0') w.text("llama.rope.scaling.type", type);
        w.f32(key, 0.0F);
      });
      EXPECT_FALSE(config.contains("rope_scaling")) << key << " " << config;
    }
  }
  const nlohmann::json old = rope_of([](GgufWriter& w) {
    w.f32("llama.rope.scaling.factor", 0.0F);
    w.f32("llama.rope.scale_linear", 4.0F);
  });
  EXPECT_FALSE(old.contains("rope_scaling")) << "the old key counts only without the new one";
}

TEST(GgufCheckpoint, OtherRopeParametersOfZeroAreAbsent) {
  const nlohmann::json config = rope_of([](GgufWriter& w) {
    w.text("llama.rope.scaling.type", "yarn");
    w.u32("llama.rope.scaling.original_context_length", 0);
    for (const char* key : {"factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"})
      w.f32(std::string("llama.rope.scaling.") + key, 0.0F);
    w.f32("llama.rope.freq_base", 0.0F);
  });
  EXPECT_EQ(config["rope_scaling"], nlohmann::json({{"rope_type", "yarn"}, {"factor", 1.0}}));
  EXPECT_EQ(config["rope_theta"], 10000.0);
}

TEST(GgufCheckpoint, RemembersTheKeysOfFields) {
  GgufWriter w = tiny_llama();
  w.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  w.text("llama.rope.scaling.type", "yarn");
  w.f32("llama.rope.scaling.factor", 2.0F);
  const std::string bytes = w.file();
  const ConfigOrigin origin = gguf_from_memory(test::as_bytes(bytes), "tiny.gguf")->config_origin();
  EXPECT_EQ(origin.file, "tiny.gguf");
  EXPECT_EQ(origin.keys.at("factor"), "llama.rope.scaling.factor");
  EXPECT_EQ(origin.keys.at("rope_type"), "llama.rope.scaling.type");
  EXPECT_EQ(origin.keys.at("hidden_size"), "llama.embedding_length");
}

TEST(GgufCheckpoint, ReadsSplitModelsFromAnyOfTheirFiles) {
  const test::TempDir dir;
  GgufWriter first = tiny_llama();
  first.entry("split.no", GgufType::kU16, GgufWriter::raw<uint16_t>(0));
  first.entry("split.count", GgufType::kU16, GgufWriter::raw<uint16_t>(2));
  first.f32_tensor("token_embd.weight", {8, 5}, counting(40));
  GgufWriter second;
  second.entry("split.no", GgufType::kU16, GgufWriter::raw<uint16_t>(1));
  second.entry("split.count", GgufType::kU16, GgufWriter::raw<uint16_t>(2));
  second.f32_tensor("output_norm.weight", {8}, counting(8));
  dir.write("m-00001-of-00002.gguf", first.file());
  EXPECT_THAT(test::error_of([&] { Checkpoint::open(dir.path()); }),
              HasSubstr("missing: m-00002-of-00002.gguf"));
  dir.write("m-00002-of-00002.gguf", second.file());
  for (const char* name : {"", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    const auto checkpoint = Checkpoint::open(*name == '\0' ? dir.path() : dir.path() / name);
    EXPECT_THAT(checkpoint->names(), ElementsAre("model.embed_tokens.weight", "model.norm.weight"));
    checkpoint->release("model.norm.weight");
    EXPECT_EQ(static_cast<const float*>(checkpoint->view("model.norm.weight").data)[7], 7.0F);
  }
  EXPECT_EQ(gguf_model_name(dir.path() / "m-00002-of-00002.gguf"), "m");
  dir.write("alone.gguf", first.file());
  EXPECT_THAT(test::error_of([&] { Checkpoint::open(dir.path() / "alone.gguf"); }),
              HasSubstr("one of 2 files"));
  EXPECT_THAT(test::error_of([&] { Checkpoint::open(dir.path()); }),
              HasSubstr("several GGUF models; pass the path of one: alone.gguf, m-00001-of-00002.gguf"));
}

}  // namespace
}  // namespace quire
