// The functions that write config.json for the architectures of gguf_names.cc.
#pragma once

#include "io/gguf/gguf_arch.h"

namespace quire {

// Sizes, norms, positions and biases in the fields of Llama; the other functions start from it.
void configure_llama(const GgufModel& model, nlohmann::json& config);
// Also sliding windows: for all layers, by a pattern or by a list.
void configure_windows(const GgufModel& model, nlohmann::json& config);
// Also sets partial_rotary_factor.
void configure_partial(const GgufModel& model, nlohmann::json& config);
// Uses the existing RoPE parameters for layers with full attention, and separate ones for layers with a
// sliding window.
void set_window_rope(const GgufModel& model, nlohmann::json& config);

void configure_bloom(const GgufModel& model, nlohmann::json& config);
void configure_cohere(const GgufModel& model, nlohmann::json& config);
void configure_falcon(const GgufModel& model, nlohmann::json& config);
void configure_gemma2(const GgufModel& model, nlohmann::json& config);
void configure_gemma3(const GgufModel& model, nlohmann::json& config);
void configure_gemma3n(const GgufModel& model, nlohmann::json& config);
void configure_gemma4(const GgufModel& model, nlohmann::json& config);
void configure_glm(const GgufModel& model, nlohmann::json& config);
void configure_gpt2(const GgufModel& model, nlohmann::json& config);
void configure_granite(const GgufModel& model, nlohmann::json& config);
void configure_granite_swa(const GgufModel& model, nlohmann::json& config);
void configure_minicpm(const GgufModel& model, nlohmann::json& config);
void configure_ministral3(const GgufModel& model, nlohmann::json& config);
void configure_mpt(const GgufModel& model, nlohmann::json& config);
void configure_nemotron(const GgufModel& model, nlohmann::json& config);
void configure_neox(const GgufModel& model, nlohmann::json& config);
void configure_phi3(const GgufModel& model, nlohmann::json& config);
void configure_stablelm(const GgufModel& model, nlohmann::json& config);
void configure_starcoder2(const GgufModel& model, nlohmann::json& config);

// Mixture-of-experts models.
// DeepSeek's expert fields, with Llama's attention.
void configure_deepseek_moe(const GgufModel& model, nlohmann::json& config);
void configure_afmoe(const GgufModel& model, nlohmann::json& config);
void configure_cohere2_moe(const GgufModel& model, nlohmann::json& config);
void configure_deepseek(const GgufModel& model, nlohmann::json& config);
void configure_ernie_moe(const GgufModel& model, nlohmann::json& config);
void configure_exaone_moe(const GgufModel& model, nlohmann::json& config);
void configure_gpt_oss(const GgufModel& model, nlohmann::json& config);
void configure_granite_moe(const GgufModel& model, nlohmann::json& config);
void configure_hunyuan_moe(const GgufModel& model, nlohmann::json& config);
void configure_hy_v3(const GgufModel& model, nlohmann::json& config);
// DeepSeek-V3 with sparse attention: an indexer selects the keys that queries attend to.
void configure_indexed(const GgufModel& model, nlohmann::json& config);
void configure_llama4(const GgufModel& model, nlohmann::json& config);
void configure_mellum(const GgufModel& model, nlohmann::json& config);
void configure_mimo2(const GgufModel& model, nlohmann::json& config);
void configure_minicpm3(const GgufModel& model, nlohmann::json& config);
void configure_minimax(const GgufModel& model, nlohmann::json& config);
void configure_mistral4(const GgufModel& model, nlohmann::json& config);
void configure_mixtral(const GgufModel& model, nlohmann::json& config);
void configure_qwen_moe(const GgufModel& model, nlohmann::json& config);

// Recurrent and hybrid models.
void configure_bamba(const GgufModel& model, nlohmann::json& config);
void configure_falcon_h1(const GgufModel& model, nlohmann::json& config);
void configure_granite_hybrid(const GgufModel& model, nlohmann::json& config);
void configure_jamba(const GgufModel& model, nlohmann::json& config);
void configure_kimi_linear(const GgufModel& model, nlohmann::json& config);
void configure_lfm2(const GgufModel& model, nlohmann::json& config);
void configure_mamba2(const GgufModel& model, nlohmann::json& config);
void configure_nemotron_h(const GgufModel& model, nlohmann::json& config);
void configure_qwen3_next(const GgufModel& model, nlohmann::json& config);

// Embedding models.
void configure_bert(const GgufModel& model, nlohmann::json& config);
void configure_gemma_embedding(const GgufModel& model, nlohmann::json& config);
void configure_modern_bert(const GgufModel& model, nlohmann::json& config);
void configure_nomic_bert(const GgufModel& model, nlohmann::json& config);
void configure_reranker(const GgufModel& model, nlohmann::json& config);

}  // namespace quire
