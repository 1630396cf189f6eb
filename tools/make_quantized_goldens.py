#!/usr/bin/env python3
"""Writes tests/golden/quantized: tiny quantized Llamas with random weights, and the outputs of transformers for them.

Each directory NAME has a checkpoint (config.json, model.safetensors) and golden.json:
  cases    as in make_model_goldens.py, for the model with the dequantized weights in float32
  crc32    of each quantized weight [out, in], dequantized, as float32 bytes
  rounded  logits after prompts, with the inputs of quantized layers rounded to int8, one scale per token
bitsandbytes, compressed-tensors, auto-round, quark and torchao pack with their own libraries; the other formats are packed here from their
descriptions. Weights that this script reads back must equal those that the library reads.

Usage: make_quantized_goldens.py [--out DIR] [NAME...]       default: all
"""

import argparse
import fnmatch
import importlib.metadata
import json
import pathlib
import shutil
import tempfile
import zlib

import numpy as np
import safetensors
import torch
import transformers
from make_model_goldens import MIN_MARGIN, PROMPT_LENGTHS, make_case
from model_goldens.common import LLAMA
from model_goldens.latent import DEEPSEEK_V4
from model_goldens.weights import fill
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

# Multiplied by int8 activations with one scale per token. The input of down_proj is longer than a group of quire's activations.
TOKEN_SCALES = {"compressed-w8a8": dict(intermediate_size=160)}
CONFIG = LLAMA | dict(hidden_size=64, intermediate_size=96, tie_word_embeddings=True, dtype="float16", num_hidden_layers=2)
GPT_OSS = CONFIG | dict(model_type="gpt_oss", architectures=["GptOssForCausalLM"], hidden_size=32, intermediate_size=32, head_dim=8,
                        num_local_experts=3, num_experts_per_tok=2, sliding_window=8, tie_word_embeddings=False)
V4 = DEEPSEEK_V4 | dict(hidden_size=32, moe_intermediate_size=32, num_hidden_layers=3, n_routed_experts=4, o_lora_rank=16, q_lora_rank=24,
                        qk_rope_head_dim=8, compress_ratios=[0, 4, 128], compress_rate_hca=16, num_hash_layers=1)
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def f32(t):
    return t.to(torch.float32).numpy()


def quantize_groups(w, bits, group, symmetric, dtype=np.float16):
    """Integers [n, k], scales and zero points [n, groups] of w [n, k], from the minimum and maximum weight of each group."""
    n, k = w.shape
    g = w.reshape(n, k // group, group)
    top = 2**bits - 1
    if symmetric:
        scale = (np.abs(g).max(-1) / (2 ** (bits - 1) - 0.5)).astype(dtype)
        zero = np.full(scale.shape, 2 ** (bits - 1))
    else:
        low, high = np.minimum(g.min(-1), 0), np.maximum(g.max(-1), 0)
        scale = ((high - low) / top).astype(dtype)
        zero = np.clip(np.round(-low / scale.astype(np.float32)), 0, top).astype(int)
    codes = np.clip(np.round(g / scale.astype(np.float32)[..., None]) + zero[..., None], 0, top).astype(np.int64)
    return codes.reshape(n, k), scale, zero


def dequantize_groups(codes, scale, zero, group):
    n, k = codes.shape
    values = (codes.reshape(n, k // group, group) - zero[..., None]).astype(np.float32)
    return (values * scale.astype(np.float32)[..., None]).reshape(n, k)


def pack_bits(codes, bits):
    """Packs integers [..., m] as a bit stream in int32 words [..., m * bits / 32]."""
    shifts = np.arange(bits)
    stream = ((codes[..., None] >> shifts) & 1).reshape(*codes.shape[:-1], -1, 32).astype(np.uint64)
    words = (stream << np.arange(32, dtype=np.uint64)).sum(-1).astype(np.uint32)
    return torch.from_numpy(words.view(np.int32).copy())


def gptq(bits, group, symmetric=True, act_order=False, v2=False):
    def pack(name, w, generator):
        n, k = w.shape
        size = k if group == -1 else group
        order = torch.randperm(k, generator=generator).numpy() if act_order else np.arange(k)
        codes, scale, zero = quantize_groups(w[:, order], bits, size, symmetric)
        dense = np.empty_like(w)
        dense[:, order] = dequantize_groups(codes, scale, zero, size)
        stored, g_idx = np.empty_like(codes), np.empty(k, np.int32)
        stored[:, order] = codes
        g_idx[order] = np.arange(k) // size
        zeros = zero.T if v2 else (zero.T - 1) & (2**bits - 1)
        return {".qweight": pack_bits(stored, bits).T.contiguous(), ".qzeros": pack_bits(zeros, bits),
                ".scales": torch.from_numpy(scale.T.copy()), ".g_idx": torch.from_numpy(g_idx)}, dense
    return pack, dict(quant_method="gptq", bits=bits, group_size=group, sym=symmetric, desc_act=act_order,
                      checkpoint_format="gptq_v2" if v2 else "gptq")


def auto_round(bits, group, symmetric, packing, wider=()):
    """Packs with the classes of auto-round; modules in `wider` have 8 bits, set in extra_config."""
    def pack(name, w, generator):
        from auto_round.export.export_to_awq.utils import WQLinear_GEMM
        from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp
        n, k = w.shape
        own = 8 if any(part in name for part in wider) else bits
        codes, scale, zero = quantize_groups(w, own, group, symmetric)
        dense = dequantize_groups(codes, scale, zero, group)
        linear = torch.nn.Linear(k, n, bias=False)
        linear.weight.data = torch.from_numpy(dense)
        scales, zeros = torch.from_numpy(scale.astype(np.float32)), torch.from_numpy(zero.astype(np.float32))
        if "awq" in packing:
            layer = WQLinear_GEMM.from_linear(linear, own, group, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
        else:
            kind = qlinear_torch_zp if packing == "auto_round:auto_gptq" else qlinear_torch
            layer = kind.QuantLinear(own, group, k, n, False)
            layer.device = "cpu"
            layer.pack(linear, scales, zeros)
        return {"." + key: value for key, value in layer.state_dict().items()}, dense
    names = [f"model.layers.{i}.{part}" for i in range(CONFIG["num_hidden_layers"]) for part in wider]
    return pack, dict(quant_method="auto-round", bits=bits, group_size=group, sym=symmetric, packing_format=packing,
                      extra_config={name: {"bits": 8} for name in names})


def squeezellm(bits, table_dtype, outliers=0, full_rows=0):
    """Lookup tables from each row's quantiles; the given numbers of largest weights and of whole rows are stored as outliers."""
    def pack(name, w, generator):
        n, k = w.shape
        places = (np.arange(2**bits) + 0.5) / 2**bits
        table = np.quantile(w, places, axis=1).T.astype(table_dtype)
        codes = np.abs(w[..., None] - table.astype(np.float32)[:, None]).argmin(-1)
        dense = np.take_along_axis(table.astype(np.float32), codes, 1)
        parts = {".qweight": pack_bits(codes, bits).T.contiguous(), ".lookup_table": torch.from_numpy(table)}
        if outliers:
            columns = np.sort(np.argsort(-np.abs(w - dense), 1)[:, :outliers], 1)
            # Adjacent rows have different numbers of outliers.
            kept = [row[:outliers - i % 2] for i, row in enumerate(columns)]
            values = [w[i, row] - dense[i, row] for i, row in enumerate(kept)]
            for i, row in enumerate(kept):
                dense[i, row] += values[i]
            bounds = np.cumsum([0] + [len(row) for row in kept]).astype(np.int32)
            parts |= {".rows": torch.from_numpy(bounds), ".cols": torch.from_numpy(np.concatenate(kept).astype(np.int32)),
                      ".vals": torch.from_numpy(np.concatenate(values).astype(np.float32)),
                      ".startrows": torch.zeros(8, dtype=torch.int32)}
        if full_rows:
            rows = np.sort(torch.randperm(n, generator=generator).numpy()[:full_rows]).astype(np.int32)
            values = (w[rows] - dense[rows]).astype(np.float32)
            dense[rows] += values
            parts |= {".full_rows": torch.from_numpy(values.T.copy()), ".full_row_indices": torch.from_numpy(rows)}
        return parts, dense
    return pack, dict(quant_method="squeezellm", wbits=bits)


def awq(group):
    def pack(name, w, generator):
        codes, scale, zero = quantize_groups(w, 4, group, False)
        order = [0, 2, 4, 6, 1, 3, 5, 7]

        def words(m):  # [lines, n]
            return pack_bits(m.reshape(m.shape[0], -1, 8)[..., order].reshape(m.shape), 4)
        return {".qweight": words(codes.T), ".qzeros": words(zero.T), ".scales": torch.from_numpy(scale.T.copy())}, \
            dequantize_groups(codes, scale, zero, group)
    return pack, dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm")


def to_e4m3(w):
    codes = torch.from_numpy(np.ascontiguousarray(w)).to(torch.float8_e4m3fn)
    return codes, f32(codes)


def fp8_blocks(rows, columns, scale_type):
    def pack(name, w, generator):
        n, k = w.shape
        padded = np.zeros((-(-n // rows) * rows, -(-k // columns) * columns), np.float32)
        padded[:n, :k] = w
        blocks = padded.reshape(padded.shape[0] // rows, rows, -1, columns)
        scale = torch.from_numpy(np.abs(blocks).max((1, 3)) / 448).to(scale_type)
        spread = np.repeat(np.repeat(f32(scale), rows, 0), columns, 1)[:n, :k]
        codes, values = to_e4m3(w / spread)
        return {".weight": codes, ".weight_scale_inv": scale}, values * spread
    return pack, dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[rows, columns])


def fp8_tensor(method):
    def pack(name, w, generator):
        scale = torch.tensor(np.abs(w).max() / 448)
        codes, values = to_e4m3(w / scale.item())
        return {".weight": codes, ".weight_scale": scale, ".input_scale": torch.tensor(0.02)}, values * np.float32(scale.item())
    config = dict(quant_method="modelopt", quant_algo="FP8") if method == "modelopt" else dict(
        quant_method="fp8", activation_scheme="static")
    return pack, config


def nvfp4_modelopt():
    def pack(name, w, generator):
        n, k = w.shape
        outer = np.float32(np.abs(w).max() / (6 * 448))
        groups = w.reshape(n, k // 16, 16)
        scale, values = to_e4m3(np.abs(groups).max(-1) / 6 / outer)
        spread = (outer * values)[..., None]
        codes = np.abs(groups[..., None] / np.maximum(spread, 1e-30)[..., None] - E2M1).argmin(-1).reshape(n, k)
        packed = torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
        return {".weight": packed, ".weight_scale": scale, ".weight_scale_2": torch.tensor(outer),
                ".input_scale": torch.tensor(0.02)}, (E2M1[codes].reshape(groups.shape) * spread).reshape(n, k)
    return pack, dict(quant_method="modelopt", quant_algo="NVFP4")


def bitnet(linear_class):
    def pack(name, w, generator):
        size = np.abs(w).mean()
        codes = np.clip(np.round(w / size), -1, 1).astype(np.int64)
        size *= 2  # so that the layers' outputs are not negligible compared with the embedding
        stored = torch.tensor([size if linear_class == "autobitlinear" else 1 / size], dtype=torch.float32)
        scale = stored.numpy() if linear_class == "autobitlinear" else np.float32(1) / stored.numpy()
        parts = (codes + 1).reshape(4, -1, w.shape[1])
        packed = sum(part << (2 * i) for i, part in enumerate(parts)).astype(np.uint8)
        return {".weight": torch.from_numpy(packed), ".weight_scale": stored}, codes.astype(np.float32) * scale
    return pack, dict(quant_method="bitnet", linear_class=linear_class, quantization_mode="offline")


def bitnet_online():
    def pack(name, w, generator):
        w = w * np.float32(2)  # so that the layers' outputs are not negligible compared with the embedding
        by = np.float32(1) / np.float32(max(np.abs(w).astype(np.float64).mean(), 1e-5))
        dense = np.clip(np.round(w * by), -1, 1).astype(np.int64).astype(np.float32) * (np.float32(1) / by)
        return {".weight": torch.from_numpy(w.copy())}, dense
    return pack, dict(quant_method="bitnet", linear_class="autobitlinear", quantization_mode="online")


def read_bitsandbytes(tensors):
    """The dequantized weights of a checkpoint that bitsandbytes wrote."""
    dense, used = {}, set()
    for name in tensors:
        if name.endswith(".SCB"):
            weight = name.removesuffix(".SCB") + ".weight"
            scale = (f32(tensors[name]) / np.float32(127))[:, None]
            dense[weight] = f32(tensors[weight]) * scale
        elif ".quant_state.bitsandbytes__" in name:
            weight = name.split(".quant_state.")[0]
            state = json.loads(bytes(tensors[name].tolist()))
            absmax = tensors[weight + ".absmax"]
            if absmax.dtype == torch.uint8:
                values = f32(tensors[weight + ".nested_quant_map"])[absmax.numpy()]
                outer = np.repeat(f32(tensors[weight + ".nested_absmax"]), state["nested_blocksize"])[:len(values)]
                absmax = values * outer + np.float32(state["nested_offset"])
            else:
                absmax = f32(absmax)
            packed = tensors[weight].numpy().ravel()
            codes = np.stack([packed >> 4, packed & 15], -1).ravel()
            scale = np.repeat(absmax, state["blocksize"])[:len(codes)]
            dense[weight] = (f32(tensors[weight + ".quant_map"])[codes] * scale).reshape(state["shape"])
    return dense


def bitsandbytes(path, model, **options):
    """Quantizes with transformers and bitsandbytes; returns the dequantized weights."""
    with tempfile.TemporaryDirectory() as plain:
        model.half().save_pretrained(plain)
        config = transformers.BitsAndBytesConfig(**options)
        quantized = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=torch.float16, device_map="cpu")
        quantized.save_pretrained(path)
    return read_bitsandbytes(load_file(path / "model.safetensors"))


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


def unpack_bits(words, bits, count):
    """Unpacks int32 words [..., m] to integers [..., count]."""
    w = words.numpy().view(np.uint32)
    stream = ((w[..., None] >> np.arange(32, dtype=np.uint32)) & 1).reshape(*w.shape[:-1], -1)[..., :count * bits]
    return (stream.reshape(*w.shape[:-1], count, bits) << np.arange(bits)).sum(-1)


def read_compressed(tensors, args):
    dense = {}
    for name in tensors:
        if not name.endswith(".weight_scale"):
            continue
        module = name.removesuffix("_scale")
        scale = tensors[name]
        packed = tensors.get(module + "_packed")
        if packed is None:
            w = tensors[module]
            values = f32(w)
            if module + "_zero_point" in tensors:
                values = values - f32(tensors[module + "_zero_point"])
            s = f32(scale).reshape(-1, 1) if scale.numel() in (1, w.shape[0]) else np.repeat(
                np.repeat(f32(scale), args["block_structure"][0], 0), args["block_structure"][1], 1)[:w.shape[0], :w.shape[1]]
            dense[module] = values * s
        elif packed.dtype == torch.uint8:
            codes = np.stack([packed.numpy() & 15, packed.numpy() >> 4], -1).reshape(packed.shape[0], -1)
            if module + "_global_scale" in tensors:
                s = np.float32(1) / f32(tensors[module + "_global_scale"]).reshape(1, 1) * f32(scale)
            else:
                s = np.exp2(scale.numpy().astype(np.float32) - 127)
            dense[module] = E2M1[codes] * np.repeat(s, codes.shape[1] // s.shape[1], 1)
        else:
            n, k = tensors[module + "_shape"].tolist()
            bits = args["num_bits"]
            codes = unpack_bits(packed, bits, k)
            zero = np.full(scale.shape, 2 ** (bits - 1))
            if module + "_zero_point" in tensors:
                zero = unpack_bits(tensors[module + "_zero_point"].T.contiguous(), bits, n).T
            size = k // scale.shape[1]
            if module + "_g_idx" in tensors:
                g = tensors[module + "_g_idx"].numpy()
                dense[module] = (codes - zero[:, g]).astype(np.float32) * f32(scale)[:, g]
            else:
                dense[module] = dequantize_groups(codes, f32(scale), zero, size)
    return dense


def compressed_tensors(path, model, preset, **changes):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    model = model.to(torch.float16)
    scheme = preset_name_to_scheme(preset, ["Linear"])
    scheme.weights = type(scheme.weights)(**(scheme.weights.model_dump() | changes))
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=["lm_head"])
    apply_quantization_config(model, config)
    args = scheme.weights
    for module in model.modules():
        if getattr(module, "quantization_scheme", None) is None:
            continue
        w = module.weight.data.float()
        n, k = w.shape
        outer = None
        if args.strategy in ("group", "tensor_group"):
            groups = w.reshape(n, k // args.group_size, args.group_size)
            low, high = groups.amin(-1), groups.amax(-1)
        elif args.strategy == "block":
            rows, columns = args.block_structure
            blocks = w.reshape(n // rows, rows, k // columns, columns)
            low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
        elif args.strategy == "channel":
            low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
        else:
            low, high = w.amin().reshape(1), w.amax().reshape(1)
        if args.strategy == "tensor_group":
            outer = generate_gparam(w.amin().reshape(1), w.amax().reshape(1))
            module.weight_global_scale.data.copy_(outer)
        scale, zero = calculate_qparams(low, high, args, global_scale=outer)
        module.weight_scale.data = scale.to(module.weight_scale.dtype).reshape(module.weight_scale.shape)
        if getattr(module, "weight_zero_point", None) is not None:
            module.weight_zero_point.data.copy_(zero.reshape(module.weight_zero_point.shape))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(path)
    compressor.update_config(path)
    tensors = load_file(path / "model.safetensors")
    return read_compressed(tensors, json.loads(args.model_dump_json()))


def small_floats(exponent_bits, mantissa_bits, bias):
    """Values of all bit patterns of a float type without infinities, with the sign in the highest bit."""
    codes = np.arange(2 ** (exponent_bits + mantissa_bits))
    exponent, mantissa = codes >> mantissa_bits, codes & (2**mantissa_bits - 1)
    whole = np.where(exponent == 0, mantissa, mantissa + 2**mantissa_bits)
    values = (whole * 2.0 ** (np.maximum(exponent, 1) - bias - mantissa_bits)).astype(np.float32)
    return np.concatenate([values, -values])


def quark_weight(tensors, module, spec, reorder):
    """The dequantized weight of a checkpoint that quark wrote; spec: its entry in the configuration."""
    w, scale, zero = (tensors.get(module + "." + part) for part in ["weight", "weight_scale", "weight_zero_point"])
    kind, groups = spec["dtype"], spec["qscheme"] == "per_group"
    places = np.argsort([0, 2, 4, 6, 1, 3, 5, 7]) if reorder else np.arange(8)

    def nibbles(t):  # [lines, n / 8] -> [n, lines]
        codes = unpack_bits(t, 4, t.shape[1] * 8).reshape(t.shape[0], -1, 8)[..., places].reshape(t.shape[0], -1).T
        return (codes ^ 8) - 8 if kind == "int4" else codes

    if kind in ("int4", "uint4"):
        values, scale = nibbles(w) - np.repeat(nibbles(zero), spec["group_size"], 1), f32(scale).T
    elif kind in ("int8", "uint8"):
        values = w.numpy().astype(np.int32)
        if groups:
            values, scale, zero = values.T, scale.T, zero.T
            values = values - np.repeat(zero.numpy().astype(np.int32), spec["group_size"], 1)
        else:
            assert not zero.any()
        scale = f32(scale).reshape(-1, scale.shape[1] if groups else 1)
    elif kind == "fp4":
        values = E2M1[np.stack([w.numpy() & 15, w.numpy() >> 4], -1).reshape(w.shape[0], -1)]
    elif kind.startswith("fp6"):
        table = small_floats(2, 3, 1) if kind == "fp6_e2m3" else small_floats(3, 2, 3)
        words = torch.from_numpy(w.numpy().view(np.int32).copy())
        values = table[unpack_bits(words, 6, w.shape[1] * 8 // 6)]
    else:
        values = f32(w)
    if isinstance(scale, torch.Tensor):
        if scale.dtype == torch.uint8:
            scale = np.exp2(scale.numpy().astype(np.float32) - 127)
        else:
            scale = f32(scale) if scale.ndim == 2 else f32(scale).reshape(-1, 1)
        if module + ".weight_scale_2" in tensors:
            scale = f32(tensors[module + ".weight_scale_2"]) * scale
    rows, columns = values.shape[0] // scale.shape[0], values.shape[1] // scale.shape[1]
    return values.astype(np.float32) * np.repeat(np.repeat(scale, rows, 0), columns, 1)


def quark(path, model, spec, layers=(), inputs=None, keys=None, order="reorder"):
    """Quantizes and exports with quark; returns the dequantized weights. spec, inputs, keys: names and settings of quark's specs
    for weights, activations, and keys and values; layers: specs of weights by name pattern."""
    from quark.torch import ModelQuantizer, export_safetensors
    from quark.torch.quantization.config import config as specs

    def made(spec):
        if isinstance(spec, list):  # weights, then their scales
            stages = [getattr(specs, kind)(**options) for kind, options in spec]
            return specs.ScaleQuantSpec(*stages).to_quantization_spec()
        return spec and getattr(specs, spec[0])(**spec[1]).to_quantization_spec()

    def layer(weight, **more):
        return specs.QLayerConfig(weight=made(weight), input_tensors=made(inputs), **more)

    kv = {name: layer(spec, output_tensors=made(keys)) for name in ["*k_proj", "*v_proj"]} if keys else {}
    config = specs.QConfig(
        global_quant_config=layer(spec), exclude=["lm_head"], kv_cache_quant_config=kv, kv_cache_group=list(kv),
        layer_quant_config={name: layer(weight) for name, weight in layers} | kv)
    prompts = torch.randint(0, CONFIG["vocab_size"], (4, 16), generator=torch.Generator().manual_seed(0))
    quantizer = ModelQuantizer(config)
    frozen = quantizer.freeze(quantizer.quantize_model(model.half(), torch.utils.data.DataLoader(prompts)))
    with torch.no_grad():
        export_safetensors(frozen, str(path), custom_mode="quark", weight_format="real_quantized", pack_method=order)
    tensors = load_file(path / "model.safetensors")
    said = json.loads((path / "config.json").read_text())["quantization_config"]
    dense = {}
    for name in tensors:
        if name.endswith(".weight_scale"):
            module = name.removesuffix(".weight_scale")
            own = next((c for pattern, c in said["layer_quant_config"].items() if fnmatch.fnmatch(module, pattern)),
                       said["global_quant_config"])["weight"]
            w = quark_weight(tensors, module, own[0] if isinstance(own, list) else own, order == "reorder")
            theirs = frozen.get_submodule(module)
            assert np.allclose(w, f32(theirs.weight_quantizer(theirs.weight.data)), rtol=2e-3, atol=1e-6), module  # in float16
            dense[module + ".weight"] = w
    return dense


def torchao_weight(tensors, name, description):
    """The dequantized weight of a checkpoint that torchao wrote."""
    module = name.removesuffix(".weight")
    values, scale = f32(tensors[module + "._weight_qdata"]), f32(tensors[module + "._weight_scale"])
    if "zero_point" in description["_tensor_data_names"]:
        values = values - np.repeat(f32(tensors[module + "._weight_zero_point"]), description["_data"]["block_size"][1], 1)
    return values * np.repeat(np.repeat(scale, values.shape[0] // scale.shape[0], 0), values.shape[1] // scale.shape[1], 1)


def torchao(path, model, configs, dtype=torch.float16):
    """Quantizes with transformers and torchao; configs: torchao configurations and settings by name pattern."""
    import torchao.quantization as ao

    def settings(options):
        return {key: getattr(ao.granularity, value[0])(*value[1:]) if key.endswith("granularity") else value
                for key, value in options.items()}
    made = {name: getattr(ao, kind)(**settings(options)) for name, (kind, options) in configs.items()}
    config = transformers.TorchAoConfig(quant_type=made["_default"] if len(made) == 1 else ao.FqnToConfig(made))
    with tempfile.TemporaryDirectory() as plain:
        model.to(dtype).save_pretrained(plain)
        quantized = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=dtype, device_map="cpu")
        quantized.save_pretrained(path)
    with safetensors.safe_open(path / "model.safetensors", "pt") as file:
        described = {name: json.loads(text) for name, text in file.metadata().items() if text.startswith("{")}
    tensors = load_file(path / "model.safetensors")
    dense = {name: torchao_weight(tensors, name, one) for name, one in described.items() if one["_type"] != "Tensor"}
    for name, w in dense.items():
        theirs = quantized.get_parameter(name)
        theirs = theirs.dequantize() if type(theirs) is ao.IntxUnpackedToInt8Tensor else theirs.dequantize(torch.float32)
        assert torch.equal(torch.from_numpy(w).to(theirs.dtype), theirs), name
    return dense


def torchao_int4(path, model):
    """Format of Int4WeightOnlyConfig, whose kernels need a GPU: groups of 32; one matrix in the tiled layout, which torchao pads to
    1024 columns."""
    import torchao.quantization as ao
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    state, dense = {}, {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" or not is_quantized(name):
            state |= {name: value.half()} if name != "lm_head.weight" else {}
            continue
        n, k = value.shape
        groups = f32(value).reshape(n, -1, 32)
        low, high = groups.min(-1), groups.max(-1)
        scale = torch.from_numpy((high - low) / 15).bfloat16()
        zero = torch.from_numpy(low + 8 * f32(scale)).bfloat16()
        codes = np.clip(np.round((groups - f32(zero)[..., None]) / f32(scale)[..., None]), -8, 7).astype(np.int8).reshape(n, k)
        if "layers.0.self_attn.q_proj" in name:
            words = np.zeros((n // 8, 1024 // 128, 32, 4), np.uint32)
            for row, column in np.ndindex(n, k):
                pair = column % 32 // 2
                place = row // 8, column // 128, row % 8 * 4 + pair % 4, column // 32 % 4
                words[place] |= np.uint32(int(codes[row, column] + 8) << (4 * (pair // 4 + column % 2 * 4)))
            both = torch.zeros(1024 // 32, n, 2, dtype=torch.bfloat16)
            both[:k // 32, :, 0], both[:k // 32, :, 1] = scale.T, zero.T
            state[name] = ao.Int4TilePackedTo4dTensor(torch.from_numpy(words.view(np.int32)), both, [1, 32], value.shape)
        else:
            packed = torch.from_numpy(codes[:, ::2] & 15 | codes[:, 1::2] << 4)
            state[name] = ao.Int4Tensor(packed, scale.T.contiguous(), zero.T.contiguous(), [1, 32], value.shape)
        dense[name] = codes.astype(np.float32) * np.repeat(f32(scale), 32, 1) + np.repeat(f32(zero), 32, 1)
    tensors, metadata = flatten_tensor_state_dict(state)
    save_file(tensors, path / "model.safetensors", metadata=metadata | {"format": "pt"})
    config = transformers.TorchAoConfig(quant_type=ao.Int4WeightOnlyConfig(group_size=32)).to_dict()
    (path / "config.json").write_text(json.dumps(CONFIG | dict(quantization_config=config), indent=1) + "\n")
    return dense


PACKED = {
    "gptq-4bit": gptq(4, 32),
    "gptq-4bit-act-order": gptq(4, 32, act_order=True),
    "gptq-4bit-zeros": gptq(4, 16, symmetric=False),
    "gptq-4bit-zeros-v2": gptq(4, 32, symmetric=False, v2=True),
    "gptq-8bit": gptq(8, -1),
    "gptq-3bit": gptq(3, 32, symmetric=False),
    "gptq-2bit": gptq(2, 16, symmetric=False, act_order=True),
    "awq": awq(32),
    "auto-round-4bit": auto_round(4, 32, True, "auto_round:auto_gptq", wider=["self_attn.v_proj"]),
    "auto-round-4bit-zeros": auto_round(4, 16, False, "auto_round:auto_gptq"),
    "auto-round-2bit-zeros": auto_round(2, 32, False, "auto_round"),
    "auto-round-awq": auto_round(4, 32, False, "auto_round:auto_awq"),
    "squeezellm-4bit": squeezellm(4, np.float16),
    "squeezellm-3bit-outliers": squeezellm(3, np.float32, outliers=3, full_rows=2),
    "fp8-blocks": fp8_blocks(32, 32, torch.float32),
    "fp8-blocks-bfloat16": fp8_blocks(40, 32, torch.bfloat16),
    "fp8-tensor": fp8_tensor("fp8"),
    "modelopt-fp8": fp8_tensor("modelopt"),
    "modelopt-nvfp4": nvfp4_modelopt(),
    "bitnet": bitnet("bitlinear"),
    "bitnet-auto": bitnet("autobitlinear"),
    "bitnet-online": bitnet_online(),
}
FP8 = ("FP8E4M3PerTensorSpec", dict(observer_method="min_max", is_dynamic=False))
WHOLE = dict(symmetric=True, scale_type="float", round_method="half_even", is_dynamic=False)
GROUPS = dict(ch_axis=-1, group_size=32)
MX = dict(ch_axis=-1, is_dynamic=False)
TOOLS = {
    "bitsandbytes-nf4": (bitsandbytes, dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")),
    "bitsandbytes-nf4-double": (bitsandbytes, dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)),
    "bitsandbytes-fp4": (bitsandbytes, dict(load_in_4bit=True, bnb_4bit_quant_type="fp4")),
    "bitsandbytes-int8": (bitsandbytes, dict(load_in_8bit=True)),
    "compressed-w4a16": (compressed_tensors, dict(preset="W4A16", group_size=32)),
    "compressed-w4a16-zeros": (compressed_tensors, dict(preset="W4A16_ASYM", group_size=32)),
    "compressed-w8a16": (compressed_tensors, dict(preset="W8A16", group_size=32, strategy="group")),
    "compressed-w8a8": (compressed_tensors, dict(preset="W8A8")),
    "compressed-fp8": (compressed_tensors, dict(preset="FP8_DYNAMIC")),
    "compressed-fp8-block": (compressed_tensors, dict(preset="FP8_BLOCK", block_structure=[32, 32])),
    "compressed-nvfp4": (compressed_tensors, dict(preset="NVFP4A16")),
    "compressed-mxfp4": (compressed_tensors, dict(preset="MXFP4A16")),
    "mxfp4-experts": (mxfp4_experts, {}),
    "torchao-int8": (torchao, dict(configs={"_default": ("Int8WeightOnlyConfig", {})})),
    "torchao-int8-dynamic": (torchao, dict(configs={"_default": ("Int8DynamicActivationInt8WeightConfig", {})})),
    "torchao-int4-dynamic": (torchao, dict(configs={"_default": (
        "Int8DynamicActivationIntxWeightConfig", dict(weight_dtype=torch.int4, weight_granularity=("PerGroup", 32)))})),
    "torchao-int4": (torchao_int4, {}),
    "torchao-fp8": (torchao, dict(configs={"_default": ("Float8WeightOnlyConfig", {})})),
    "torchao-fp8-tensor": (torchao, dict(configs={"_default": ("Float8WeightOnlyConfig", dict(granularity=("PerTensor",)))})),
    "quark-fp8": (quark, dict(spec=FP8, inputs=FP8, keys=FP8)),
    "quark-fp8-rows": (quark, dict(spec=("FP8E4M3PerChannelSpec", dict(is_dynamic=False, ch_axis=0)))),
    "quark-int8": (quark, dict(spec=("Int8PerChannelSpec", WHOLE | dict(ch_axis=0)),
                               inputs=("Int8PerTensorSpec", WHOLE | dict(observer_method="min_max")))),
    "quark-int8-groups": (quark, dict(spec=("Uint8PerGroupSpec", WHOLE | GROUPS | dict(symmetric=False)))),
    "quark-int4": (quark, dict(spec=("Int4PerGroupSpec", WHOLE | GROUPS), order="order")),
    "quark-uint4": (quark, dict(spec=("Uint4PerGroupSpec", WHOLE | GROUPS | dict(symmetric=False)),
                                layers=[("*v_proj", ("Int8PerChannelSpec", WHOLE | dict(ch_axis=0)))])),
    "quark-nvfp4": (quark, dict(spec=[("FP4PerGroupSpec", dict(ch_axis=-1, group_size=16, is_dynamic=False)), FP8])),
    "quark-mxfp4": (quark, dict(spec=("OCP_MXFP4Spec", MX),
                                layers=[("*down_proj", ("OCP_MXFP6E2M3Spec", MX)),
                                        ("*up_proj", ("OCP_MXFP6E3M2Spec", MX))])),
    "fp8-deepseek_v4": (deepseek_v4, {}),
}


def rounded_logits(model, prompt, shape):
    """Logits after `prompt`, with the inputs of all layers but the head rounded to int8 as in vLLM, and the distance of the input nearest to
    a tie, in steps. shape: reshapes an input to [groups with a scale, elements]."""
    margins = []

    def round_input(_, inputs):
        x = shape(inputs[0])
        steps = x / (x.abs().amax(-1, keepdim=True) / 127)
        margins.append((0.5 - (steps - steps.round()).abs()).min().item())
        return ((steps.round() * (x.abs().amax(-1, keepdim=True) / 127)).reshape(inputs[0].shape),)

    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not model.lm_head]
    hooks = [layer.register_forward_pre_hook(round_input) for layer in layers]
    with torch.no_grad():
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0, -1].float()
    for hook in hooks:
        hook.remove()
    return logits, min(margins)


def rounded_cases(model, vocab_size, generator):
    """Prompts without an input that float32 errors could round to another integer, and for which other scales give clearly other logits."""
    cases = []
    for _ in range(1000):
        prompt = torch.randint(0, vocab_size, (5,), generator=generator).tolist()
        logits, margin = rounded_logits(model, prompt, lambda x: x.reshape(-1, x.shape[-1]))
        if margin < 3e-4:
            continue
        others = [rounded_logits(model, prompt, shape)[0]
                  for shape in (lambda x: x.reshape(1, -1), lambda x: x.reshape(-1, 32) if x.shape[-1] > 128 else x)]
        if min((other - logits).abs().max() / logits.abs().max() for other in others) > 20e-4:
            cases.append(dict(prompt=prompt, logits=[round(x, 6) for x in logits.tolist()]))
        if len(cases) == 3:
            return cases
    raise SystemExit("no prompts without borderline activations")


def is_quantized(name):
    return "_proj." in name


def pack_here(path, model, generator, pack, quantization):
    tensors, dense = {}, {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        if not is_quantized(name):
            tensors[name] = value.half().clone()
            continue
        parts, dense[name] = pack(name, f32(value), generator)
        tensors |= {name.removesuffix(".weight") + suffix: part.contiguous() for suffix, part in parts.items()}
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(CONFIG | dict(quantization_config=quantization), indent=1) + "\n")
    return dense


def make_model(path, name):
    sizes = {"mxfp4-experts": GPT_OSS, "fp8-deepseek_v4": V4}.get(name, CONFIG) | TOKEN_SCALES.get(name, {})
    for seed in range(1000):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**sizes), dtype=torch.float32)
        fill(model, seed)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        if name in PACKED:
            dense = pack_here(path, model, generator, *PACKED[name])
        else:
            tool, options = TOOLS[name]
            dense = tool(path, model, **options)
        # Names in the file of the quantized weights.
        dense, quantized_weights = dense if isinstance(dense, tuple) else (dense, dense)
        stored = load_file(path / "model.safetensors")
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**sizes), dtype=torch.float32, attn_implementation="eager").eval()
        state = {n: torch.from_numpy(dense[n].astype(np.float32) if dense[n].dtype != np.int64 else dense[n]) if n in dense else stored[n].float()
                 for n in model.state_dict() if n in dense or n in stored}
        model.load_state_dict(state, strict=False)
        model.tie_weights()
        cases, good = [], True
        for length in PROMPT_LENGTHS:
            prompt = torch.randint(0, sizes["vocab_size"], (length,), generator=generator).tolist()
            case, margin = make_case(model, prompt)
            cases.append(case)
            good = margin > MIN_MARGIN and len(set(case["greedy"])) >= 6
            if not good:
                break
        if good:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy tokens")
    for extra in path.iterdir():
        if extra.name not in ("config.json", "model.safetensors"):
            extra.unlink()
    own = {"auto-round": ["auto-round"], "quark": ["amd-quark"], "torchao": ["torchao"], "compressed": ["compressed-tensors"]}
    tools = next((packages for start, packages in own.items() if name.startswith(start)), ["bitsandbytes", "compressed-tensors"])
    versions = {p: importlib.metadata.version(p) for p in ["torch", "transformers", *tools]}
    # Expert matrices are stored as [experts, out, in] and used as [experts, in, out].
    rows = {n: w.swapaxes(1, 2) if w.ndim == 3 else w for n, w in sorted(quantized_weights.items())}
    crc = {n: zlib.crc32(np.ascontiguousarray(w, np.float32).tobytes()) for n, w in rows.items()}
    rounded = dict(rounded=rounded_cases(model, sizes["vocab_size"], generator)) if name in TOKEN_SCALES else {}
    (path / "golden.json").write_text(json.dumps(dict(**versions, seed=seed, crc32=crc, cases=cases, **rounded), separators=(",", ":")) + "\n")
    size = sum(f.stat().st_size for f in path.iterdir())
    print(f"{name}: seed {seed}, {size} bytes, {len(quantized_weights)} weights, largest logit {max(map(abs, cases[-1]['logits'])):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "quantized")
    parser.add_argument("names", nargs="*", choices=[[], *PACKED, *TOOLS], metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names or [*PACKED, *TOOLS]:
        make_model(args.out / name, name)


if __name__ == "__main__":
    main()
