// A Llama model with random weights whose matrices are wide enough for groups: hidden size 64, intermediate
// size 96. Like in trained models, some outputs of its norms are outliers. With experts it is a Mixtral
// model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "io/output_file.h"
#include "io/safetensors_writer.h"
#include "quant/codec.h"

namespace quire::test {

// Writes a model directory with bfloat16 weights. experts: number of experts, of which two are used per
// token; 0 = one MLP.
inline void write_small_llama(const std::filesystem::path& dir, uint32_t seed = 7, int experts = 0) {
  constexpr int64_t kHidden = 64;
  constexpr int64_t kInner = 96;
  constexpr int64_t kKeys = 32;
  constexpr int64_t kVocab = 48;
  std::filesystem::create_directories(dir);
  const bool dense = experts == 0;
  const nlohmann::json config = {{"architectures", {dense ? "LlamaForCausalLM" : "MixtralForCausalLM"}},
                                 {"model_type", dense ? "llama" : "mixtral"},
                                 {"num_local_experts", experts},
                                 {"num_experts_per_tok", 2},
                                 {"hidden_size", kHidden},
                                 {"intermediate_size", kInner},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"head_dim", 16},
                                 {"vocab_size", kVocab},
                                 {"max_position_embeddings", 128},
                                 {"rms_norm_eps", 1e-5},
                                 {"tie_word_embeddings", false},
                                 {"torch_dtype", "bfloat16"}};
  write_file(dir / "config.json", config.dump());
  std::vector<TensorInfo> tensors;
  const auto add = [&](std::string name, std::vector<int64_t> shape) {
    tensors.push_back({.name = name + ".weight", .dtype = DType::kBF16, .shape = std::move(shape)});
  };
  add("model.embed_tokens", {kVocab, kHidden});
  add("lm_head", {kVocab, kHidden});
  add("model.norm", {kHidden});
  for (int i = 0; i < 2; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm", {kHidden});
    add(layer + "post_attention_layernorm", {kHidden});
    add(layer + "self_attn.q_proj", {kHidden, kHidden});
    add(layer + "self_attn.k_proj", {kKeys, kHidden});
    add(layer + "self_attn.v_proj", {kKeys, kHidden});
    add(layer + "self_attn.o_proj", {kHidden, kHidden});
    if (dense) {
      add(layer + "mlp.gate_proj", {kInner, kHidden});
      add(layer + "mlp.up_proj", {kInner, kHidden});
      add(layer + "mlp.down_proj", {kHidden, kInner});
      continue;
    }
    add(layer + "block_sparse_moe.gate", {experts, kHidden});
    for (int e = 0; e < experts; ++e) {
      const std::string expert = layer + "block_sparse_moe.experts." + std::to_string(e) + ".";
      add(expert + "w1", {kInner, kHidden});
      add(expert + "w2", {kHidden, kInner});
      add(expert + "w3", {kInner, kHidden});
    }
  }
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, 0.1F);
  SafetensorsWriter writer(dir, tensors);
  for (const TensorInfo& tensor : tensors) {
    int64_t size = 1;
    for (const int64_t dim : tensor.shape) size *= dim;
    std::vector<uint16_t> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) {
      float v = normal(rng);
      if (tensor.shape.size() == 1) v = (1.0F + v) * (i % 16 == 3 ? 8.0F : 1.0F);
      values[i] = f32_to_bf16(v);
    }
    writer.write(tensor.name, std::as_bytes(std::span(values)));
  }
  writer.finish();
}

}  // namespace quire::test
