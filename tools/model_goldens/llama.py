"""Golden models: Llama, Mistral, Qwen and models with the same structure."""

from model_goldens.common import LLAMA, SMALL

MISTRAL = LLAMA | dict(model_type="mistral", architectures=["MistralForCausalLM"], tie_word_embeddings=True)
QWEN2 = LLAMA | dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], tie_word_embeddings=True, rope_theta=1e6)
QWEN3 = LLAMA | dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], tie_word_embeddings=True, head_dim=12,
                     rope_theta=1e6, hidden_size=24)

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
    "llama-rope-dynamic": (LLAMA | SMALL | dict(tie_word_embeddings=True, rope_scaling=dict(rope_type="dynamic", factor=2.0)), "float32", "longest"),
}
