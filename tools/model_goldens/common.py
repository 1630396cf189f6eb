"""Tiny configurations that several families of golden models start from."""

LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=96, hidden_size=32, intermediate_size=28,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5,
    hidden_act="silu", bos_token_id=1, eos_token_id=2)
SMALL = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1)

# A small configuration for the many models that use Llama's field names.
DENSE = dict(
    vocab_size=96, hidden_size=24, intermediate_size=28, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True)

# Four small experts with top-2 routing.
MOE = DENSE | dict(hidden_size=24, num_hidden_layers=2, tie_word_embeddings=True)
GRANITE_MOE = MOE | dict(model_type="granitemoe", architectures=["GraniteMoeForCausalLM"], intermediate_size=16, embedding_multiplier=1.5,
                         residual_multiplier=0.8, attention_multiplier=0.2, logits_scaling=2.5, num_local_experts=5, num_experts_per_tok=3)
SIGMOID_MOE = MOE | dict(num_hidden_layers=3, moe_intermediate_size=12, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2,
                         first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, head_dim=8)

# Multi-head latent attention (MLA).
MLA = {k: v for k, v in SIGMOID_MOE.items() if k != "head_dim"} | dict(
    num_hidden_layers=2, num_key_value_heads=4, kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=8)
