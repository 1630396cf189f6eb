#!/usr/bin/env python3
"""Writes tests/golden/quantized: tiny quantized Llamas with random weights, and the outputs of transformers for them. Their formats are in
tools/quantized_goldens.

Each directory NAME has a checkpoint (config.json, model.safetensors) and golden.json:
  cases    as in make_model_goldens.py, for the model with the dequantized weights in float32
  crc32    of each quantized weight [out, in], dequantized, as float32 bytes
  rounded  logits after prompts, with the inputs of quantized layers rounded to int8, one scale per token
Packed weights are stored; models that are quantized when they are loaded have weights.json, from which tools/golden_weights.py draws them.
bitsandbytes, compressed-tensors, auto-round, quark and torchao pack with their own libraries; the other formats are packed from their
descriptions. Weights that this script reads back must equal those that the library reads.

Usage: make_quantized_goldens.py [--out DIR] [NAME...]       default: all
"""

import argparse
import importlib.metadata
import json
import pathlib
import shutil
import tempfile
import zlib

import golden_weights
import numpy as np
import torch
import transformers
from make_model_goldens import make_cases
from model_goldens.weights import describe, fill
from quantized_goldens import bitsandbytes, compressed, experts, quark, torchao
from quantized_goldens.common import CONFIG, f32, is_quantized
from quantized_goldens.packed import PACKED
from quantized_goldens.rounded_inputs import TOKEN_SCALES, rounded_cases
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

TOOLS = {}
for library in (bitsandbytes, compressed, experts, torchao, quark):
    TOOLS |= library.TOOLS


def ternary(w):
    """The weight of BitNet's AutoBitLinear, which is quantized online."""
    by = np.float32(1) / np.float32(max(np.abs(w).astype(np.float64).mean(), 1e-5))
    return np.clip(np.round(w * by), -1, 1).astype(np.int64).astype(np.float32) * (np.float32(1) / by)


# Formats that are quantized when they are loaded: name: (quantization of a weight, quantization_config)
ONLINE = {"bitnet-online": (ternary, dict(quant_method="bitnet", linear_class="autobitlinear", quantization_mode="online"))}


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


def quantize_online(path, model, seed, quantize, quantization):
    """Describes a checkpoint with float32 matrices; returns its tensors and the quantized matrices."""
    described = describe(model, lambda model: {n: v for n, v in model.state_dict().items() if n != "lm_head.weight"}, torch.float16)
    for name, entry in described.items():
        if is_quantized(name):
            entry[0], entry[-1] = "F32", 2 * entry[-1]  # so that the layers' outputs are not negligible compared with the embedding
    (path / "config.json").write_text(json.dumps(CONFIG | dict(quantization_config=quantization), indent=1) + "\n")
    golden_weights.write_description(path, seed, {"model.safetensors": described})
    with tempfile.TemporaryDirectory() as folder:
        golden_weights.write_checkpoint(path, folder)
        stored = load_file(pathlib.Path(folder) / "model.safetensors")
    return stored, {name: quantize(f32(value)) for name, value in stored.items() if is_quantized(name)}


def make_model(path, name):
    sizes = {"mxfp4-experts": experts.GPT_OSS, "fp8-deepseek_v4": experts.V4}.get(name, CONFIG) | TOKEN_SCALES.get(name, {})
    for seed in range(1000):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**sizes), dtype=torch.float32)
        fill(model, seed)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        if name in ONLINE:
            stored, dense = quantize_online(path, model, seed, *ONLINE[name])
        else:
            if name in PACKED:
                dense = pack_here(path, model, generator, *PACKED[name])
            else:
                tool, options = TOOLS[name]
                dense = tool(path, model, **options)
            stored = load_file(path / "model.safetensors")
        # Names in the file of the quantized weights.
        dense, quantized_weights = dense if isinstance(dense, tuple) else (dense, dense)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**sizes), dtype=torch.float32, attn_implementation="eager").eval()
        state = {n: torch.from_numpy(dense[n].astype(np.float32) if dense[n].dtype != np.int64 else dense[n]) if n in dense else stored[n].float()
                 for n in model.state_dict() if n in dense or n in stored}
        model.load_state_dict(state, strict=False)
        model.tie_weights()
        cases = make_cases(model, sizes["vocab_size"], generator)
        if cases:
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy tokens")
    for extra in path.iterdir():
        if extra.name not in ("config.json", "weights.json", "model.safetensors"):
            extra.unlink()
    packages = {"quark": "amd-quark", "compressed": "compressed-tensors"} | {p: p for p in ("auto-round", "bitsandbytes", "torchao")}
    used = [package for start, package in packages.items() if name.startswith(start)]
    versions = {p: importlib.metadata.version(p) for p in ["torch", "transformers", *used]}
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
    parser.add_argument("names", nargs="*", choices=[[], *PACKED, *ONLINE, *TOOLS], metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names or [*PACKED, *ONLINE, *TOOLS]:
        make_model(args.out / name, name)


if __name__ == "__main__":
    main()
