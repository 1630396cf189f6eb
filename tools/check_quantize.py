#!/usr/bin/env python3
"""Checks the files written by `quire quantize` with the libraries that other engines use to read them.

Quantizes quire-tiny to each format. bitsandbytes (0.50) quantizes the same weights and must produce the same bytes; compressed-tensors
(0.20) and numpy decode the other formats, which must be close to the original. check_engines.py runs whole models in other engines.

Usage: check_quantize.py [--quire FILE]
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from safetensors import safe_open

from check_engines import TINY, make_tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Maximum relative error of a matrix, per format.
LIMITS = {"gptq": 0.15, "awq": 0.15, "w4a16": 0.15, "w8a16": 0.015, "w8a8": 0.015, "fp8": 0.04, "fp8-block": 0.04,
          "nvfp4": 0.15, "mxfp4": 0.18, "bnb-nf4": 0.15, "bnb-fp4": 0.15}


def tensors(directory):
    out = {}
    for file in pathlib.Path(directory).glob("*.safetensors"):
        with safe_open(file, "pt") as f:
            out |= {name: f.get_tensor(name) for name in f.keys()}
    return out


def unpack(words, bits):
    """Unpacks a bit stream: int32 [..., m] -> integers [..., m * 32 / bits]."""
    stream = (words.numpy().view(np.uint32)[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    stream = stream.reshape(*words.shape[:-1], -1)
    stream = stream[..., :stream.shape[-1] // bits * bits].reshape(*words.shape[:-1], -1, bits)
    return (stream << np.arange(bits, dtype=np.uint32)).sum(-1).astype(np.int32)


def decode_gptq(t, module, config):
    group = t[module + ".g_idx"].numpy()
    codes = unpack(t[module + ".qweight"].T.contiguous(), config["bits"]).T[:len(group)]
    zeros = unpack(t[module + ".qzeros"], config["bits"])
    zeros = zeros if config["checkpoint_format"] == "gptq_v2" else (zeros + 1) & (2 ** config["bits"] - 1)
    scales = t[module + ".scales"].float().numpy()
    return ((codes - zeros[group][:, :scales.shape[1]]) * scales[group]).T


def decode_awq(t, module, config):
    order = np.argsort([0, 2, 4, 6, 1, 3, 5, 7])

    def lines(words):
        codes = unpack(words, 4)
        return codes.reshape(codes.shape[0], -1, 8)[..., order].reshape(codes.shape)
    codes, zeros = lines(t[module + ".qweight"]), lines(t[module + ".qzeros"])
    group = np.arange(codes.shape[0]) // config["group_size"]
    return ((codes - zeros[group]) * t[module + ".scales"].float().numpy()[group]).T


def decode_compressed(t, module, config):
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
    weights = config["config_groups"]["group_0"]["weights"]
    if weights["type"] == "float" and weights["num_bits"] == 4:
        from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
        packed = t[module + ".weight_packed"]
        scale = t[module + ".weight_scale"]
        divisor = t[module + ".weight_global_scale"] if config["format"] == "nvfp4-pack-quantized" else torch.ones(1)
        scale = scale.float() if config["format"] == "nvfp4-pack-quantized" else 2.0 ** (scale.float() - 127)
        numbers = unpack_fp4_from_uint8(packed, packed.shape[0], packed.shape[1] * 2, torch.float32)
        return (numbers * (scale / divisor).repeat_interleave(weights["group_size"], 1)).numpy()
    scale = t[module + ".weight_scale"].float()
    if config["format"] != "pack-quantized":
        return (t[module + ".weight"].float() * scale).numpy()
    shape = torch.Size(t[module + ".weight_shape"].tolist())
    codes = unpack_from_int32(t[module + ".weight_packed"], weights["num_bits"], shape).float()
    group = weights["group_size"] or shape[1]
    if module + ".weight_zero_point" in t:
        points = unpack_from_int32(t[module + ".weight_zero_point"], weights["num_bits"], torch.Size([shape[0], scale.shape[1]]),
                                   packed_dim=0)
        codes = codes - points.float().repeat_interleave(group, 1)[:, :shape[1]]
    return (codes * scale.repeat_interleave(group, 1)[:, :shape[1]]).numpy()


def decode_blocks(t, module, config):
    size = config["weight_block_size"][0]
    scale = t[module + ".weight_scale_inv"]
    codes = t[module + ".weight"].float()
    spread = scale.repeat_interleave(size, 0).repeat_interleave(size, 1)[:codes.shape[0], :codes.shape[1]]
    return (codes * spread).numpy()


def decode_table(t, module, config):
    # The library's CPU decoder is wrong if blocks continue from one row to the next.
    import bitsandbytes.functional as F
    prefix = module + ".weight."
    state = F.QuantState.from_dict({k.removeprefix(prefix): v for k, v in t.items() if k.startswith(prefix)}, torch.device("cpu"))
    scales = state.absmax
    if state.nested:
        scales = state.state2.code[scales.long()] * state.state2.absmax.repeat_interleave(256)[:scales.numel()] + state.offset
    packed = t[module + ".weight"].flatten()
    codes = torch.stack([packed >> 4, packed & 15], 1).flatten().long()
    return (state.code[codes] * scales.repeat_interleave(state.blocksize)[:codes.numel()]).reshape(state.shape).float().numpy()


def same_as_bitsandbytes(t, module, weight, config):
    import bitsandbytes.functional as F
    codes, state = F.quantize_4bit(weight, compress_statistics=config["bnb_4bit_use_double_quant"],
                                   quant_type=config["bnb_4bit_quant_type"])
    packed = state.as_dict(packed=True)
    different = int((codes != t[module + ".weight"]).sum())
    for name, own in packed.items():
        if name.startswith("quant_state"):
            text = json.loads(bytes(own.tolist()))
            ours = json.loads(bytes(t[module + ".weight." + name].tolist()))
            assert set(text) == set(ours), (text, ours)
            assert all(text[k] == ours[k] or k == "nested_offset" for k in text), (text, ours)
            offset = text.get("nested_offset", 0)
            assert abs(offset - ours.get("nested_offset", 0)) <= 1e-6 * abs(offset), (text, ours)
        elif own.dtype == torch.uint8:
            different += int((own.flatten() != t[f"{module}.weight.{name}"].flatten()).sum())
        else:
            torch.testing.assert_close(own.flatten(), t[f"{module}.weight.{name}"].flatten(), rtol=2e-6, atol=1e-9)
    return different


DECODERS = {"gptq": decode_gptq, "awq": decode_awq, "compressed-tensors": decode_compressed, "fp8": decode_blocks,
            "bitsandbytes": decode_table}
VARIANTS = [(name, []) for name in LIMITS] + [
    ("gptq", ["--bits", "8"]), ("gptq", ["--bits", "3", "--group-size", "64"]), ("gptq", ["--asymmetric"]),
    ("w4a16", ["--group-size", "16"]), ("w4a16", ["--asymmetric", "--group-size", "16"]), ("bnb-nf4", ["--no-double-quant"])]


def check(quire, model, name, flags):
    originals = tensors(model)
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(temporary) / "out"
        subprocess.run([quire, "quantize", model, "-o", out, "--format", name, *flags], check=True, capture_output=True)
        config = json.loads((out / "config.json").read_text())["quantization_config"]
        t = tensors(out)
    error = size = different = 0
    for module in [n.removesuffix(".weight") for n in originals if n.endswith("_proj.weight")]:
        w = originals[module + ".weight"].float().numpy()
        decoded = DECODERS[config["quant_method"]](t, module, config)
        assert decoded.shape == w.shape, (module, decoded.shape, w.shape)
        error += float(((decoded - w) ** 2).sum())
        size += float((w**2).sum())
        if config["quant_method"] == "bitsandbytes":
            different += same_as_bitsandbytes(t, module, originals[module + ".weight"], config)
    relative = (error / size) ** 0.5
    text = f"{name:10} {' '.join(flags):34} relative error {relative:.4f}"
    if config["quant_method"] == "bitsandbytes":
        text += f", {different} bytes differ from bitsandbytes"  # bytes of scales, which it does not always round to nearest
    print(text, flush=True)
    limit = LIMITS[name] * (2.5 if "3" in flags else 1)
    assert relative < limit, f"{name}: {relative} is not below {limit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default=ROOT / "build/release/quire")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        wide = pathlib.Path(temporary) / "wide"
        make_tiny(wide)
        for name, flags in VARIANTS:
            # The number of columns of quire-tiny's MLP is not a multiple of 32.
            check(args.quire, wide if name == "mxfp4" else TINY, name, flags)


if __name__ == "__main__":
    main()
