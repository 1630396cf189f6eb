// Names of the tensors of each architecture in GGUF files, and in Hugging Face checkpoints.
#pragma once

#include <array>

#include "io/gguf/gguf_arch.h"

namespace quire::gguf_names {

template <size_t... kSizes>
constexpr auto joined(const std::array<GgufName, kSizes>&... tables) {
  std::array<GgufName, (kSizes + ...)> all{};
  size_t at = 0;
  const auto take = [&](const auto& table) {
    for (const GgufName& row : table) all[at++] = row;
  };
  (take(tables), ...);
  return all;
}

inline constexpr std::array<GgufName, 7> kAttention = {{
    {"token_embd", "model.embed_tokens"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
}};
inline constexpr std::array<GgufName, 1> kFinalNorm = {{{"output_norm", "model.norm"}}};
inline constexpr std::array<GgufName, 3> kMlp = {{
    {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
}};
inline constexpr std::array<GgufName, 1> kMlpNorm = {
    {{"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"}}};
inline constexpr std::array<GgufName, 2> kQkNorms = {{
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"},
}};
inline constexpr std::array<GgufName, 2> kPostNorms = {{
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
}};
inline constexpr auto kLlama = joined(kAttention, kFinalNorm, kMlp, kMlpNorm);
inline constexpr auto kQwen3 = joined(kLlama, kQkNorms);
inline constexpr std::array<GgufName, 1> kScore = {{{"cls.output", "score"}}};
inline constexpr auto kQwen3Reranker = joined(kQwen3, kScore);
inline constexpr auto kOlmo2 = joined(kAttention, kFinalNorm, kMlp, kQkNorms, kPostNorms);

inline constexpr std::array<GgufName, 1> kGemmaMlpNorm = {
    {{"blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"}}};
inline constexpr auto kGemma3 = joined(kAttention, kFinalNorm, kMlp, kGemmaMlpNorm, kPostNorms, kQkNorms);

inline constexpr std::array<GgufName, 2> kApertusNorms = {{
    {"blk.{}.attn_norm", "model.layers.{}.attention_layernorm"},
    {"blk.{}.ffn_norm", "model.layers.{}.feedforward_layernorm"},
}};
inline constexpr auto kApertus = joined(kApertusNorms, kQwen3);
inline constexpr std::array<GgufName, 4> kXielu = {{
    {"xielu.alpha_p", "model.layers.{}.mlp.act_fn.alpha_p"},
    {"xielu.alpha_n", "model.layers.{}.mlp.act_fn.alpha_n"},
    {"xielu.beta", "model.layers.{}.mlp.act_fn.beta"},
    {"xielu.eps", "model.layers.{}.mlp.act_fn.eps"},
}};

inline constexpr std::array<GgufName, 1> kSeedMlpNorm = {
    {{"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"}}};
inline constexpr auto kSeedOss = joined(kAttention, kFinalNorm, kMlp, kSeedMlpNorm);

inline constexpr std::array<GgufName, 2> kGateUp = {{
    {"blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
}};
inline constexpr std::array<GgufName, 1> kQkv = {{{"blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"}}};
inline constexpr auto kPhi3 = joined(kAttention, kFinalNorm, kGateUp, kMlpNorm, kQkv);
inline constexpr std::array<GgufName, 2> kGlmPostNorms = {{
    {"blk.{}.post_attention_norm", "model.layers.{}.post_self_attn_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"},
}};
inline constexpr auto kGlm = joined(kAttention, kFinalNorm, kGateUp, kMlpNorm, kGlmPostNorms);

inline constexpr std::array<GgufName, 10> kPhi2 = {{
    {"token_embd", "model.embed_tokens"},
    {"output", "lm_head"},
    {"output_norm", "model.final_layernorm"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.dense"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.fc1"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.fc2"},
}};
inline constexpr std::array<GgufName, 2> kStarcoderMlp = {{
    {"blk.{}.ffn_up", "model.layers.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.c_proj"},
}};
inline constexpr auto kStarcoder2 = joined(kAttention, kFinalNorm, kStarcoderMlp, kMlpNorm);

// Queries, keys and values are stacked in these files, regardless of their order in the original.
inline constexpr std::array<GgufName, 10> kGpt2 = {{
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output", "lm_head"},
    {"output_norm", "transformer.ln_f"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_qkv", "transformer.h.{}.attn.qkv_rows"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.out_rows"},
    {"blk.{}.ffn_norm", "transformer.h.{}.ln_2"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.fc_rows"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.proj_rows"},
}};
inline constexpr std::array<GgufName, 10> kStarcoder = {{
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output", "lm_head"},
    {"output_norm", "transformer.ln_f"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_qkv", "transformer.h.{}.attn.c_attn"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.c_proj"},
    {"blk.{}.ffn_norm", "transformer.h.{}.ln_2"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.c_proj"},
}};
inline constexpr std::array<GgufName, 9> kBloomLayers = {{
    {"token_embd", "transformer.word_embeddings"},
    {"token_embd_norm", "transformer.word_embeddings_layernorm"},
    {"output", "lm_head"},
    {"output_norm", "transformer.ln_f"},
    {"blk.{}.attn_qkv", "transformer.h.{}.self_attention.qkv_rows"},
    {"blk.{}.attn_output", "transformer.h.{}.self_attention.dense"},
    {"blk.{}.ffn_norm", "transformer.h.{}.post_attention_layernorm"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.dense_4h_to_h"},
}};
inline constexpr std::array<GgufName, 1> kBloomNorm = {
    {{"blk.{}.attn_norm", "transformer.h.{}.input_layernorm"}}};
inline constexpr auto kBloom = joined(kBloomLayers, kBloomNorm);
inline constexpr std::array<GgufName, 2> kFalconNorms = {{
    {"blk.{}.attn_norm", "transformer.h.{}.ln_mlp"},
    {"blk.{}.attn_norm_2", "transformer.h.{}.ln_attn"},
}};
inline constexpr auto kFalconTwoNorms = joined(kBloomLayers, kFalconNorms);
inline constexpr std::array<GgufName, 9> kNeox = {{
    {"token_embd", "gpt_neox.embed_in"},
    {"output", "embed_out"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"blk.{}.attn_norm", "gpt_neox.layers.{}.input_layernorm"},
    {"blk.{}.attn_qkv", "gpt_neox.layers.{}.attention.qkv_rows"},
    {"blk.{}.attn_output", "gpt_neox.layers.{}.attention.dense"},
    {"blk.{}.ffn_norm", "gpt_neox.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_up", "gpt_neox.layers.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "gpt_neox.layers.{}.mlp.dense_4h_to_h"},
}};
inline constexpr std::array<GgufName, 9> kMpt = {{
    {"token_embd", "transformer.wte"},
    {"output", "lm_head"},
    {"output_norm", "transformer.norm_f"},
    {"blk.{}.attn_norm", "transformer.blocks.{}.norm_1"},
    {"blk.{}.attn_qkv", "transformer.blocks.{}.attn.Wqkv"},
    {"blk.{}.attn_output", "transformer.blocks.{}.attn.out_proj"},
    {"blk.{}.ffn_norm", "transformer.blocks.{}.norm_2"},
    {"blk.{}.ffn_up", "transformer.blocks.{}.ffn.up_proj"},
    {"blk.{}.ffn_down", "transformer.blocks.{}.ffn.down_proj"},
}};

inline constexpr std::array<GgufName, 8> kExperts = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{e}.down_proj"},
    {"blk.{}.ffn_gate_inp_shexp", "model.layers.{}.mlp.shared_expert_gate", GgufChange::kRow},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_expert.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_expert.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_expert.down_proj"},
}};
inline constexpr auto kQwenMoe = joined(kQwen3, kExperts);
inline constexpr std::array<GgufName, 4> kMixtralExperts = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w2"},
}};
inline constexpr auto kMixtral = joined(kAttention, kFinalNorm, kMlpNorm, kMixtralExperts);

// Llama without the MLP, for models that replace it or add modules next to attention.
inline constexpr auto kBody = joined(kAttention, kFinalNorm, kMlpNorm);

// The norm before the MLP, under another name.
inline constexpr std::array<GgufName, 1> kPostMlpNorm = {
    {{"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"}}};

inline constexpr std::array<GgufName, 5> kGptOssOwn = {{
    {"blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{e}.down_proj"},
}};
inline constexpr auto kGptOss = joined(kAttention, kFinalNorm, kPostMlpNorm, kGptOssOwn);
inline constexpr std::array<GgufName, 1> kSinks = {
    {{"blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks"}}};
inline constexpr auto kGraniteSwa = joined(kLlama, kSinks);

// Experts with the names of DeepSeek, and e_score_correction_bias.
inline constexpr std::array<GgufName, 4> kEachExpert = {{
    {"blk.{}.ffn_gate_up_exps", "model.layers.{}.mlp.experts.{e}.gate_up_proj"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{e}.down_proj"},
}};
inline constexpr std::array<GgufName, 3> kSharedExperts = {{
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_experts.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_experts.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_experts.down_proj"},
}};
inline constexpr std::array<GgufName, 2> kDeepseekRouter = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.e_score_correction_bias", GgufChange::kVector},
}};
inline constexpr auto kDeepseekExperts = joined(kDeepseekRouter, kEachExpert, kSharedExperts);
// Same, with the router as a separate module.
inline constexpr std::array<GgufName, 3> kOwnRouter = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router.gate"},
    {"blk.{}.exp_probs_b", "model.layers.{}.mlp.expert_bias", GgufChange::kVector},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.expert_bias", GgufChange::kVector},
}};
inline constexpr auto kHy3 = joined(kQwen3, kOwnRouter, kEachExpert, kSharedExperts);
inline constexpr std::array<GgufName, 4> kAfmoeOwn = {{
    {"blk.{}.attn_gate", "model.layers.{}.self_attn.gate_proj"},
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_norm", "model.layers.{}.pre_mlp_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"},
}};
inline constexpr auto kAfmoe =
    joined(kAttention, kFinalNorm, kMlp, kQkNorms, kAfmoeOwn, kOwnRouter, kEachExpert, kSharedExperts);
// For files written before attn_kv_b was split into attn_k_b and attn_v_b.
inline constexpr std::array<GgufName, 8> kLatentAttention = {{
    {"blk.{}.attn_q_a", "model.layers.{}.self_attn.q_a_proj"},
    {"blk.{}.attn_q_a_norm", "model.layers.{}.self_attn.q_a_layernorm"},
    {"blk.{}.attn_q_b", "model.layers.{}.self_attn.q_b_proj"},
    {"blk.{}.attn_kv_a_mqa", "model.layers.{}.self_attn.kv_a_proj_with_mqa"},
    {"blk.{}.attn_kv_a_norm", "model.layers.{}.self_attn.kv_a_layernorm"},
    {"blk.{}.attn_kv_b", "model.layers.{}.self_attn.kv_b_proj"},
    {"blk.{}.attn_k_b", "model.layers.{}.self_attn.k_b_proj", GgufChange::kMatrices},
    {"blk.{}.attn_v_b", "model.layers.{}.self_attn.v_b_proj", GgufChange::kMatrices},
}};
inline constexpr auto kDeepseek = joined(kLlama, kLatentAttention, kDeepseekExperts);
// The indexer of sparse attention.
inline constexpr std::array<GgufName, 4> kIndexer = {{
    {"blk.{}.indexer.attn_q_b", "model.layers.{}.self_attn.indexer.wq_b"},
    {"blk.{}.indexer.attn_k", "model.layers.{}.self_attn.indexer.wk"},
    {"blk.{}.indexer.k_norm", "model.layers.{}.self_attn.indexer.k_norm"},
    {"blk.{}.indexer.proj", "model.layers.{}.self_attn.indexer.weights_proj"},
}};
inline constexpr auto kDeepseekIndexed = joined(kDeepseek, kIndexer);
inline constexpr auto kMimo2 = joined(kLlama, kSinks, kDeepseekExperts);
// Kimi Delta Attention; its queries and keys have the same names as those of MLA.
inline constexpr std::array<GgufName, 12> kKimiDelta = {{
    {"blk.{}.ssm_conv1d_q", "model.layers.{}.self_attn.q_conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_conv1d_k", "model.layers.{}.self_attn.k_conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_conv1d_v", "model.layers.{}.self_attn.v_conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_f_a", "model.layers.{}.self_attn.f_a_proj"},
    {"blk.{}.ssm_f_b", "model.layers.{}.self_attn.f_b_proj"},
    {"blk.{}.ssm_g_a", "model.layers.{}.self_attn.g_a_proj"},
    {"blk.{}.ssm_g_b", "model.layers.{}.self_attn.g_b_proj"},
    {"blk.{}.ssm_beta", "model.layers.{}.self_attn.b_proj"},
    {"blk.{}.ssm_dt.bias", "model.layers.{}.self_attn.dt_bias"},
    {"blk.{}.ssm_a", "model.layers.{}.self_attn.A_log", GgufChange::kALog},
    {"blk.{}.ssm_norm", "model.layers.{}.self_attn.o_norm"},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.e_score_correction_bias", GgufChange::kVector},
}};
inline constexpr auto kKimiLinear =
    joined(kLlama, kLatentAttention, kKimiDelta, kMixtralExperts, kSharedExperts);
inline constexpr auto kGlm4Moe =
    joined(kAttention, kFinalNorm, kMlp, kPostMlpNorm, kQkNorms, kDeepseekExperts);
inline constexpr auto kDots1 = joined(kQwen3, kDeepseekExperts);
inline constexpr std::array<GgufName, 1> kErnieCorrection = {
    {{"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.moe_statics.e_score_correction_bias",
      GgufChange::kVector}}};
inline constexpr auto kErnieMoe = joined(kLlama, kErnieCorrection, kDeepseekExperts);

inline constexpr std::array<GgufName, 10> kLlama4Layers = {{
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.{e}.down_proj"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.feed_forward.shared_expert.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.feed_forward.shared_expert.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.feed_forward.shared_expert.down_proj"},
}};
inline constexpr auto kLlama4 = joined(kBody, kLlama4Layers);

inline constexpr std::array<GgufName, 7> kGraniteExperts = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.router.layer"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{e}.down_proj"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.shared_mlp.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.shared_mlp.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.shared_mlp.down_proj"},
}};
inline constexpr auto kGraniteMoe = joined(kBody, kGraniteExperts);

// Mamba 2 in addition to the modules of a Llama layer, and as a full layer.
inline constexpr std::array<GgufName, 7> kMamba = {{
    {"blk.{}.ssm_in", "model.layers.{}.mamba.in_proj"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.mamba.conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_dt.bias", "model.layers.{}.mamba.dt_bias"},
    {"blk.{}.ssm_a", "model.layers.{}.mamba.A_log", GgufChange::kALog},
    {"blk.{}.ssm_d", "model.layers.{}.mamba.D", GgufChange::kVector},
    {"blk.{}.ssm_norm", "model.layers.{}.mamba.norm", GgufChange::kVector},
    {"blk.{}.ssm_out", "model.layers.{}.mamba.out_proj"},
}};
inline constexpr std::array<GgufName, 7> kMambaMixer = {{
    {"blk.{}.ssm_in", "backbone.layers.{}.mixer.in_proj"},
    {"blk.{}.ssm_conv1d", "backbone.layers.{}.mixer.conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_dt.bias", "backbone.layers.{}.mixer.dt_bias"},
    {"blk.{}.ssm_a", "backbone.layers.{}.mixer.A_log", GgufChange::kALog},
    {"blk.{}.ssm_d", "backbone.layers.{}.mixer.D", GgufChange::kVector},
    {"blk.{}.ssm_norm", "backbone.layers.{}.mixer.norm", GgufChange::kVector},
    {"blk.{}.ssm_out", "backbone.layers.{}.mixer.out_proj"},
}};
inline constexpr std::array<GgufName, 4> kBackbone = {{
    {"token_embd", "backbone.embeddings"},
    {"blk.{}.attn_norm", "backbone.layers.{}.norm"},
    {"output_norm", "backbone.norm_f"},
    {"output", "lm_head"},
}};
inline constexpr auto kMamba2 = joined(kBackbone, kMambaMixer);
inline constexpr std::array<GgufName, 3> kGraniteMlp = {{
    {"blk.{}.ffn_gate", "model.layers.{}.shared_mlp.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.shared_mlp.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.shared_mlp.down_proj"},
}};
inline constexpr auto kGraniteHybrid = joined(kBody, kGraniteExperts, kGraniteMlp, kMamba);
inline constexpr std::array<GgufName, 5> kFeedForward = {{
    {"output_norm", "model.final_layernorm"},
    {"blk.{}.ffn_norm", "model.layers.{}.pre_ff_layernorm"},
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"},
}};
inline constexpr auto kBamba = joined(kAttention, kFeedForward, kMamba);
inline constexpr std::array<GgufName, 14> kJambaOwn = {{
    {"blk.{}.ssm_in", "model.layers.{}.mamba.in_proj"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.mamba.conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_x", "model.layers.{}.mamba.x_proj"},
    {"blk.{}.ssm_dt", "model.layers.{}.mamba.dt_proj"},
    {"blk.{}.ssm_dt_norm", "model.layers.{}.mamba.dt_layernorm"},
    {"blk.{}.ssm_b_norm", "model.layers.{}.mamba.b_layernorm"},
    {"blk.{}.ssm_c_norm", "model.layers.{}.mamba.c_layernorm"},
    {"blk.{}.ssm_a", "model.layers.{}.mamba.A_log", GgufChange::kALog},
    {"blk.{}.ssm_d", "model.layers.{}.mamba.D", GgufChange::kVector},
    {"blk.{}.ssm_out", "model.layers.{}.mamba.out_proj"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.{e}.down_proj"},
}};
inline constexpr auto kJamba = joined(kAttention, kFeedForward, kJambaOwn);
// The only norm whose tensor name has no ".weight".
inline constexpr std::array<GgufName, 1> kFalconH1Norm = {
    {{"blk.{}.ffn_norm", "model.layers.{}.pre_ff_layernorm.weight"}}};
inline constexpr auto kFalconH1 = joined(kFalconH1Norm, kBamba);
inline constexpr std::array<GgufName, 12> kNemotronMixers = {{
    {"blk.{}.attn_q", "backbone.layers.{}.mixer.q_proj"},
    {"blk.{}.attn_k", "backbone.layers.{}.mixer.k_proj"},
    {"blk.{}.attn_v", "backbone.layers.{}.mixer.v_proj"},
    {"blk.{}.attn_output", "backbone.layers.{}.mixer.o_proj"},
    {"blk.{}.ffn_up", "backbone.layers.{}.mixer.up_proj"},
    {"blk.{}.ffn_down", "backbone.layers.{}.mixer.down_proj"},
    {"blk.{}.ffn_gate_inp", "backbone.layers.{}.mixer.gate"},
    {"blk.{}.exp_probs_b.bias", "backbone.layers.{}.mixer.gate.e_score_correction_bias", GgufChange::kVector},
    {"blk.{}.ffn_up_exps", "backbone.layers.{}.mixer.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "backbone.layers.{}.mixer.experts.{e}.down_proj"},
    {"blk.{}.ffn_up_shexp", "backbone.layers.{}.mixer.shared_experts.up_proj"},
    {"blk.{}.ffn_down_shexp", "backbone.layers.{}.mixer.shared_experts.down_proj"},
}};
inline constexpr auto kNemotronH = joined(kMamba2, kNemotronMixers);

// ssm_in: attn_qkv and attn_gate combined, in the first files.
inline constexpr std::array<GgufName, 11> kDeltaNet = {{
    {"blk.{}.attn_qkv", "model.layers.{}.linear_attn.in_proj_qkv"},
    {"blk.{}.attn_gate", "model.layers.{}.linear_attn.in_proj_z"},
    {"blk.{}.ssm_in", "model.layers.{}.linear_attn.in_proj_qkvz"},
    {"blk.{}.ssm_ba", "model.layers.{}.linear_attn.in_proj_ba"},
    {"blk.{}.ssm_beta", "model.layers.{}.linear_attn.in_proj_b"},
    {"blk.{}.ssm_alpha", "model.layers.{}.linear_attn.in_proj_a"},
    {"blk.{}.ssm_conv1d", "model.layers.{}.linear_attn.conv1d", GgufChange::kConvKernel},
    {"blk.{}.ssm_dt.bias", "model.layers.{}.linear_attn.dt_bias"},
    {"blk.{}.ssm_a", "model.layers.{}.linear_attn.A_log", GgufChange::kALog},
    {"blk.{}.ssm_norm", "model.layers.{}.linear_attn.norm", GgufChange::kPlainNorm},
    {"blk.{}.ssm_out", "model.layers.{}.linear_attn.out_proj"},
}};
inline constexpr auto kQwen3Next =
    joined(kAttention, kFinalNorm, kMlp, kPostMlpNorm, kQkNorms, kExperts, kDeltaNet);

// The final norm is named after the matrix that follows it, the tied embedding.
inline constexpr std::array<GgufName, 23> kLfm2 = {{
    {"token_embd", "model.embed_tokens"},
    {"token_embd_norm", "model.embedding_norm"},
    {"output_norm", "model.embedding_norm"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.operator_norm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.out_proj"},
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_layernorm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_layernorm"},
    {"blk.{}.shortconv.in_proj", "model.layers.{}.conv.in_proj"},
    {"blk.{}.shortconv.conv", "model.layers.{}.conv.conv", GgufChange::kConvKernel},
    {"blk.{}.shortconv.out_proj", "model.layers.{}.conv.out_proj"},
    {"blk.{}.ffn_norm", "model.layers.{}.ffn_norm"},
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.w1"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.w3"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.w2"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.gate"},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.feed_forward.expert_bias"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.{e}.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.{e}.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.{e}.w2"},
}};

inline constexpr std::array<GgufName, 6> kLayerInputs = {{
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"blk.{}.inp_gate", "model.layers.{}.per_layer_input_gate"},
    {"blk.{}.proj", "model.layers.{}.per_layer_projection"},
    {"blk.{}.post_norm", "model.layers.{}.post_per_layer_input_norm"},
}};
inline constexpr std::array<GgufName, 10> kGemma3nOwn = {{
    {"altup_proj", "model.altup_projections.{e}"},
    {"altup_unembd_proj", "model.altup_unembed_projections.{e}"},
    {"blk.{}.altup_router", "model.layers.{}.altup.modality_router"},
    {"blk.{}.altup_router_norm", "model.layers.{}.altup.router_norm"},
    {"blk.{}.altup_predict_coef", "model.layers.{}.altup.prediction_coefs"},
    {"blk.{}.altup_correct_coef", "model.layers.{}.altup.correction_coefs"},
    {"blk.{}.altup_correct_scale.weight", "model.layers.{}.altup.correct_output_scale"},
    {"blk.{}.laurel_l", "model.layers.{}.laurel.linear_left"},
    {"blk.{}.laurel_r", "model.layers.{}.laurel.linear_right"},
    {"blk.{}.laurel_post_norm", "model.layers.{}.laurel.post_laurel_norm"},
}};
inline constexpr auto kGemma3n = joined(kGemma3, kLayerInputs, kGemma3nOwn);
inline constexpr std::array<GgufName, 11> kGemma4Own = {{
    {"blk.{}.layer_output_scale.weight", "model.layers.{}.layer_scalar"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.router.proj"},
    {"blk.{}.ffn_gate_inp.scale", "model.layers.{}.router.scale"},
    {"blk.{}.ffn_down_exps.scale", "model.layers.{}.router.per_expert_scale"},
    {"blk.{}.ffn_gate_up_exps", "model.layers.{}.experts.{e}.gate_up_proj"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.experts.{e}.down_proj"},
    {"blk.{}.post_ffw_norm_1", "model.layers.{}.post_feedforward_layernorm_1"},
    {"blk.{}.pre_ffw_norm_2", "model.layers.{}.pre_feedforward_layernorm_2"},
    {"blk.{}.post_ffw_norm_2", "model.layers.{}.post_feedforward_layernorm_2"},
}};
inline constexpr auto kGemma4 = joined(kGemma3, kLayerInputs, kGemma4Own);

inline constexpr std::array<GgufName, 2> kHunyuanNorms = {{
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.query_layernorm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.key_layernorm"},
}};
inline constexpr std::array<GgufName, 3> kHunyuanShared = {{
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_mlp.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_mlp.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_mlp.down_proj"},
}};
inline constexpr auto kHunyuan = joined(kLlama, kHunyuanNorms);
inline constexpr auto kHunyuanMoe = joined(kBody, kHunyuanNorms, kHunyuanShared, kExperts);
inline constexpr std::array<GgufName, 1> kMinimaxCorrection = {
    {{"blk.{}.exp_probs_b.bias", "model.layers.{}.block_sparse_moe.e_score_correction_bias"}}};
inline constexpr auto kMinimax = joined(kMixtral, kQkNorms, kMinimaxCorrection);

// Heads of encoders are named after BERT's classifier, regardless of the architecture.
inline constexpr std::array<GgufName, 14> kBert = {{
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"blk.{}.attn_q", "encoder.layer.{}.attention.self.query"},
    {"blk.{}.attn_k", "encoder.layer.{}.attention.self.key"},
    {"blk.{}.attn_v", "encoder.layer.{}.attention.self.value"},
    {"blk.{}.attn_output", "encoder.layer.{}.attention.output.dense"},
    {"blk.{}.attn_output_norm", "encoder.layer.{}.attention.output.LayerNorm"},
    {"blk.{}.ffn_up", "encoder.layer.{}.intermediate.dense"},
    {"blk.{}.ffn_down", "encoder.layer.{}.output.dense"},
    {"blk.{}.layer_output_norm", "encoder.layer.{}.output.LayerNorm"},
    {"cls", "pooler.dense"},
    {"cls.output", "classifier"},
}};
inline constexpr std::array<GgufName, 10> kNomicBert = {{
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "emb_ln"},
    {"blk.{}.attn_qkv", "encoder.layers.{}.attn.Wqkv"},
    {"blk.{}.attn_output", "encoder.layers.{}.attn.out_proj"},
    {"blk.{}.attn_output_norm", "encoder.layers.{}.norm1"},
    {"blk.{}.ffn_up", "encoder.layers.{}.mlp.fc11"},
    {"blk.{}.ffn_gate", "encoder.layers.{}.mlp.fc12"},
    {"blk.{}.ffn_down", "encoder.layers.{}.mlp.fc2"},
    {"blk.{}.layer_output_norm", "encoder.layers.{}.norm2"},
}};
inline constexpr std::array<GgufName, 12> kModernBert = {{
    {"token_embd", "model.embeddings.tok_embeddings"},
    {"token_embd_norm", "model.embeddings.norm"},
    {"blk.{}.attn_norm", "model.layers.{}.attn_norm"},
    {"blk.{}.attn_qkv", "model.layers.{}.attn.Wqkv"},
    {"blk.{}.attn_output", "model.layers.{}.attn.Wo"},
    {"blk.{}.ffn_norm", "model.layers.{}.mlp_norm"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.Wi"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.Wo"},
    {"output_norm", "model.final_norm"},
    {"cls", "head.dense"},
    {"cls.norm", "head.norm"},
    {"cls.output", "classifier"},
}};

}  // namespace quire::gguf_names
