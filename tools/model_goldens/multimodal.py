"""Golden models: the language models of multimodal models."""

from model_goldens.common import DENSE, LLAMA, MOE, SIGMOID_MOE, SMALL
from model_goldens.dense import GEMMA4

VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, depth=1, num_heads=2, num_attention_heads=2, out_hidden_size=24)


def inside(model_type, name, text, vision):
    """A multimodal model, of which only the language model is compared."""
    return dict(model_type=model_type, architectures=[f"{name}ForConditionalGeneration"], tie_word_embeddings=text["tie_word_embeddings"],
                text_config=text, vision_config=vision)


MODELS = {
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
    "hunyuan_vl": (inside("hunyuan_vl", "HunYuanVL", DENSE | dict(model_type="hunyuan_vl_text", head_dim=8, pad_token_id=0, rope_parameters=dict(
        rope_type="xdrope", rope_theta=1e4, alpha=50.0, factor=1.0, xdrope_section=[1, 1, 1, 1])), VISION), "float32", "text"),
    "muse_glimmer": (inside("muse_glimmer", "MuseGlimmer", DENSE | dict(
        model_type="muse_glimmer_text", num_hidden_layers=5, head_dim=8, sliding_window=8, tie_word_embeddings=False), VISION), "float32", "text"),
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
    "gemma4-placeholders": (inside("gemma4", "Gemma4", GEMMA4 | dict(
        num_hidden_layers=2, hidden_size_per_layer_input=6, pad_token_id=3, layer_types=["sliding_attention", "full_attention"]), None) | dict(
            image_token_id=81, video_token_id=86, audio_token_id=91, audio_config=None), "float32", "text"),
    "gemma4_unified-placeholders": (inside("gemma4_unified", "Gemma4Unified", GEMMA4 | dict(
        model_type="gemma4_unified_text", num_hidden_layers=2, pad_token_id=3, layer_types=["sliding_attention", "full_attention"]), None) | dict(
            image_token_id=81, video_token_id=86, audio_token_id=91, audio_config=None), "float32", "text"),
    "step3": (inside("step3p7", "Step3p7", MOE | dict(
        model_type="step3p5", num_hidden_layers=4, head_dim=8, num_sliding_attention_heads=6, sliding_window=8, moe_intermediate_size=12,
        n_routed_experts=5, num_experts_per_tok=2, share_expert_dim=20, moe_router_scaling_factor=1.5, tie_word_embeddings=False,
        layer_types=["full_attention", "sliding_attention"] * 2, mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
        swiglu_limits=[0.0, 0.0, 0.3, 0.3], swiglu_limits_shared=[0.3, 0.0, 0.0, 0.4], rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=5e5, partial_rotary_factor=0.5),
            sliding_attention=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0))), VISION), "float32", "text published"),
}
