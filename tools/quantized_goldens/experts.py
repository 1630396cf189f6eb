"""Mixtures of experts as they are published: gpt-oss and DeepSeek-V4."""

import json

import numpy as np
import torch
from safetensors.torch import save_file

from model_goldens.latent import DEEPSEEK_V4
from quantized_goldens.common import CONFIG, E2M1, f32, to_e4m3
from quantized_goldens.packed import fp8_blocks

GPT_OSS = CONFIG | dict(model_type="gpt_oss", architectures=["GptOssForCausalLM"], hidden_size=32, intermediate_size=32, head_dim=8,
                        num_local_experts=3, num_experts_per_tok=2, sliding_window=8, tie_word_embeddings=False)
V4 = DEEPSEEK_V4 | dict(hidden_size=32, moe_intermediate_size=32, num_hidden_layers=3, n_routed_experts=4, o_lora_rank=16, q_lora_rank=24,
                        qk_rope_head_dim=8, compress_ratios=[0, 4, 128], compress_rate_hca=16, num_hash_layers=1)


def mxfp4_experts(path, model):
    """gpt-oss: the expert matrices [experts, out, in] in mxfp4 blocks of 32 inputs; other weights in float16."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    tensors, dense = {}, {}
    for name, value in model.state_dict().items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name] = value.half().clone()
            continue
        w = f32(value).swapaxes(1, 2)  # [experts, out, in]
        groups = w.reshape(*w.shape[:2], -1, 32)
        exponents = np.floor(np.log2(np.abs(groups).max(-1))) - 2
        scaled = groups / np.exp2(exponents)[..., None]
        codes = np.abs(scaled[..., None] - E2M1).argmin(-1)
        tensors[name + "_blocks"] = torch.from_numpy((codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8))
        tensors[name + "_scales"] = torch.from_numpy((exponents + 127).astype(np.uint8))
        values = (E2M1[codes] * np.exp2(exponents)[..., None]).reshape(w.shape).swapaxes(1, 2).astype(np.float32)
        theirs = convert_moe_packed_tensors(tensors[name + "_blocks"], tensors[name + "_scales"], dtype=torch.float32)
        assert np.array_equal(values, theirs.numpy()), name
        dense[name] = values
    save_file({n: t.contiguous() for n, t in tensors.items()}, path / "model.safetensors", metadata={"format": "pt"})
    config = GPT_OSS | dict(quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]))
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return dense


# Replacements of transformers' names by those of DeepSeek's files, in this order.
V4_NAMES = [("model.", ""), ("embed_tokens", "embed"), ("lm_head", "head"), ("hc_head.hc_", "hc_head_"), ("post_attention_layernorm", "ffn_norm"),
            ("input_layernorm", "attn_norm"), ("attn_hc.", "hc_attn_"), ("ffn_hc.", "hc_ffn_"), ("compressor.indexer.scorer", "indexer"),
            ("compressor.indexer.q_b_proj", "indexer.wq_b"), ("compressor.indexer", "indexer.compressor"), ("compressor.kv_norm", "compressor.norm"),
            ("self_attn", "attn"), ("mlp", "ffn"), ("sinks", "attn_sink"), ("position_bias", "ape"), ("e_score_correction_bias", "bias"),
            ("q_a_proj", "wq_a"), ("q_a_norm", "q_norm"), ("q_b_proj", "wq_b"), ("kv_proj", "wkv"), ("o_a_proj", "wo_a"), ("o_b_proj", "wo_b"),
            ("compressor.gate_proj", "compressor.wgate"), ("shared_experts.gate_proj", "shared_experts.w1"),
            ("shared_experts.down_proj", "shared_experts.w2"), ("shared_experts.up_proj", "shared_experts.w3")]
V4_FP8 = ("wq_a.weight", "wq_b.weight", "attn.wkv.weight", "wo_a.weight", "wo_b.weight", "w1.weight", "w2.weight", "w3.weight")


def powers_of_two(scale):
    """Scales as e8m0 exponent bytes in the type of the files, and their values."""
    exponents = np.ceil(np.log2(scale))
    return torch.from_numpy((exponents + 127).astype(np.uint8)).view(torch.float8_e8m0fnu), np.exp2(exponents).astype(np.float32)


def deepseek_v4(path, model):
    """The published form of DeepSeek-V4: fp8 with block scales, experts in mxfp4; other weights in float32."""
    tensors, dense, quantized_weights = {}, {}, {}

    def fp8(name, w):
        pack, _ = fp8_blocks(32, 32, torch.float32)
        scale, numbers = powers_of_two(f32(pack(name, w, None)[0][".weight_scale_inv"]))
        spread = np.repeat(np.repeat(numbers, 32, 0), 32, 1)[:w.shape[0], :w.shape[1]]
        tensors[name], values = to_e4m3(w / spread)
        tensors[name.removesuffix("weight") + "scale"] = scale
        quantized_weights[name] = values * spread
        return quantized_weights[name]

    def fp4(name, w):
        groups = w.reshape(w.shape[0], -1, 32)
        scale, numbers = powers_of_two(np.abs(groups).max(-1) / 6)
        codes = np.abs((groups / numbers[..., None])[..., None] - E2M1).argmin(-1)
        tensors[name + ".weight"] = torch.from_numpy((codes[..., ::2] | codes[..., 1::2] << 4).reshape(w.shape[0], -1).astype(np.uint8)).view(torch.int8)
        tensors[name + ".scale"] = scale
        quantized_weights[name + ".weight"] = (E2M1[codes] * numbers[..., None]).reshape(w.shape)
        return quantized_weights[name + ".weight"]

    for name, value in model.state_dict().items():
        file_name = name
        for ours, theirs in V4_NAMES:
            file_name = file_name.replace(ours, theirs)
        if name.endswith("experts.gate_up_proj"):
            stem = file_name.removesuffix("gate_up_proj")
            dense[name] = np.stack([np.concatenate([fp4(f"{stem}{e}.w{i}", w) for i, w in zip((1, 3), np.split(f32(part), 2))])
                                    for e, part in enumerate(value)])
        elif name.endswith("experts.down_proj"):
            dense[name] = np.stack([fp4(f"{file_name.removesuffix('down_proj')}{e}.w2", f32(part)) for e, part in enumerate(value)])
        elif file_name.endswith(V4_FP8):
            dense[name] = fp8(file_name, f32(value))
        else:
            tensors[file_name] = value.clone()
            dense[name] = value.numpy()
    save_file({n: t.contiguous() for n, t in tensors.items()}, path / "model.safetensors", metadata={"format": "pt"})
    config = V4 | dict(expert_dtype="fp4", quantization_config=dict(
        quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", scale_fmt="ue8m0", weight_block_size=[32, 32]))
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return dense, quantized_weights


TOOLS = {
    "mxfp4-experts": (mxfp4_experts, {}),
    "fp8-deepseek_v4": (deepseek_v4, {}),
}
