"""Golden models: mixtures of experts."""

from model_goldens.common import GRANITE_MOE, MOE, SIGMOID_MOE

# Heads with v_head_dim below the key size.
MIMO = {k: v for k, v in SIGMOID_MOE.items() if k not in ("first_k_dense_replace", "n_shared_experts")} | dict(
    model_type="mimo_v2_flash", architectures=["MiMoV2FlashForCausalLM"], num_key_value_heads=1, head_dim=12, v_head_dim=8, sliding_window=8,
    n_group=3, topk_group=2)

# Top-k block selection in the last two layers.
MINIMAX_M3 = MOE | dict(
    model_type="minimax_m3_vl_text", architectures=["MiniMaxM3VLForCausalLM"], num_hidden_layers=3, head_dim=8, intermediate_size=12,
    dense_intermediate_size=28, shared_intermediate_size=16, num_local_experts=5, num_experts_per_tok=2, tie_word_embeddings=False,
    rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5), mlp_layer_types=["dense", "sparse", "sparse"],
    layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"], index_n_heads=2, index_head_dim=6, index_block_size=16,
    index_topk_blocks=2, index_local_blocks=1)

LAGUNA = MOE | dict(
    model_type="laguna", architectures=["LagunaForCausalLM"], num_hidden_layers=3, head_dim=8, moe_intermediate_size=12, num_experts=5,
    num_experts_per_tok=2, shared_expert_intermediate_size=20, moe_routed_scaling_factor=1.5, sliding_window=8,
    num_attention_heads_per_layer=[4, 2, 6], layer_types=["full_attention", "sliding_attention", "sliding_attention"])

MODELS = {
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
    "minimax_m3-limit": (MINIMAX_M3 | dict(swiglu_limit=0.1), "float32", ""),
    "ernie4_5_moe": (MOE | dict(
        model_type="ernie4_5_moe", architectures=["Ernie4_5_MoeForCausalLM"], num_hidden_layers=3, moe_intermediate_size=12,
        moe_num_experts=5, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1, use_bias=True, pad_token_id=0, tie_word_embeddings=False), "float32", "published"),
    "phimoe-default-router": (MOE | dict(
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
    "gpt_oss-limit": (MOE | dict(
        model_type="gpt_oss", architectures=["GptOssForCausalLM"], head_dim=8, intermediate_size=12, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=8, swiglu_limit=0.1), "float32", ""),
    "gpt_oss-float16": (MOE | dict(
        model_type="gpt_oss", architectures=["GptOssForCausalLM"], head_dim=8, intermediate_size=12, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=8, layer_types=["full_attention", "sliding_attention"]), "float16", ""),
    "hunyuan_v1_moe": (MOE | dict(
        model_type="hunyuan_v1_moe", architectures=["HunYuanMoEV1ForCausalLM"], head_dim=8, pad_token_id=0, intermediate_size=12,
        num_experts=4, moe_topk=2), "float32", "published"),
    "llama4": (MOE | dict(
        model_type="llama4_text", architectures=["Llama4ForCausalLM"], num_hidden_layers=4, head_dim=8, intermediate_size=12,
        intermediate_size_mlp=20, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layers=[1, 0, 1, 0],
        attention_chunk_size=16, floor_scale=8, attn_scale=0.3, use_qk_norm=True, rope_theta=500000.0), "float32", ""),
    "llama4-default-positions": (MOE | dict(
        model_type="llama4_text", architectures=["Llama4ForCausalLM"], num_hidden_layers=4, head_dim=8, intermediate_size=12,
        intermediate_size_mlp=20, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, use_qk_norm=True,
        rope_theta=500000.0), "float32", ""),
    "olmoe-clip": (MOE | dict(model_type="olmoe", architectures=["OlmoeForCausalLM"], intermediate_size=12, num_experts=6,
                              num_experts_per_tok=3, pad_token_id=0, clip_qkv=0.6), "float32", "published"),
    "jetmoe": (MOE | dict(
        model_type="jetmoe", architectures=["JetMoeForCausalLM"], num_key_value_heads=2, num_attention_heads=6, kv_channels=10,
        num_experts_per_tok=3, num_local_experts=5, intermediate_size=12, activation_function="gelu", rms_norm_eps=1e-2, pad_token_id=0,
        rope_theta=1000.0), "float32", ""),
    "dbrx": (dict(model_type="dbrx", architectures=["DbrxForCausalLM"], vocab_size=96, d_model=24, n_heads=4, n_layers=2, max_seq_len=128,
                  attn_config=dict(clip_qkv=0.5, kv_n_heads=2, rope_theta=5e5), rope_parameters=dict(rope_type="default", rope_theta=5e5),
                  ffn_config=dict(hidden_size=24, ffn_hidden_size=12, moe_num_experts=5, moe_top_k=2, ffn_act_fn=dict(name="silu")),
                  tie_word_embeddings=False), "float32", ""),
    "solar_open": ({k: v for k, v in SIGMOID_MOE.items() if k != "first_k_dense_replace"} | dict(
        model_type="solar_open", architectures=["SolarOpenForCausalLM"], num_hidden_layers=2), "float32", "published"),
    "mimo_v2_flash": (MIMO | dict(num_hidden_layers=4, attention_bias=True), "float32", "published"),
    "mimo_v2_flash-default-layers": (MIMO | dict(num_hidden_layers=7, attention_value_scale=None, sliding_window_size=6), "float32", ""),
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
    "aria": (MOE | dict(model_type="aria_text", architectures=["AriaTextForCausalLM"], intermediate_size=12, moe_num_experts=5, moe_topk=2,
                        moe_num_shared_experts=2, pad_token_id=0, head_dim=8), "float32", "published"),
    "laguna": (LAGUNA | dict(rope_parameters=dict(
        full_attention=dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=32, partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0))), "float32", "published"),
    "laguna-per-element": (LAGUNA | dict(gating="per-element", attention_bias=True, num_attention_heads_per_layer=None), "float32", ""),
    "kolibri1": (MOE | dict(
        model_type="kolibri1", architectures=["Kolibri1ForCausalLM"], num_hidden_layers=3, head_dim=8, moe_intermediate_size=12,
        shared_expert_intermediate_size=20, num_experts=6, num_experts_per_tok=2, sliding_window=8, norm_topk_prob=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "float32", "published"),
}
