"""Golden models: latent attention, sparse attention and compressed keys."""

from model_goldens.common import DENSE, MLA

# Sparse attention: index_topk is below the length of the longest prompt.
INDEXED = MLA | dict(q_lora_rank=20, index_n_heads=8, index_head_dim=8, index_topk=16)

# Compressed attention with ratios 4 (with top-k selection) and 16, sliding windows, hash routing, hyper-connections.
DEEPSEEK_V4 = {k: v for k, v in DENSE.items() if k != "intermediate_size"} | dict(
    model_type="deepseek_v4", architectures=["DeepseekV4ForCausalLM"], num_hidden_layers=4, num_key_value_heads=1, head_dim=16, q_lora_rank=20,
    moe_intermediate_size=12, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, sliding_window=8, o_groups=2, o_lora_rank=10, index_n_heads=8,
    index_head_dim=12, index_topk=4, hc_mult=3, hc_sinkhorn_iters=6, tie_word_embeddings=False, pad_token_id=0, compress_rope_theta=1000.0, rope_theta=1e4)

LATENT_SIZES = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
DENSE_MLA = DENSE | {k: v for k, v in MLA.items() if k in LATENT_SIZES} | dict(num_hidden_layers=2, num_key_value_heads=4)

LONGCAT = {k: v for k, v in DENSE_MLA.items() if k != "num_hidden_layers"} | dict(
    model_type="longcat_flash", architectures=["LongcatFlashForCausalLM"], num_layers=2, q_lora_rank=20, ffn_hidden_size=28, moe_topk=3,
    n_routed_experts=4, zero_expert_num=3, expert_ffn_hidden_size=12, routed_scaling_factor=1.5, head_dim=4, tie_word_embeddings=False)

MODELS = {
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
    "minicpm3": ({k: v for k, v in DENSE_MLA.items() if k != "v_head_dim"} | dict(
        model_type="minicpm3", architectures=["MiniCPM3ForCausalLM"], q_lora_rank=20, scale_emb=1.5, scale_depth=1.2, dim_model_base=16,
        original_max_position_embeddings=32, rope_scaling=dict(
            rope_type="longrope", original_max_position_embeddings=32, short_factor=[1.0, 1.2], long_factor=[1.1, 2.0])), "float32", "longest"),
    "minicpm3-default-scales": (DENSE_MLA | dict(model_type="minicpm3", architectures=["MiniCPM3ForCausalLM"], q_lora_rank=20, v_head_dim=6),
                              "float32", ""),
    "youtu": (DENSE_MLA | dict(model_type="youtu", architectures=["YoutuForCausalLM"], q_lora_rank=20), "float32", ""),
    "youtu-whole-queries": (DENSE_MLA | dict(
        model_type="youtu", architectures=["YoutuForCausalLM"], q_lora_rank=None, rope_interleave=False, tie_word_embeddings=False), "float32", ""),
}
