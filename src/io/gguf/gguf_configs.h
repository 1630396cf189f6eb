// The functions that write config.json for the architectures of gguf_names.cc.
#pragma once

#include "io/gguf/gguf_arch.h"

namespace quire {

// Sizes, norms, positions and biases in Llama's words; the others start from it.
void configure_llama(const GgufModel& model, nlohmann::json& config);
// And sliding windows: of all layers, by a pattern or by a list.
void configure_windows(const GgufModel& model, nlohmann::json& config);
// And a part of each head that turns.
void configure_partial(const GgufModel& model, nlohmann::json& config);

void configure_bloom(const GgufModel& model, nlohmann::json& config);
void configure_cohere(const GgufModel& model, nlohmann::json& config);
void configure_falcon(const GgufModel& model, nlohmann::json& config);
void configure_gemma2(const GgufModel& model, nlohmann::json& config);
void configure_gemma3(const GgufModel& model, nlohmann::json& config);
void configure_glm(const GgufModel& model, nlohmann::json& config);
void configure_gpt2(const GgufModel& model, nlohmann::json& config);
void configure_granite(const GgufModel& model, nlohmann::json& config);
void configure_mixtral(const GgufModel& model, nlohmann::json& config);
void configure_mpt(const GgufModel& model, nlohmann::json& config);
void configure_neox(const GgufModel& model, nlohmann::json& config);
void configure_phi3(const GgufModel& model, nlohmann::json& config);
void configure_qwen_moe(const GgufModel& model, nlohmann::json& config);
void configure_stablelm(const GgufModel& model, nlohmann::json& config);
void configure_starcoder2(const GgufModel& model, nlohmann::json& config);

}  // namespace quire
