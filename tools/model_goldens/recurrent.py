"""Golden models: recurrent layers."""

from model_goldens.common import DENSE, GRANITE_MOE, MLA, MOE

# Recurrent layers.
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

MODELS = {
    "minimax": (MOE | dict(
        model_type="minimax", architectures=["MiniMaxForCausalLM"], num_hidden_layers=4, intermediate_size=12, head_dim=8, num_local_experts=4,
        num_experts_per_tok=2, block_size=16, full_attn_alpha_factor=1.3, full_attn_beta_factor=0.9, linear_attn_alpha_factor=1.2,
        linear_attn_beta_factor=1.1, mlp_alpha_factor=1.4, mlp_beta_factor=0.8,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"]), "float32", "published"),
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
    "qwen3_5-bfloat16": (DELTA | dict(model_type="qwen3_5_text", architectures=["Qwen3_5ForCausalLM"]), "bfloat16", ""),
    "qwen3_5_moe": (DELTA | dict(
        model_type="qwen3_5_moe_text", architectures=["Qwen3_5MoeForCausalLM"], moe_intermediate_size=12, shared_expert_intermediate_size=20,
        num_experts=5, num_experts_per_tok=3), "float32", ""),
    "olmo_hybrid": (OLMO_HYBRID | dict(linear_value_head_dim=3, rope_parameters=dict(rope_type="default", rope_theta=None)),
                    "float32", "published"),
    "olmo_hybrid-rope": (OLMO_HYBRID | dict(linear_allow_neg_eigval=False, attention_bias=True, layer_types=None), "float32", ""),
    "kimi_linear": ({k: v for k, v in KIMI_LINEAR.items() if not k.startswith(("num_local_ex", "linear", "max_pos", "n_sh", "norm_top"))} | dict(
        q_lora_rank=None, num_experts=6, num_experts_per_token=2, num_shared_experts=1, num_expert_group=3, topk_group=2,
        moe_renormalize=True, model_max_length=128, first_k_dense_replace=1,
        linear_attn_config=dict(full_attn_layers=[2], kda_layers=[1, 3], num_heads=2, head_dim=10, short_conv_kernel_size=4)),
                    "float32", "published"),
    "kimi_linear-default-layers": (KIMI_LINEAR | dict(num_hidden_layers=5, q_lora_rank=20, norm_topk_prob=False, linear_conv_kernel_dim=3), "float32", ""),
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
}
