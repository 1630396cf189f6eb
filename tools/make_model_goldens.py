#!/usr/bin/env python3
"""Makes tests/golden/models: tiny models with random weights and what transformers computes with them.

Each directory NAME has a checkpoint (config.json, model.safetensors or shards) and golden.json:
  cases: [{prompt, greedy, logits, logprobs}], computed in float32 on the CPU from the files as they are read back
    greedy    the tokens of greedy decoding after the prompt
    logits    of the prompt's last position, the whole vocabulary
    logprobs  of prompt[i + 1] after prompt[: i + 1]
rope.json holds inverse frequencies and attention factors of rope configurations of real sizes.

Usage: make_model_goldens.py [--out DIR] [NAME...]       no name: all of them
"""

import argparse
import copy
import json
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

NEW_TOKENS = 24
PROMPT_LENGTHS = (1, 11, 41)
# Greedy decoding must not hang on rounding: the best logit leads by this share of the largest magnitude.
MIN_MARGIN = 1e-3
CLEAR_MARGIN = 1e-2

LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=96, hidden_size=32, intermediate_size=28,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5,
    hidden_act="silu", bos_token_id=1, eos_token_id=2)
SMALL = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1)
MISTRAL = LLAMA | dict(model_type="mistral", architectures=["MistralForCausalLM"], tie_word_embeddings=True)
QWEN2 = LLAMA | dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], tie_word_embeddings=True, rope_theta=1e6)
QWEN3 = LLAMA | dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], tie_word_embeddings=True, head_dim=12,
                     rope_theta=1e6, hidden_size=24)
GPT2 = dict(
    model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=96, n_embd=24, n_layer=2, n_head=3, n_positions=96,
    n_inner=None, activation_function="gelu_new", layer_norm_epsilon=1e-5, bos_token_id=95, eos_token_id=95)

# A small body for the many that are described in Llama's words.
DENSE = dict(
    vocab_size=96, hidden_size=24, intermediate_size=28, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True)
FALCON = dict(
    model_type="falcon", architectures=["FalconForCausalLM"], vocab_size=96, hidden_size=32, num_hidden_layers=2,
    num_attention_heads=4, multi_query=True, parallel_attn=True, new_decoder_architecture=False, alibi=False, bias=False,
    max_position_embeddings=128, bos_token_id=1, eos_token_id=2)
NEOX = dict(
    model_type="gpt_neox", architectures=["GPTNeoXForCausalLM"], vocab_size=96, hidden_size=32, intermediate_size=40,
    num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128, rotary_pct=0.25, hidden_act="gelu", bos_token_id=1,
    eos_token_id=2, tie_word_embeddings=False)

# Four small experts, of which two are chosen.
MOE = DENSE | dict(hidden_size=24, num_hidden_layers=2, tie_word_embeddings=True)
GRANITE_MOE = MOE | dict(model_type="granitemoe", architectures=["GraniteMoeForCausalLM"], intermediate_size=16, embedding_multiplier=1.5,
                         residual_multiplier=0.8, attention_multiplier=0.2, logits_scaling=2.5, num_local_experts=5, num_experts_per_tok=3)
SIGMOID_MOE = MOE | dict(num_hidden_layers=3, moe_intermediate_size=12, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2,
                         first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, head_dim=8)

GEMMA4 = DENSE | dict(
    model_type="gemma4_text", architectures=["Gemma4ForCausalLM"], head_dim=6, global_head_dim=8, sliding_window=8, pad_token_id=0,
    vocab_size_per_layer_input=96, rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=1e4),
        full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=1e6)))

GEMMA3N = DENSE | dict(
    model_type="gemma3n_text", architectures=["Gemma3nForCausalLM"], num_hidden_layers=5, head_dim=6, sliding_window=8, pad_token_id=0,
    hidden_activation="gelu_pytorch_tanh", intermediate_size=[28, 28, 20, 28, 28], vocab_size_per_layer_input=96,
    hidden_size_per_layer_input=6, altup_num_inputs=4, laurel_rank=5, num_kv_shared_layers=2, final_logit_softcapping=30.0,
    activation_sparsity_pattern=[0.6, 0.3, 0.0, 0.0, 0.0], rope_theta=1e6, rope_local_base_freq=1e4,
    layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"])

# Heads whose values are smaller than their keys.
MIMO = {k: v for k, v in SIGMOID_MOE.items() if k not in ("first_k_dense_replace", "n_shared_experts")} | dict(
    model_type="mimo_v2_flash", architectures=["MiMoV2FlashForCausalLM"], num_key_value_heads=1, head_dim=12, v_head_dim=8, sliding_window=8,
    n_group=3, topk_group=2)

# Latent attention.
MLA = {k: v for k, v in SIGMOID_MOE.items() if k != "head_dim"} | dict(
    num_hidden_layers=2, num_key_value_heads=4, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=8)

# Queries that attend to chosen keys: to fewer than the longest prompt has.
INDEXED = MLA | dict(q_lora_rank=20, index_n_heads=8, index_head_dim=8, index_topk=16)

# Blocks of keys are chosen in the last two layers.
MINIMAX_M3 = MOE | dict(
    model_type="minimax_m3_vl_text", architectures=["MiniMaxM3VLForCausalLM"], num_hidden_layers=3, head_dim=8, intermediate_size=12,
    dense_intermediate_size=28, shared_intermediate_size=16, num_local_experts=5, num_experts_per_tok=2, tie_word_embeddings=False,
    rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5), mlp_layer_types=["dense", "sparse", "sparse"],
    layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"], index_n_heads=2, index_head_dim=6, index_block_size=16,
    index_topk_blocks=2, index_local_blocks=1)

# Keys that stand for four and for sixteen tokens, of which the former are chosen; windows, hashed experts, streams.
DEEPSEEK_V4 = {k: v for k, v in DENSE.items() if k != "intermediate_size"} | dict(
    model_type="deepseek_v4", architectures=["DeepseekV4ForCausalLM"], num_hidden_layers=4, num_key_value_heads=1, head_dim=16, q_lora_rank=20,
    moe_intermediate_size=12, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, sliding_window=8, o_groups=2, o_lora_rank=10, index_n_heads=8,
    index_head_dim=12, index_topk=4, hc_mult=3, hc_sinkhorn_iters=6, tie_word_embeddings=False, pad_token_id=0, compress_rope_theta=1000.0, rope_theta=1e4)

LATENT_SIZES = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
DENSE_MLA = DENSE | {k: v for k, v in MLA.items() if k in LATENT_SIZES} | dict(num_hidden_layers=2, num_key_value_heads=4)

LONGCAT = {k: v for k, v in DENSE_MLA.items() if k != "num_hidden_layers"} | dict(
    model_type="longcat_flash", architectures=["LongcatFlashForCausalLM"], num_layers=2, q_lora_rank=20, ffn_hidden_size=28, moe_topk=3,
    n_routed_experts=4, zero_expert_num=3, expert_ffn_hidden_size=12, routed_scaling_factor=1.5, head_dim=4, tie_word_embeddings=False)

# Layers that carry a state.
DELTA = MOE | dict(
    num_hidden_layers=4, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=10,
    linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"])
OLMO_HYBRID = DELTA | dict(model_type="olmo_hybrid", architectures=["OlmoHybridForCausalLM"], pad_token_id=0)
KIMI_LINEAR = {k: v for k, v in MLA.items() if k not in ("first_k_dense_replace", "n_routed_experts")} | dict(
    model_type="kimi_linear", architectures=["KimiLinearForCausalLM"], num_hidden_layers=3, num_local_experts=6, linear_num_heads=2,
    linear_head_dim=10, pad_token_id=0, tie_word_embeddings=False)
BAILING = {k: v for k, v in MLA.items() if k not in ("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "norm_topk_prob")} | dict(
    model_type="bailing_hybrid", architectures=["BailingHybridForCausalLM"], num_hidden_layers=3, num_experts=6, num_experts_per_token=2,
    num_shared_experts=1, head_dim=6, rope_theta=1000.0, kda_lower_bound=-3.0, num_mtp_layers=0, pad_token_id=0,
    tie_word_embeddings=False)
MAMBA_SIZES = dict(mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=10, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16)
GRANITE_HYBRID = GRANITE_MOE | MAMBA_SIZES | dict(
    model_type="granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"], num_hidden_layers=3, shared_intermediate_size=20,
    layer_types=["mamba", "attention", "mamba"])
LFM2 = DENSE | dict(conv_L_cache=3, conv_bias=True, norm_eps=1e-5, pad_token_id=0, layer_types=["conv", "full_attention", "conv"])

FALCON_H1 = DENSE | MAMBA_SIZES | dict(
    model_type="falcon_h1", architectures=["FalconH1ForCausalLM"], mamba_d_ssm=36, mamba_d_head=6, pad_token_id=0,
    lm_head_multiplier=0.7, embedding_multiplier=1.5, mlp_multipliers=[0.8, 1.2], key_multiplier=0.6, attention_out_multiplier=1.1,
    attention_in_multiplier=0.9, ssm_multipliers=[0.8, 1.1, 0.9, 1.2, 0.7], ssm_in_multiplier=1.3, ssm_out_multiplier=0.9)

ZAMBA2 = DENSE | dict(
    model_type="zamba2", architectures=["Zamba2ForCausalLM"], hidden_size=20, mamba_d_state=10, mamba_ngroups=2, n_mamba_heads=4,
    chunk_size=16, adapter_rank=5, pad_token_id=0, num_key_value_heads=4)

LFM3 = DENSE | dict(
    model_type="lfm3", architectures=["Lfm3ForCausalLM"], num_hidden_layers=4, head_dim=8, conv_L_cache=5, conv_bias=False, norm_eps=1e-5,
    pad_token_id=0, sliding_window=8, layer_types=["conv", "full_attention", "sliding_attention", "conv"], rope_parameters=dict(
        full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=1e6),
        sliding_attention=dict(rope_type="default", rope_theta=1e4)))

LAGUNA = MOE | dict(
    model_type="laguna", architectures=["LagunaForCausalLM"], num_hidden_layers=3, head_dim=8, moe_intermediate_size=12, num_experts=5,
    num_experts_per_tok=2, shared_expert_intermediate_size=20, moe_routed_scaling_factor=1.5, sliding_window=8,
    num_attention_heads_per_layer=[4, 2, 6], layer_types=["full_attention", "sliding_attention", "sliding_attention"])


def inside(model_type, name, text, vision):
    """A model that also sees, of which the text part is looked at."""
    return dict(model_type=model_type, architectures=[f"{name}ForConditionalGeneration"], tie_word_embeddings=text["tie_word_embeddings"],
                text_config=text, vision_config=vision)


# What is seen with is not written: modules whose names have one of these.
SEEING = ("vision", "visual", "vit", "resampler", "projector", "patch_merger", "view_separator")
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, depth=1, num_heads=2, num_attention_heads=2, out_hidden_size=24)

# name: (config.json as written, dtype of the weights, what else: "shards", "bare_names", "published": tensors named as the hub's
# checkpoints have them, experts apart; "text": without what the model sees with, also of "text published"; "longest": rotations of the longest sequence for all lengths;
# "clear": greedy tokens lead by more than products of rounded activations change; "sdpa": not by the eager attention, which adds Falcon's biases twice)
MODELS = {
    "llama": (LLAMA | dict(tie_word_embeddings=True, rope_theta=10000.0), "float32", ""),
    "llama-untied": (LLAMA | SMALL | dict(tie_word_embeddings=False, num_hidden_layers=3), "float32", ""),
    "llama-rope-linear": (LLAMA | SMALL | dict(tie_word_embeddings=True, rope_scaling=dict(type="linear", factor=2.5)), "float32", ""),
    "llama-rope-llama3": (LLAMA | SMALL | dict(
        tie_word_embeddings=True, rope_parameters=dict(
            rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=64)), "float32", ""),
    "llama-rope-yarn": (LLAMA | SMALL | dict(
        tie_word_embeddings=True, rope_theta=10000.0, rope_scaling=dict(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32)), "float32", ""),
    "llama-bias": (LLAMA | SMALL | dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
                   "float32", ""),
    "llama-head-dim": (LLAMA | dict(tie_word_embeddings=True, hidden_size=24, num_attention_heads=4, head_dim=10), "float32", ""),
    "llama-bfloat16": (LLAMA | dict(tie_word_embeddings=False, torch_dtype="bfloat16"), "bfloat16", ""),
    "llama-float16": (LLAMA | dict(tie_word_embeddings=True, dtype="float16"), "float16", ""),
    "llama-sharded": (LLAMA | SMALL | dict(tie_word_embeddings=False), "float32", "shards"),
    "tinyllama": (LLAMA | dict(tie_word_embeddings=False, hidden_size=32, num_attention_heads=8, num_key_value_heads=1,
                               intermediate_size=20), "float32", ""),
    "smollm2": (LLAMA | dict(tie_word_embeddings=True, hidden_size=36, num_attention_heads=9, num_key_value_heads=3,
                             rope_theta=100000.0, intermediate_size=24), "float32", ""),
    "mistral": (MISTRAL | dict(sliding_window=8), "float32", ""),
    "mistral-full": (MISTRAL | SMALL | dict(sliding_window=None), "float32", ""),
    "mistral-bfloat16": (MISTRAL | dict(sliding_window=8), "bfloat16", ""),
    "qwen2": (QWEN2 | dict(sliding_window=8, use_sliding_window=False, max_window_layers=1), "float32", ""),
    "qwen2-window": (QWEN2 | SMALL | dict(sliding_window=8, use_sliding_window=True, max_window_layers=1), "float32", ""),
    "qwen2-bfloat16": (QWEN2 | dict(use_sliding_window=False), "bfloat16", ""),
    "qwen3": (QWEN3, "float32", ""),
    "qwen3-bias": (QWEN3 | dict(attention_bias=True, tie_word_embeddings=False, use_sliding_window=True, sliding_window=8,
                                layer_types=["sliding_attention", "full_attention"]), "float32", ""),
    "qwen3-float16": (QWEN3, "float16", ""),
    "internlm3": (LLAMA | SMALL | dict(model_type="internlm3", architectures=["InternLM3ForCausalLM"], head_dim=10, tie_word_embeddings=False),
                  "float32", ""),
    "iquestcoder": (LLAMA | SMALL | dict(model_type="iquestcoder", architectures=["IQuestCoderForCausalLM"], head_dim=6, tie_word_embeddings=False),
                    "float32", ""),
    "bloom": (dict(model_type="bloom", architectures=["BloomForCausalLM"], vocab_size=96, hidden_size=36, n_layer=3, n_head=6,
                   seq_length=128, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False), "float32", ""),
    "mpt": (dict(model_type="mpt", architectures=["MPTForCausalLM"], vocab_size=96, d_model=32, n_heads=4, n_layers=2,
                 expansion_ratio=4, max_seq_len=128, tie_word_embeddings=True), "float32", ""),
    "mpt-saved-again": (dict(model_type="mpt", architectures=["MptForCausalLM"], vocab_size=96, d_model=24, n_heads=3, n_layers=2,
                             expansion_ratio=4, max_seq_len=128, tie_word_embeddings=True), "float32", ""),
    "cohere": (DENSE | dict(model_type="cohere", architectures=["CohereForCausalLM"], logit_scale=0.25), "float32", ""),
    "cohere2": (DENSE | dict(model_type="cohere2", architectures=["Cohere2ForCausalLM"], sliding_window=8,
                             layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "float32", ""),
    "ernie4_5": (DENSE | dict(model_type="ernie4_5", architectures=["Ernie4_5ForCausalLM"], head_dim=8, use_bias=False), "float32", ""),
    "exaone4": (DENSE | dict(model_type="exaone4", architectures=["Exaone4ForCausalLM"], sliding_window=8,
                             sliding_window_pattern=3), "float32", ""),
    "exaone4-full": (DENSE | dict(model_type="exaone4", architectures=["Exaone4ForCausalLM"], sliding_window=None,
                                  layer_types=["full_attention"] * 3), "float32", ""),
    "falcon": (FALCON, "float32", ""),
    "falcon-old": (FALCON | dict(multi_query=False, parallel_attn=False, bias=True), "float32", ""),
    "falcon-new": (FALCON | dict(new_decoder_architecture=True, num_kv_heads=2), "float32", ""),
    "falcon-new-one-norm": (FALCON | dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1), "float32", ""),
    "gemma": (DENSE | dict(model_type="gemma", architectures=["GemmaForCausalLM"], head_dim=8,
                           hidden_act="gelu_pytorch_tanh"), "float32", ""),
    "gemma2": (DENSE | dict(model_type="gemma2", architectures=["Gemma2ForCausalLM"], head_dim=8, sliding_window=8,
                            query_pre_attn_scalar=12, attn_logit_softcapping=4.0, final_logit_softcapping=30.0), "float32", ""),
    "gemma3": (DENSE | dict(model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], head_dim=8, sliding_window=8,
                            query_pre_attn_scalar=12, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                            rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                                 sliding_attention=dict(rope_type="default", rope_theta=1e4))), "float32", ""),
    "gemma3-old-fields": (DENSE | dict(
        model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], head_dim=8, sliding_window=8, sliding_window_pattern=2,
        query_pre_attn_scalar=12, rope_theta=1e6, rope_local_base_freq=1e3, rope_scaling=dict(rope_type="linear", factor=4.0)),
                          "float32", ""),
    "glm": (DENSE | dict(model_type="glm", architectures=["GlmForCausalLM"], pad_token_id=0, head_dim=8, tie_word_embeddings=False), "float32", ""),
    "glm4": (DENSE | dict(model_type="glm4", architectures=["Glm4ForCausalLM"], pad_token_id=0, head_dim=8, tie_word_embeddings=False,
                          partial_rotary_factor=0.5), "float32", ""),
    "gpt_neox": (NEOX, "float32", ""),
    "gpt_neox-sequential": (NEOX | dict(use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=500), "float32", ""),
    "gptj": (GPT2 | dict(model_type="gptj", architectures=["GPTJForCausalLM"], rotary_dim=4, tie_word_embeddings=False), "float32", ""),
    "granite": (DENSE | dict(model_type="granite", architectures=["GraniteForCausalLM"], embedding_multiplier=1.5,
                             residual_multiplier=1.3, attention_multiplier=0.2, logits_scaling=2.5), "float32", ""),
    "olmo2": (DENSE | dict(model_type="olmo2", architectures=["Olmo2ForCausalLM"], tie_word_embeddings=False), "float32", ""),
    "olmo3": (DENSE | dict(model_type="olmo3", architectures=["Olmo3ForCausalLM"], tie_word_embeddings=False, sliding_window=8,
                           layer_types=["sliding_attention", "sliding_attention", "full_attention"], rope_theta=500000.0,
                           rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)), "float32", ""),
    "opt": (dict(model_type="opt", architectures=["OPTForCausalLM"], vocab_size=96, hidden_size=24, ffn_dim=36,
                 num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=96, word_embed_proj_dim=24,
                 do_layer_norm_before=True, bos_token_id=2, eos_token_id=2), "float32", ""),
    "phi": (DENSE | dict(model_type="phi", architectures=["PhiForCausalLM"], hidden_act="gelu_new", tie_word_embeddings=False, hidden_size=32,
                         partial_rotary_factor=0.5), "float32", ""),
    "persimmon": (DENSE | dict(model_type="persimmon", architectures=["PersimmonForCausalLM"], hidden_size=32, num_hidden_layers=2,
                               tie_word_embeddings=False), "float32", ""),
    "persimmon-plain-queries": (DENSE | dict(model_type="persimmon", architectures=["PersimmonForCausalLM"], num_hidden_layers=2,
                                             hidden_act="gelu", qk_layernorm=False, partial_rotary_factor=0.34), "float32", ""),
    "phi3": (DENSE | dict(model_type="phi3", architectures=["Phi3ForCausalLM"], tie_word_embeddings=False, sliding_window=9,
                          pad_token_id=0), "float32", ""),
    "phi4-mini": (DENSE | dict(model_type="phi3", architectures=["Phi3ForCausalLM"], partial_rotary_factor=0.75,
                               hidden_size=32, pad_token_id=0), "float32", ""),
    "seed_oss": (DENSE | dict(model_type="seed_oss", architectures=["SeedOssForCausalLM"], head_dim=10, attention_bias=True,
                              attention_out_bias=False), "float32", ""),
    "smollm3": (DENSE | dict(model_type="smollm3", architectures=["SmolLM3ForCausalLM"], no_rope_layers=[1, 0, 1], pad_token_id=0),
                "float32", ""),
    "smollm3-usual-positions": (DENSE | dict(model_type="smollm3", architectures=["SmolLM3ForCausalLM"], num_hidden_layers=4, pad_token_id=0),
                                "float32", ""),
    "stablelm": (DENSE | dict(model_type="stablelm", architectures=["StableLmForCausalLM"], use_qkv_bias=True, hidden_size=32,
                              tie_word_embeddings=False, partial_rotary_factor=0.25), "float32", ""),
    "stablelm-parallel": (DENSE | dict(model_type="stablelm", architectures=["StableLmForCausalLM"], use_parallel_residual=True,
                                       hidden_size=32, partial_rotary_factor=0.5, tie_word_embeddings=False), "float32", ""),
    "stablelm-qk-norm": (DENSE | dict(model_type="stablelm", architectures=["StableLmForCausalLM"], use_parallel_residual=True,
                                      qk_layernorm=True, hidden_size=32, partial_rotary_factor=0.5, tie_word_embeddings=False), "float32", ""),
    "phi-qk-norm": (DENSE | dict(model_type="phi", architectures=["PhiForCausalLM"], hidden_act="gelu_new", tie_word_embeddings=False,
                                 hidden_size=32, partial_rotary_factor=0.5, qk_layernorm=True), "float32", ""),
    "apertus": (DENSE | dict(model_type="apertus", architectures=["ApertusForCausalLM"], hidden_act="xielu", pad_token_id=0, tie_word_embeddings=False,
                             rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                  original_max_position_embeddings=64)), "float32", ""),
    "cwm": (DENSE | dict(model_type="cwm", architectures=["CwmForCausalLM"], head_dim=8, sliding_window=8, tie_word_embeddings=False,
                         layer_types=["full_attention", "sliding_attention", "sliding_attention"], rope_parameters=dict(
                             rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=64)), "float32", ""),
    "helium": (DENSE | dict(model_type="helium", architectures=["HeliumForCausalLM"], head_dim=6, pad_token_id=0), "float32", ""),
    "hyperclovax": (DENSE | dict(model_type="hyperclovax", architectures=["HyperCLOVAXForCausalLM"], head_dim=8, residual_multiplier=0.8,
                                 embedding_multiplier=1.5, logits_scaling=2.5, use_post_norm=True), "float32", ""),
    "granite_swa": (DENSE | dict(model_type="granite_swa", architectures=["GraniteSWAForCausalLM"], embedding_multiplier=1.5, sliding_window=8,
                                 attention_multiplier=0.3, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
                    "float32", ""),
    "vaultgemma": (DENSE | dict(model_type="vaultgemma", architectures=["VaultGemmaForCausalLM"], head_dim=8, sliding_window=8, pad_token_id=0,
                                query_pre_attn_scalar=12, attn_logit_softcapping=None, final_logit_softcapping=None), "float32", ""),
    "gpt_neo": (dict(model_type="gpt_neo", architectures=["GPTNeoForCausalLM"], vocab_size=96, hidden_size=24, num_layers=3, num_heads=3,
                     intermediate_size=None, max_position_embeddings=96, window_size=8, attention_types=[[["global", "local"], 1], [["local"], 1]],
                     bos_token_id=1, eos_token_id=2), "float32", ""),
    "gpt_bigcode": (dict(model_type="gpt_bigcode", architectures=["GPTBigCodeForCausalLM"], vocab_size=96, n_embd=24, n_layer=2, n_head=3,
                         n_positions=96, n_inner=40, multi_query=True, bos_token_id=1, eos_token_id=2), "float32", ""),
    "starcoder2": (DENSE | dict(model_type="starcoder2", architectures=["Starcoder2ForCausalLM"], hidden_act="gelu_pytorch_tanh",
                                sliding_window=8), "float32", ""),
    "mixtral": (MOE | dict(model_type="mixtral", architectures=["MixtralForCausalLM"], intermediate_size=16, num_local_experts=4,
                           num_experts_per_tok=2, sliding_window=None), "float32", "published"),
    "mixtral-stacked": (MOE | dict(model_type="mixtral", architectures=["MixtralForCausalLM"], intermediate_size=16, num_local_experts=4,
                                   num_experts_per_tok=2, sliding_window=8), "float32", ""),
    "mixtral-float16": (MOE | dict(model_type="mixtral", architectures=["MixtralForCausalLM"], intermediate_size=16,
                                    num_local_experts=4, num_experts_per_tok=2), "float16", "published"),
    "qwen2_moe": (MOE | dict(
        model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], num_hidden_layers=3, mlp_only_layers=[1], moe_intermediate_size=12,
        shared_expert_intermediate_size=20, num_experts=5, num_experts_per_tok=3, norm_topk_prob=False), "float32", "published"),
    "qwen2_moe-stacked": (MOE | dict(
        model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], moe_intermediate_size=12, decoder_sparse_step=2,
        shared_expert_intermediate_size=40, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True), "float32", ""),
    "qwen2_moe-all-experts": (MOE | dict(
        model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], moe_intermediate_size=12, shared_expert_intermediate_size=20,
        num_experts=5, num_experts_per_tok=3, norm_topk_prob=False), "float32", "published"),
    "qwen3_moe": (MOE | dict(
        model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], head_dim=8, moe_intermediate_size=12, num_experts=6,
        num_experts_per_tok=3, norm_topk_prob=True), "float32", "published"),
    "olmoe": (MOE | dict(model_type="olmoe", architectures=["OlmoeForCausalLM"], intermediate_size=12, num_experts=6,
                         num_experts_per_tok=3, pad_token_id=0), "float32", "published"),
    "flex_olmo": (MOE | dict(model_type="flex_olmo", architectures=["FlexOlmoForCausalLM"], intermediate_size=12, num_experts=5, norm_topk_prob=True,
                             num_experts_per_tok=2, pad_token_id=0), "float32", "published"),
    "granitemoe": (GRANITE_MOE, "float32", "published"),
    "granitemoeshared": (GRANITE_MOE | dict(model_type="granitemoeshared", architectures=["GraniteMoeSharedForCausalLM"],
                                            shared_intermediate_size=20), "float32", ""),
    "glm4_moe": (SIGMOID_MOE | dict(model_type="glm4_moe", architectures=["Glm4MoeForCausalLM"], n_group=3, topk_group=2,
                                    use_qk_norm=True, attention_bias=True), "float32", "published"),
    "dots1-no-window": (SIGMOID_MOE | dict(model_type="dots1", architectures=["Dots1ForCausalLM"], sliding_window=None), "float32", "published"),
    "dots1": (SIGMOID_MOE | dict(model_type="dots1", architectures=["Dots1ForCausalLM"], sliding_window=8, max_window_layers=1),
              "float32", "published"),
    "minimax_m2": (MOE | dict(model_type="minimax_m2", architectures=["MiniMaxM2ForCausalLM"], intermediate_size=12, head_dim=8,
                              rotary_dim=4, num_local_experts=5, num_experts_per_tok=2), "float32", "published"),
    "minimax_m3": (MINIMAX_M3, "float32", ""),
    "ernie4_5_moe": (MOE | dict(
        model_type="ernie4_5_moe", architectures=["Ernie4_5_MoeForCausalLM"], num_hidden_layers=3, moe_intermediate_size=12,
        moe_num_experts=5, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1, use_bias=True, pad_token_id=0, tie_word_embeddings=False), "float32", "published"),
    "phimoe-usual-router": (MOE | dict(
        model_type="phimoe", architectures=["PhimoeForCausalLM"], intermediate_size=16, num_local_experts=4, num_experts_per_tok=2,
        attention_bias=True, lm_head_bias=True, tie_word_embeddings=False), "float32", "published"),
    "phimoe": (MOE | dict(
        model_type="phimoe", architectures=["PhimoeForCausalLM"], intermediate_size=16, num_local_experts=4, num_experts_per_tok=2,
        router_jitter_noise=0.3, attention_bias=True, lm_head_bias=True, tie_word_embeddings=False), "float32", "published"),
    "gpt_oss": (MOE | dict(
        model_type="gpt_oss", architectures=["GptOssForCausalLM"], head_dim=8, intermediate_size=12, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=8, tie_word_embeddings=False, rope_theta=150000.0, rope_scaling=dict(
            rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=32)),
                "float32", ""),
    "gpt_oss-float16": (MOE | dict(
        model_type="gpt_oss", architectures=["GptOssForCausalLM"], head_dim=8, intermediate_size=12, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=8, layer_types=["full_attention", "sliding_attention"]), "float16", ""),
    "phi3-longrope": (DENSE | dict(
        model_type="phi3", architectures=["Phi3ForCausalLM"], tie_word_embeddings=False, pad_token_id=0, sliding_window=None,
        original_max_position_embeddings=32, rope_scaling=dict(
            type="longrope", short_factor=[1.0, 1.2, 1.5], long_factor=[1.1, 2.0, 4.0])), "float32", "longest"),
    "phi3-longrope-short": (DENSE | dict(
        model_type="phi3", architectures=["Phi3ForCausalLM"], pad_token_id=0, sliding_window=None,
        original_max_position_embeddings=128, rope_scaling=dict(
            type="longrope", short_factor=[1.0, 1.2, 1.5], long_factor=[1.1, 2.0, 4.0])), "float32", ""),
    "llama-rope-dynamic": (LLAMA | SMALL | dict(tie_word_embeddings=True, rope_scaling=dict(rope_type="dynamic", factor=2.0)), "float32", "longest"),
    "arcee": (DENSE | dict(model_type="arcee", architectures=["ArceeForCausalLM"]), "float32", ""),
    "cohere-qk-norm": (DENSE | dict(model_type="cohere", architectures=["CohereForCausalLM"], use_qk_norm=True), "float32", ""),
    "falcon-alibi": (FALCON | dict(alibi=True, new_decoder_architecture=True, num_kv_heads=2, bias=True), "float32", "sdpa"),
    "hunyuan_v1_dense": (DENSE | dict(
        model_type="hunyuan_v1_dense", architectures=["HunYuanDenseV1ForCausalLM"], head_dim=8, pad_token_id=0,
        rope_theta=10000.0, rope_scaling=dict(rope_type="dynamic", alpha=50.0, factor=1.0)), "float32", ""),
    "hunyuan_v1_dense-plain-rope": (DENSE | dict(
        model_type="hunyuan_v1_dense", architectures=["HunYuanDenseV1ForCausalLM"], head_dim=8, pad_token_id=0), "float32", ""),
    "hunyuan_v1_moe": (MOE | dict(
        model_type="hunyuan_v1_moe", architectures=["HunYuanMoEV1ForCausalLM"], head_dim=8, pad_token_id=0, intermediate_size=12,
        num_experts=4, moe_topk=2), "float32", "published"),
    "llama4": (MOE | dict(
        model_type="llama4_text", architectures=["Llama4ForCausalLM"], num_hidden_layers=4, head_dim=8, intermediate_size=12,
        intermediate_size_mlp=20, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layers=[1, 0, 1, 0],
        attention_chunk_size=16, floor_scale=8, attn_scale=0.3, use_qk_norm=True, rope_theta=500000.0), "float32", ""),
    "llama4-usual-positions": (MOE | dict(
        model_type="llama4_text", architectures=["Llama4ForCausalLM"], num_hidden_layers=4, head_dim=8, intermediate_size=12,
        intermediate_size_mlp=20, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, use_qk_norm=True,
        rope_theta=500000.0), "float32", ""),
    "ministral": (DENSE | dict(model_type="ministral", architectures=["MinistralForCausalLM"], head_dim=8, sliding_window=8,
                               layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "float32", ""),
    "ministral3": (DENSE | dict(
        model_type="ministral3", architectures=["Ministral3ForCausalLM"], head_dim=8, rope_parameters=dict(
            rope_type="yarn", rope_theta=1e6, factor=8.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0,
            mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)), "float32", ""),
    "nemotron": (DENSE | dict(model_type="nemotron", architectures=["NemotronForCausalLM"], hidden_size=32, hidden_act="relu2"),
                 "float32", ""),
    "olmo": (DENSE | dict(model_type="olmo", architectures=["OlmoForCausalLM"], pad_token_id=0), "float32", ""),
    "solar_open": ({k: v for k, v in SIGMOID_MOE.items() if k != "first_k_dense_replace"} | dict(
        model_type="solar_open", architectures=["SolarOpenForCausalLM"], num_hidden_layers=2), "float32", "published"),
    "deepseek_v2": (MLA | dict(
        model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"], q_lora_rank=None, topk_method="group_limited_greedy",
        n_group=3, topk_group=2, norm_topk_prob=False), "float32", "published"),
    "deepseek_v3": (MLA | dict(
        model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"], q_lora_rank=20, n_group=3, topk_group=2, rope_scaling=dict(
            rope_type="yarn", factor=4.0, mscale=1.0, mscale_all_dim=0.8, original_max_position_embeddings=32)), "float32", "published"),
    "deepseek_v32": (INDEXED | dict(
        model_type="deepseek_v32", architectures=["DeepseekV32ForCausalLM"], n_group=3, topk_group=2, rope_scaling=dict(
            rope_type="yarn", factor=4.0, mscale=1.0, mscale_all_dim=0.8, original_max_position_embeddings=32)), "float32", "published"),
    "deepseek_v4": (DEEPSEEK_V4 | dict(qk_rope_head_dim=8, compress_ratios=[0, 4, 128, 4, 0], compress_rate_hca=16, num_hash_layers=2, num_nextn_predict_layers=1,
        rope_scaling=dict(type="yarn", factor=4.0, beta_fast=32, beta_slow=1, original_max_position_embeddings=32)), "float32", "published"),
    "deepseek_v4-saved": (DEEPSEEK_V4 | dict(partial_rotary_factor=0.25, hc_mult=2, mlp_layer_types=["hash_moe", "moe", "moe", "hash_moe"], compress_rates=dict(compressed_sparse_attention=2, heavily_compressed_attention=10),
        layer_types=["heavily_compressed_attention", "compressed_sparse_attention", "sliding_attention", "compressed_sparse_attention"]), "float32", ""),
    "glm_moe_dsa": (INDEXED | dict(
        model_type="glm_moe_dsa", architectures=["GlmMoeDsaForCausalLM"], num_hidden_layers=3, indexer_types=["full", "shared", "full"]),
                    "float32", "published"),
    "glm4_moe_lite": (MLA | dict(model_type="glm4_moe_lite", architectures=["Glm4MoeLiteForCausalLM"], q_lora_rank=20,
                                 num_key_value_heads=4), "float32", ""),
    "longcat_flash": (LONGCAT, "float32", "published"),
    "mistral4": (MLA | dict(
        model_type="mistral4", architectures=["Mistral4ForCausalLM"], q_lora_rank=20, n_group=3, topk_group=2, rope_parameters=dict(
            rope_type="yarn", rope_theta=1e4, factor=8.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
            mscale_all_dim=1.0, llama_4_scaling_beta=0.3, partial_rotary_factor=0.4)), "float32", ""),
    "mimo_v2_flash": (MIMO | dict(num_hidden_layers=4, attention_bias=True), "float32", "published"),
    "mimo_v2_flash-usual-layers": (MIMO | dict(num_hidden_layers=7, attention_value_scale=None, sliding_window_size=6), "float32", ""),
    "minimax": (MOE | dict(
        model_type="minimax", architectures=["MiniMaxForCausalLM"], num_hidden_layers=4, intermediate_size=12, head_dim=8, num_local_experts=4,
        num_experts_per_tok=2, block_size=16, full_attn_alpha_factor=1.3, full_attn_beta_factor=0.9, linear_attn_alpha_factor=1.2,
        linear_attn_beta_factor=1.1, mlp_alpha_factor=1.4, mlp_beta_factor=0.8,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"]), "float32", "published"),
    "minicpm3": ({k: v for k, v in DENSE_MLA.items() if k != "v_head_dim"} | dict(
        model_type="minicpm3", architectures=["MiniCPM3ForCausalLM"], q_lora_rank=20, scale_emb=1.5, scale_depth=1.2, dim_model_base=16,
        original_max_position_embeddings=32, rope_scaling=dict(
            rope_type="longrope", original_max_position_embeddings=32, short_factor=[1.0, 1.2], long_factor=[1.1, 2.0])), "float32", "longest"),
    "minicpm3-usual-scales": (DENSE_MLA | dict(model_type="minicpm3", architectures=["MiniCPM3ForCausalLM"], q_lora_rank=20, v_head_dim=6),
                              "float32", ""),
    "youtu": (DENSE_MLA | dict(model_type="youtu", architectures=["YoutuForCausalLM"], q_lora_rank=20), "float32", ""),
    "youtu-whole-queries": (DENSE_MLA | dict(
        model_type="youtu", architectures=["YoutuForCausalLM"], q_lora_rank=None, rope_interleave=False, tie_word_embeddings=False), "float32", ""),
    "jais2": (DENSE | dict(model_type="jais2", architectures=["Jais2ForCausalLM"], head_dim=8, attention_bias=True, mlp_bias=True,
                           tie_word_embeddings=False), "float32", ""),
    "mellum": (MOE | dict(
        model_type="mellum", architectures=["MellumForCausalLM"], num_hidden_layers=3, head_dim=8, moe_intermediate_size=12, num_experts=6,
        num_experts_per_tok=3, norm_topk_prob=True, sliding_window=8, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=32),
            sliding_attention=dict(rope_type="default", rope_theta=1e4))), "float32", "published"),
    "hy_v3": (MOE | dict(
        model_type="hy_v3", architectures=["HYV3ForCausalLM"], num_hidden_layers=3, head_dim=8, moe_intermediate_size=12, num_experts=6,
        num_experts_per_tok=2, num_shared_experts=1, router_scaling_factor=1.5), "float32", "published"),
    "exaone_moe": (MOE | dict(
        model_type="exaone_moe", architectures=["ExaoneMoeForCausalLM"], num_hidden_layers=4, head_dim=8, moe_intermediate_size=12,
        num_experts=6, num_experts_per_tok=2, num_shared_experts=1, first_k_dense_replace=1, n_group=3, topk_group=2, routed_scaling_factor=1.5,
        sliding_window=8, sliding_window_pattern=3, tie_word_embeddings=False), "float32", "published"),
    "afmoe": (MOE | dict(
        model_type="afmoe", architectures=["AfmoeForCausalLM"], num_hidden_layers=5, head_dim=8, num_dense_layers=1, moe_intermediate_size=12,
        num_experts=5, num_experts_per_tok=2, num_shared_experts=2, route_scale=1.5, mup_enabled=True, sliding_window=8,
        tie_word_embeddings=False), "float32", "published"),
    "cohere2_moe": (MOE | dict(
        model_type="cohere2_moe", architectures=["Cohere2MoeForCausalLM"], num_hidden_layers=4, head_dim=6, intermediate_size=12,
        prefix_dense_intermediate_size=20, first_k_dense_replace=1, num_experts=5, num_experts_per_tok=2, num_shared_experts=2,
        expert_selection_fn="sigmoid", norm_topk_prob=True, sliding_window=8, sliding_window_pattern=3, logit_scale=0.25), "float32", "published"),
    "cohere2_moe-softmax": (MOE | dict(
        model_type="cohere2_moe", architectures=["Cohere2MoeForCausalLM"], num_hidden_layers=3, head_dim=6, intermediate_size=12, rms_norm_eps=1e-5,
        prefix_dense_intermediate_size=20, mlp_layer_types=["dense", "sparse", "sparse"], prefix_dense_sliding_window_pattern=2, num_experts=5,
        num_experts_per_tok=2, num_shared_experts=1, shared_expert_combination_strategy="sum", sliding_window=8, logit_scale=0.25,
        layer_types=["full_attention", "sliding_attention", "full_attention"]), "float32", "published"),
    "granitemoe_swa": (GRANITE_MOE | dict(
        model_type="granitemoe_swa", architectures=["GraniteMoeSWAForCausalLM"], num_hidden_layers=5, shared_intermediate_size=20,
        sliding_window=8, layer_rope_theta=[0, 1e4, 500.0, 1e4, 0]), "float32", "published"),
    "gemma3n": (GEMMA3N, "float32", ""),
    "gemma3n-common-inputs": (GEMMA3N | dict(vocab_size_per_layer_input=90, altup_num_inputs=3, altup_correct_scale=False,
                                             intermediate_size=28), "float32", ""),
    "gemma4": (GEMMA4 | dict(num_hidden_layers=4, hidden_size_per_layer_input=6, num_kv_shared_layers=2, use_double_wide_mlp=True,
                             layer_types=["sliding_attention", "full_attention"] * 2, final_logit_softcapping=30.0), "float32", ""),
    "gemma4-keys-as-values": (GEMMA4 | dict(
        num_hidden_layers=3, hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"]), "float32", ""),
    "gemma4-experts": (GEMMA4 | dict(
        num_hidden_layers=2, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=12,
        layer_types=["sliding_attention", "full_attention"]), "float32", ""),
    "opt-350m": (dict(model_type="opt", architectures=["OPTForCausalLM"], vocab_size=96, hidden_size=24, word_embed_proj_dim=16, ffn_dim=32,
                      num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=96, do_layer_norm_before=False, dropout=0.0,
                      bos_token_id=2, eos_token_id=2, pad_token_id=1), "float32", ""),
    "biogpt": (DENSE | dict(model_type="biogpt", architectures=["BioGptForCausalLM"], num_key_value_heads=4, num_hidden_layers=2), "float32", ""),
    "bitnet": (DENSE | dict(model_type="bitnet", architectures=["BitNetForCausalLM"], hidden_act="relu2"), "float32", ""),
    "mamba2-any-steps": (dict(
        model_type="mamba2", architectures=["Mamba2ForCausalLM"], vocab_size=96, hidden_size=24, num_hidden_layers=2, num_heads=6, head_dim=8,
        n_groups=2, state_size=10, conv_kernel=4, chunk_size=16, bos_token_id=1, eos_token_id=2, pad_token_id=0), "float32", ""),
    "mamba2": (dict(
        model_type="mamba2", architectures=["Mamba2ForCausalLM"], vocab_size=96, hidden_size=24, num_hidden_layers=3, num_heads=6, head_dim=8,
        n_groups=2, state_size=10, conv_kernel=4, use_bias=True, chunk_size=16, time_step_limit=[0.05, 2.0], bos_token_id=1, eos_token_id=2,
        pad_token_id=0, tie_word_embeddings=False), "float32", ""),
    "mamba": (dict(model_type="mamba", architectures=["MambaForCausalLM"], vocab_size=96, hidden_size=24, num_hidden_layers=3, state_size=5,
                   conv_kernel=4, time_step_rank=3, use_bias=True, expand=3, bos_token_id=1, eos_token_id=2, pad_token_id=0), "float32", ""),
    "falcon_mamba": (dict(
        model_type="falcon_mamba", architectures=["FalconMambaForCausalLM"], vocab_size=96, hidden_size=24, num_hidden_layers=3, state_size=6,
        conv_kernel=3, mixer_rms_eps=1e-3, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False), "float32", ""),
    "jamba": (MOE | dict(
        model_type="jamba", architectures=["JambaForCausalLM"], num_hidden_layers=4, attn_layer_period=3, attn_layer_offset=1, num_experts=4,
        expert_layer_period=2, expert_layer_offset=1, mamba_d_state=5, mamba_d_conv=4, mamba_dt_rank=3, pad_token_id=0, use_mamba_kernels=False),
              "float32", "published"),
    "qwen3_next": (DELTA | dict(
        model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"], mlp_only_layers=[1], moe_intermediate_size=12,
        shared_expert_intermediate_size=20, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True), "float32", "published"),
    "qwen3_next-all-experts": (DELTA | dict(
        model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"], num_hidden_layers=2, moe_intermediate_size=12,
        shared_expert_intermediate_size=20, num_experts=5, num_experts_per_tok=3, layer_types=["linear_attention", "full_attention"]),
                               "float32", "published"),
    "qwen3_5": (DELTA | dict(
        model_type="qwen3_5_text", architectures=["Qwen3_5ForCausalLM"], layer_types=None, full_attention_interval=2,
        linear_conv_kernel_dim=3, rope_parameters=dict(
            rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_interleaved=True, mrope_section=[1, 1, 0])),
                "float32", ""),
    "qwen3_5-bfloat16": (DELTA | dict(model_type="qwen3_5_text", architectures=["Qwen3_5ForCausalLM"]), "bfloat16", "clear"),
    "qwen3_5_moe": (DELTA | dict(
        model_type="qwen3_5_moe_text", architectures=["Qwen3_5MoeForCausalLM"], moe_intermediate_size=12, shared_expert_intermediate_size=20,
        num_experts=5, num_experts_per_tok=3), "float32", ""),
    "olmo_hybrid": (OLMO_HYBRID | dict(linear_value_head_dim=3, rope_parameters=dict(rope_type="default", rope_theta=None)),
                    "float32", "published"),
    "olmo_hybrid-turning": (OLMO_HYBRID | dict(linear_allow_neg_eigval=False, attention_bias=True, layer_types=None), "float32", ""),
    "kimi_linear": ({k: v for k, v in KIMI_LINEAR.items() if not k.startswith(("num_local_ex", "linear", "max_pos", "n_sh", "norm_top"))} | dict(
        q_lora_rank=None, num_experts=6, num_experts_per_token=2, num_shared_experts=1, num_expert_group=3, topk_group=2,
        moe_renormalize=True, model_max_length=128, first_k_dense_replace=1,
        linear_attn_config=dict(full_attn_layers=[2], kda_layers=[1, 3], num_heads=2, head_dim=10, short_conv_kernel_size=4)),
                    "float32", "published"),
    "kimi_linear-usual-layers": (KIMI_LINEAR | dict(num_hidden_layers=5, q_lora_rank=20, norm_topk_prob=False, linear_conv_kernel_dim=3), "float32", ""),
    "bailing_hybrid": (BAILING | dict(layer_group_size=3, moe_renormalize=True, num_expert_group=3, topk_group=2), "float32", "published"),
    "bailing_hybrid-unbound": (BAILING | dict(layer_types=["full_attention", "linear_attention", "linear_attention"], kda_safe_gate=False, n_group=1,
                                              topk_group=1, norm_topk_prob=False), "float32", ""),
    "nemotron_h": (DENSE | dict(
        model_type="nemotron_h", architectures=["NemotronHForCausalLM"], num_hidden_layers=6, hybrid_override_pattern="M-*EM-", head_dim=8,
        mamba_num_heads=6, mamba_head_dim=10, n_groups=2, ssm_state_size=12, conv_kernel=4, chunk_size=16, use_bias=True, mlp_bias=True,
        n_routed_experts=6, n_shared_experts=1, moe_intermediate_size=12, moe_shared_expert_intermediate_size=20, num_experts_per_tok=2,
        n_group=3, topk_group=2, routed_scaling_factor=1.5, pad_token_id=0, tie_word_embeddings=False), "float32", "published"),
    "granitemoehybrid": (GRANITE_HYBRID, "float32", "published"),
    "granitemoehybrid-dense": (GRANITE_HYBRID | dict(
        num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope", mamba_conv_bias=False), "float32", ""),
    "bamba": (DENSE | MAMBA_SIZES | dict(
        model_type="bamba", architectures=["BambaForCausalLM"], hidden_size=32, mamba_n_heads=8, mamba_d_head="auto", attn_layer_indices=[1],
        tie_word_embeddings=False, pad_token_id=0, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)),
              "float32", ""),
    "falcon_h1": (FALCON_H1, "float32", ""),
    "falcon_h1-untied": (FALCON_H1 | dict(tie_word_embeddings=False), "float32", ""),
    "falcon_h1-norm": (DENSE | MAMBA_SIZES | dict(
        model_type="falcon_h1", architectures=["FalconH1ForCausalLM"], mamba_d_ssm=48, pad_token_id=0, mamba_rms_norm=True,
        mamba_norm_before_gate=True, projectors_bias=True, mlp_bias=True), "float32", ""),
    "zamba2": (ZAMBA2 | dict(
        num_hidden_layers=4, layers_block_type=["hybrid", "linear_attention", "hybrid", "hybrid"], num_mem_blocks=2,
        use_shared_attention_adapter=True, use_mem_rope=True, use_long_context=True, add_bias_linear=True), "float32", "published"),
    "zamba2-one-block": (ZAMBA2 | dict(
        num_hidden_layers=3, layers_block_type=["linear_attention", "hybrid", "hybrid"], num_key_value_heads=2),
                         "float32", "published"),
    "lfm2": (LFM2 | dict(model_type="lfm2", architectures=["Lfm2ForCausalLM"], block_multiple_of=8), "float32", ""),
    "lfm2-no-bias": (LFM2 | dict(model_type="lfm2", architectures=["Lfm2ForCausalLM"], block_multiple_of=8, conv_bias=False), "float32", ""),
    "lfm2_moe": (LFM2 | dict(
        model_type="lfm2_moe", architectures=["Lfm2MoeForCausalLM"], num_dense_layers=1, moe_intermediate_size=12, num_experts=5,
        num_experts_per_tok=2, use_expert_bias=True, norm_topk_prob=True, conv_bias=False), "float32", "published"),
    "lfm3": (LFM3, "float32", ""),
    "lfm3-plain": (LFM3 | dict(use_sandwich_norm=False, use_attention_gate=False, conv_bias=True, attention_bias=True), "float32", "published"),
    "aria": (MOE | dict(model_type="aria_text", architectures=["AriaTextForCausalLM"], intermediate_size=12, moe_num_experts=5, moe_topk=2,
                        moe_num_shared_experts=2, pad_token_id=0, head_dim=8), "float32", "published"),
    "laguna": (LAGUNA | dict(rope_parameters=dict(
        full_attention=dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=32, partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0))), "float32", "published"),
    "laguna-per-element": (LAGUNA | dict(gating="per-element", attention_bias=True, num_attention_heads_per_layer=None), "float32", ""),
    "nanochat": (DENSE | dict(model_type="nanochat", architectures=["NanoChatForCausalLM"], hidden_size=32, num_hidden_layers=2,
                              tie_word_embeddings=False, pad_token_id=0), "float32", ""),
    "codegen": (GPT2 | dict(model_type="codegen", architectures=["CodeGenForCausalLM"], rotary_dim=4, n_embd=32, n_head=4,
                            tie_word_embeddings=False), "float32", ""),
    "openai-gpt": (dict(model_type="openai-gpt", architectures=["OpenAIGPTLMHeadModel"], vocab_size=96, n_embd=24, n_layer=2, n_head=3,
                        n_positions=96, afn="gelu"), "float32", ""),
    "mllama": (inside("mllama", "Mllama", LLAMA | SMALL | dict(
        model_type="mllama_text_model", num_hidden_layers=4, cross_attention_layers=[1, 3], pad_token_id=0, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=64)), VISION | dict(
                                 num_global_layers=1, attention_heads=2, vision_output_dim=32, image_size=28, intermediate_layers_indices=[0])),
               "float32", "text"),
    "glm_ocr": (inside("glm_ocr", "GlmOcr", DENSE | dict(model_type="glm_ocr_text", head_dim=8, pad_token_id=0, rope_parameters=dict(
        rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[1, 1, 0])), VISION), "float32", "text"),
    "paddleocr_vl": (inside("paddleocr_vl", "PaddleOCRVL", DENSE | dict(model_type="paddleocr_vl_text", head_dim=8, rope_parameters=dict(
        rope_type="default", rope_theta=1e4, mrope_section=[1, 1, 2])), VISION), "float32", "text"),
    "gemma4_unified": (GEMMA4 | dict(
        model_type="gemma4_unified_text", architectures=["Gemma4UnifiedForCausalLM"], num_hidden_layers=4, num_kv_shared_layers=2,
        layer_types=["sliding_attention", "full_attention"] * 2), "float32", ""),
    "hunyuan_vl": (inside("hunyuan_vl", "HunYuanVL", DENSE | dict(model_type="hunyuan_vl_text", head_dim=8, pad_token_id=0, rope_parameters=dict(
        rope_type="xdrope", rope_theta=1e4, alpha=50.0, factor=1.0, xdrope_section=[1, 1, 1, 1])), VISION), "float32", "text"),
    "modernbert-decoder": (DENSE | dict(model_type="modernbert-decoder", architectures=["ModernBertDecoderForCausalLM"], num_hidden_layers=4,
                                        local_attention=16, pad_token_id=0, norm_bias=True), "float32", ""),
    "modernbert-decoder-untied": (DENSE | dict(
        model_type="modernbert-decoder", architectures=["ModernBertDecoderForCausalLM"], local_attention=16, pad_token_id=0,
        classifier_bias=True, decoder_bias=False, tie_word_embeddings=False), "float32", ""),
    "muse_glimmer": (inside("muse_glimmer", "MuseGlimmer", DENSE | dict(
        model_type="muse_glimmer_text", num_hidden_layers=5, head_dim=8, sliding_window=8, tie_word_embeddings=False), VISION), "float32", "text"),
    "cohere_compass": (DENSE | dict(
        model_type="cohere_compass_text", architectures=["CohereCompassForCausalLM"], hidden_size=32, sliding_window=8, logit_scale=0.25,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 1, 1]), full_attention=None)), "float32", ""),
    "deepseek_ocr2": (inside("deepseek_ocr2", "DeepseekOcr2", {k: v for k, v in SIGMOID_MOE.items() if not k.startswith(("first", "norm", "head"))} | dict(
        model_type="deepseek_v2", num_key_value_heads=4, mlp_layer_types=["dense", "sparse", "sparse"], topk_method="greedy"), dict(
            sam_config=dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, mlp_dim=16, output_channels=8, downsample_channels=[8, 8],
                            image_size=64, global_attn_indexes=[0]),
            encoder_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2))),
                      "float32", "text"),
    "ernie4_5_vl_moe": (inside("ernie4_5_vl_moe", "Ernie4_5_VLMoe", MOE | dict(
        model_type="ernie4_5_vl_moe_text", num_hidden_layers=3, moe_intermediate_size=[12, 8], moe_num_experts=5, moe_k=2,
        moe_num_shared_experts=1, head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=5e5, mrope_section=[1, 1, 2])), VISION | dict(
            temporal_merge_size=2, in_channels=3, patch_size=4)), "float32", "text published"),
    "step3": (inside("step3p7", "Step3p7", MOE | dict(
        model_type="step3p5", num_hidden_layers=4, head_dim=8, num_sliding_attention_heads=6, sliding_window=8, moe_intermediate_size=12,
        n_routed_experts=5, num_experts_per_tok=2, share_expert_dim=20, moe_router_scaling_factor=1.5, tie_word_embeddings=False,
        layer_types=["full_attention", "sliding_attention"] * 2, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
        swiglu_limits=[0.0, 0.0, 0.3, 0.3], swiglu_limits_shared=[0.3, 0.0, 0.0, 0.4], rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=5e5, partial_rotary_factor=0.5),
            sliding_attention=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0))), VISION), "float32", "text published"),
    "xglm": (dict(model_type="xglm", architectures=["XGLMForCausalLM"], vocab_size=96, d_model=24, ffn_dim=40, num_layers=2, attention_heads=3,
                  max_position_embeddings=96, bos_token_id=0, eos_token_id=2, pad_token_id=1, tie_word_embeddings=False), "float32", ""),
    "ctrl": (dict(model_type="ctrl", architectures=["CTRLLMHeadModel"], vocab_size=96, n_embd=24, dff=40, n_layer=2, n_head=3, n_positions=96,
                  tie_word_embeddings=False), "float32", ""),
    "kolibri1": (MOE | dict(
        model_type="kolibri1", architectures=["Kolibri1ForCausalLM"], num_hidden_layers=3, head_dim=8, moe_intermediate_size=12,
        shared_expert_intermediate_size=20, num_experts=6, num_experts_per_tok=2, sliding_window=8, norm_topk_prob=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "float32", "published"),
    "gpt2": (GPT2, "float32", ""),
    "gpt2-bare-names": (GPT2 | dict(n_inner=40, scale_attn_by_inverse_layer_idx=True), "float32", "bare_names"),
    "gpt2-float16": (GPT2, "float16", ""),
}

LLAMA_ROPE = dict(model_type="llama", hidden_size=4096, num_attention_heads=32)
ROPES = {
    "llama-3.1-8b": LLAMA_ROPE | dict(max_position_embeddings=131072, rope_theta=500000.0, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)),
    "llama-3.2-1b": dict(model_type="llama", hidden_size=2048, num_attention_heads=32, head_dim=64,
                         max_position_embeddings=131072, rope_theta=500000.0, rope_scaling=dict(
                             rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=8192)),
    "llama-2-7b": LLAMA_ROPE | dict(max_position_embeddings=4096),
    "linear": LLAMA_ROPE | dict(max_position_embeddings=4096, rope_scaling=dict(type="linear", factor=4.0)),
    "yarn-qwen2.5": dict(model_type="qwen2", hidden_size=3584, num_attention_heads=28, max_position_embeddings=32768,
                         rope_theta=1000000.0, rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    "yarn-mscale": LLAMA_ROPE | dict(max_position_embeddings=163840, rope_scaling=dict(
        rope_type="yarn", factor=40.0, beta_fast=32, beta_slow=1, mscale=1.2, mscale_all_dim=0.7,
        original_max_position_embeddings=4096)),
    "yarn-whole": LLAMA_ROPE | dict(max_position_embeddings=131072, rope_scaling=dict(
        rope_type="yarn", factor=32.0, beta_fast=16.0, beta_slow=2.0, truncate=False, attention_factor=1.5,
        original_max_position_embeddings=4096)),
    "yarn-parameters": LLAMA_ROPE | dict(max_position_embeddings=65536, rope_parameters=dict(
        rope_type="yarn", rope_theta=150000.0, factor=16.0, original_max_position_embeddings=4096)),
}


def fill(model, generator):
    """Weights large enough that logits differ and attention looks at something."""
    # What multiplies the embeddings must not drown what the layers add.
    config = model.config.get_text_config()
    large = config.model_type.startswith("gemma") or getattr(config, "mup_enabled", False) or getattr(config, "scale_embedding", False)
    multiplier = config.hidden_size**0.5 if large else getattr(config, "embedding_multiplier", getattr(config, "scale_emb", 1.0))
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "correction" in name:
            value = noise * 0.1
        elif "A_log" in name:
            value = noise * 0.7 - 1.5  # states that fade over some tokens
        elif parameter.dim() >= 2:
            scale = 0.7 / multiplier if "embed" in name or "wte" in name else 0.3 if "wpe" in name else 1.6 / parameter.shape[-1] ** 0.5
            limited = config.model_type == "deepseek_v4" and any(part in name for part in ("gate_up_proj", "experts.gate_proj", "experts.up_proj"))
            value = noise * scale * (4.0 if limited else 1.0)  # gates come to their limit
        else:
            value = noise * 0.2 + (0.0 if name.endswith("bias") else 1.0)
        parameter.data.copy_(value)
    for name, buffer in model.named_buffers():
        if "correction" in name or "expert_bias" in name:
            buffer.data.copy_(torch.randn(buffer.shape, generator=generator) * 0.1)
        if "tid2eid" in name:
            buffer.data.copy_(torch.stack([torch.randperm(config.n_routed_experts, generator=generator)[:buffer.shape[1]] for _ in buffer]))
        if "layer_scalar" in name:
            buffer.data.copy_(1.0 + torch.randn(buffer.shape, generator=generator) * 0.1)


def write_checkpoint(path, config, model, dtype, kind):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tensors = model.state_dict()
    if kind.endswith("published"):
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    tensors = {name: (v.to(getattr(torch, dtype)) if v.is_floating_point() else v).contiguous().clone() for name, v in tensors.items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    if kind.startswith("text"):
        tensors = {name: value for name, value in tensors.items() if not any(part in name for part in SEEING)}
    if kind == "bare_names":
        tensors = {name.removeprefix("transformer."): value for name, value in tensors.items()}
        for layer in range(config["n_layer"]):
            # The causal masks that old versions of the library saved beside the weights.
            tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.uint8).tril()
            tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    if kind != "shards":
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    shards = [names[i::3] for i in range(3)]
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-00003.safetensors"
        save_file({name: tensors[name] for name in shard}, path / file, metadata={"format": "pt"})
        weight_map |= {name: file for name in shard}
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = dict(metadata=dict(total_size=total), weight_map=dict(sorted(weight_map.items())))
    (path / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def turn_as_the_longest(model):
    """Rotations that depend on a sequence's length become those of the longest sequence."""
    rope = model.config.rope_parameters
    length = model.config.max_position_embeddings * (rope["factor"] if rope["rope_type"] == "dynamic" else 1)
    rotary = model.model.rotary_emb
    inverse, _ = ROPE_INIT_FUNCTIONS[rope["rope_type"]](model.config, device="cpu", seq_len=int(length))
    rotary.inv_freq = rotary.original_inv_freq = inverse


@torch.no_grad()
def make_case(model, prompt):
    """The golden case and the smallest lead of a greedy token."""
    logits = model(torch.tensor([prompt]), use_cache=False).logits[0].float()
    logprobs = logits.log_softmax(-1)
    case = dict(
        prompt=prompt, greedy=[], logits=[round(x, 6) for x in logits[-1].tolist()],
        logprobs=[round(logprobs[i, prompt[i + 1]].item(), 6) for i in range(len(prompt) - 1)])
    margin = 1.0
    for _ in range(NEW_TOKENS):
        last = model(torch.tensor([prompt + case["greedy"]]), use_cache=False).logits[0, -1].float()
        best = last.topk(2).values
        margin = min(margin, ((best[0] - best[1]) / last.abs().max()).item())
        case["greedy"].append(int(last.argmax()))
        if margin < MIN_MARGIN:
            break
    return case, margin


@torch.no_grad()
def chooses_clearly(model, cases, generator):
    """Whether slightly different weights give nearly the same logits: no key is chosen, or not, by a hair."""
    if not hasattr(model.config, "index_topk") and not hasattr(model.config, "index_topk_blocks"):
        return True
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data.mul_(1.0 + 1e-5 * torch.randn(parameter.shape, generator=generator))
    for case in cases:
        tokens = torch.tensor([case["prompt"] + case["greedy"]])
        change = (model(tokens, use_cache=False).logits - other(tokens, use_cache=False).logits).abs().max()
        if change > 1e-2:
            return False
    return True


def make_model(path, config, dtype, kind):
    # Mistral 4 is listed among those that also see, Mllama among those that do not.
    plain = "text_config" not in config and type(AutoConfig.for_model(**config)) in MODEL_FOR_CAUSAL_LM_MAPPING
    family = AutoModelForCausalLM if plain else AutoModelForImageTextToText
    for seed in range(1000):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        model = family.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
        fill(model, generator)
        write_checkpoint(path, config, model, dtype, kind)
        model = family.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa" if kind == "sdpa" else "eager").eval()
        if kind == "longest":
            turn_as_the_longest(model)
        cases, good = [], True
        for length in PROMPT_LENGTHS:
            prompt = torch.randint(0, config.get("text_config", config)["vocab_size"], (length,), generator=generator).tolist()
            case, margin = make_case(model, prompt)
            cases.append(case)
            good = margin > (CLEAR_MARGIN if kind == "clear" else MIN_MARGIN) and len(set(case["greedy"])) >= 6
            if not good:
                break
        if good and chooses_clearly(model, cases, generator):
            break
    else:
        raise SystemExit(f"{path.name}: no seed gives clear greedy tokens")
    golden = dict(transformers=transformers.__version__, torch=torch.__version__, seed=seed, cases=cases)
    (path / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    size = sum(f.stat().st_size for f in path.iterdir())
    print(f"{path.name}: seed {seed}, {size} bytes, largest logit {max(map(abs, cases[-1]['logits'])):.2f}")


def make_ropes(path):
    out = {}
    for name, fields in ROPES.items():
        config = AutoConfig.for_model(**fields)
        kind = config.rope_parameters["rope_type"]
        if kind == "default":
            dim = config.hidden_size // config.num_attention_heads
            inverse = 1.0 / (config.rope_parameters["rope_theta"] ** (torch.arange(0, dim, 2).float() / dim))
            factor = 1.0
        else:
            inverse, factor = ROPE_INIT_FUNCTIONS[kind](config, device="cpu")
        out[name] = dict(config=fields, inverse_frequencies=inverse.tolist(), attention_factor=factor)
    path.write_text(json.dumps(out, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if not args.names:
        make_ropes(args.out / "rope.json")
    for name in args.names or MODELS:
        make_model(args.out / name, *MODELS[name])


if __name__ == "__main__":
    main()
