// GGUF files, written and read back as checkpoints.
#include "quantize/quantize_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/gguf/gguf_checkpoint.h"
#include "io/json_file.h"
#include "models/model_spec.h"
#include "nn/rope.h"
#include "quantize/float_matrix.h"
#include "quantize/overlay_checkpoint.h"
#include "support/golden_checkpoint.h"
#include "unit/io/io_test_util.h"
#include "unit/quantize/small_llama.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::HasSubstr;

fs::path golden_dir(const std::string& name) {
  return test::golden_checkpoint(std::string("models/") + name);
}

fs::path write(Checkpoint& checkpoint, const fs::path& out, const char* format) {
  ThreadPool pool(2);
  quantize_gguf(checkpoint, {.type = gguf_target(format), .output = out, .name = "small", .tokenizer = {}},
                pool, {});
  return find_gguf(out);
}

TEST(QuantizeGguf, PreservesFloats) {
  for (const char* name : {"llama", "llama-head-dim", "llama-rope-llama3", "llama-rope-linear", "mistral",
                           "qwen2", "qwen3", "smollm2", "gemma", "gemma2", "gemma3", "granite", "olmo2",
                           "phi4-mini", "mixtral", "qwen2_moe", "qwen3_moe", "olmoe"}) {
    const TempDir dir;
    const auto source = Checkpoint::open(golden_dir(name));
    const fs::path file = write(*source, dir.path() / "out", "gguf-f16");
    EXPECT_EQ(file.filename(), "small-F16.gguf");
    const auto back = open_gguf(file);
    const ModelSpec a = parse_model(source->config());
    const ModelSpec b = parse_model(back->config());
    EXPECT_EQ(a.architecture, b.architecture) << name;
    EXPECT_EQ(a.max_position_embeddings, b.max_position_embeddings);
    EXPECT_FLOAT_EQ(a.norm.eps, b.norm.eps);
    const auto want = rope_inverse_frequencies(a.ropes.front());
    const auto have = rope_inverse_frequencies(b.ropes.front());
    ASSERT_EQ(want.size(), have.size());
    ASSERT_EQ(a.layers.size(), b.layers.size());
    for (size_t i = 0; i < a.layers.size(); ++i) {
      const AttentionSpec& own = *attention_of(a.layers[i]);
      const AttentionSpec& read = *attention_of(b.layers[i]);
      EXPECT_EQ(own.head_dim, read.head_dim) << name;
      EXPECT_EQ(own.num_kv_heads, read.num_kv_heads) << name;
      EXPECT_EQ(own.params.window, read.params.window) << name;
      EXPECT_FLOAT_EQ(own.params.scale, read.params.scale) << name;
      EXPECT_FLOAT_EQ(own.params.logit_softcap, read.params.logit_softcap) << name;
      EXPECT_EQ(a.layers[i].rope, b.layers[i].rope) << name;
      EXPECT_FLOAT_EQ(a.layers[i].mixer_branch.multiplier, b.layers[i].mixer_branch.multiplier) << name;
      const auto& moe = a.layers[i].feed_forward.moe;
      const auto& read_moe = b.layers[i].feed_forward.moe;
      ASSERT_EQ(moe.has_value(), read_moe.has_value()) << name;
      if (!moe) continue;
      EXPECT_EQ(moe->num_experts, read_moe->num_experts) << name;
      EXPECT_EQ(moe->router.num_experts_per_tok, read_moe->router.num_experts_per_tok) << name;
      EXPECT_EQ(moe->router.norm_topk_prob, read_moe->router.norm_topk_prob) << name;
      EXPECT_EQ(moe->intermediate_size, read_moe->intermediate_size) << name;
    }
    EXPECT_EQ(a.ropes.size(), b.ropes.size()) << name;
    EXPECT_EQ(a.ropes.back().theta, b.ropes.back().theta) << name;
    EXPECT_FLOAT_EQ(a.logit_softcap, b.logit_softcap) << name;
    EXPECT_FLOAT_EQ(a.logit_scale, b.logit_scale) << name;
    EXPECT_FLOAT_EQ(a.embedding_multiplier, b.embedding_multiplier) << name;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], have[i], 1e-4 * want[i]) << name;
    for (const auto& tensor : source->names()) {
      if (tensor == "lm_head.weight" && a.tie_word_embeddings) continue;
      ASSERT_NE(back->find(tensor), nullptr) << name << " " << tensor;
      const auto before = read_floats(*source, tensor);
      const auto after = read_floats(*back, tensor);
      ASSERT_EQ(before.size(), after.size()) << tensor;
      for (size_t i = 0; i < before.size(); ++i)
        ASSERT_NEAR(before[i], after[i], 1e-3 * std::fabs(before[i]) + 1e-7)
            << name << " " << tensor << " " << i;
    }
  }
}

TEST(QuantizeGguf, FallsBackToATypeThatFits) {
  const TempDir dir;
  test::write_small_llama(dir.path() / "in");
  const auto source = Checkpoint::open(dir.path() / "in");
  const auto types = [&](const char* format) {
    const std::string bytes = read_text_file(write(*source, dir.path() / format, format));
    const GgufFile file(test::as_bytes(bytes), format);
    std::map<std::string, std::string> all;
    for (const GgufTensor& tensor : file.tensors()) all[tensor.name] = tensor.type->name;
    return all;
  };
  const auto q8 = types("gguf-q8_0");
  EXPECT_EQ(q8.at("blk.1.ffn_down.weight"), "Q8_0");
  EXPECT_EQ(q8.at("token_embd.weight"), "Q8_0");
  EXPECT_EQ(q8.at("output_norm.weight"), "F32");
  // 64 and 96 are not multiples of 256.
  const auto q4 = types("gguf-q4_k");
  EXPECT_EQ(q4.at("blk.0.attn_q.weight"), "Q5_0");
  EXPECT_EQ(q4.at("output.weight"), "Q8_0");
  for (const char* few : {"gguf-q2_k", "gguf-q3_k", "gguf-iq4_xs"}) {
    const auto written = types(few);
    EXPECT_EQ(written.at("blk.0.attn_q.weight"), "IQ4_NL") << few;
    EXPECT_EQ(written.at("output.weight"), "Q8_0") << few;
  }
}

TEST(QuantizeGguf, RejectsUnsupportedFormatsAndArchitectures) {
  EXPECT_EQ(gguf_target("gguf-q9_9"), nullptr);
  EXPECT_EQ(gguf_target("gptq"), nullptr);
  EXPECT_THAT(gguf_formats(), ::testing::Contains("gguf-q4_k"));
  for (const std::string& name : gguf_formats()) EXPECT_NE(gguf_target(name), nullptr) << name;
  const TempDir dir;
  const auto llama = Checkpoint::open(golden_dir("llama"));
  const auto with = [&](const char* format, Method method) {
    ThreadPool pool(1);
    GgufOptions options{.type = gguf_target(format), .output = dir.path() / "out", .name = "small"};
    options.method = method;
    return test::error_of([&] { quantize_gguf(*llama, options, pool, {}); });
  };
  EXPECT_THAT(with("gguf-q4_0", Method::kAwq), HasSubstr("GGUF type Q4_0 supports rtn, imatrix or gptq"));
  EXPECT_THAT(with("gguf-f16", Method::kGptq), HasSubstr("GGUF type F16 supports rtn only"));
  EXPECT_THAT(with("gguf-q4_0", Method::kGptq), HasSubstr("the calibration text is empty"));
  const auto gpt2 = Checkpoint::open(golden_dir("gpt2"));
  EXPECT_THAT(test::error_of([&] { write(*gpt2, dir.path() / "out", "gguf-q8_0"); }),
              HasSubstr("architecture GPT2LMHeadModel cannot be written as GGUF"));
  EXPECT_FALSE(fs::exists(dir.path() / "out"));
  test::write_small_llama(dir.path() / "in");
  const auto source = Checkpoint::open(dir.path() / "in");
  OverlayCheckpoint broken(*source);
  std::vector<float> w = read_floats(broken, "model.layers.1.mlp.up_proj.weight");
  w[64 * 7 + 3] = NAN;
  broken.replace("model.layers.1.mlp.up_proj.weight", w);
  EXPECT_THAT(test::error_of([&] { write(broken, dir.path() / "out", "gguf-q8_0"); }),
              HasSubstr("model.layers.1.mlp.up_proj.weight has a weight that is not finite, in row 7"));
  EXPECT_FALSE(fs::exists(dir.path() / "out"));
}

}  // namespace
}  // namespace quire
