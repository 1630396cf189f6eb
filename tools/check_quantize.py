#!/usr/bin/env python3
"""Checks what `quire quantize` writes with the libraries that other engines read such files with.

For each format quire-tiny is quantized; then
  - bitsandbytes (0.50) quantizes the same weights: codes and scales must be the same bytes,
  - compressed-tensors (0.20) and numpy decode GPTQ, AWQ, W4A16, W8A16, W8A8, FP8: near the original,
  - transformers loads those that it needs no GPU for, and gives the log-probabilities that quire gives,
  - vLLM (its processor build) and llama.cpp (llama-cpp-python) generate greedily from those that they can run, as quire does. Where an
    engine takes another token, quire must find it nearly as likely: both round on the way.
What is not installed is left out, aloud.

Usage: check_quantize.py [--quire FILE] [--model DIR] [--vllm PYTHON] [--llama PYTHON] [--engines-only]
       PYTHON: an interpreter that has the package (bench/peers sets them up); none: this one
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROMPT = "Once upon a time there was a cat. The cat liked to sleep in the sun."
# The largest relative error of a whole matrix that a format may have.
LIMITS = {"gptq": 0.15, "awq": 0.15, "w4a16": 0.15, "w8a16": 0.015, "w8a8": 0.015, "fp8": 0.04, "fp8-block": 0.04,
          "nvfp4": 0.15, "mxfp4": 0.18, "bnb-nf4": 0.15, "bnb-fp4": 0.15}


def tensors(directory):
    out = {}
    for file in pathlib.Path(directory).glob("*.safetensors"):
        with safe_open(file, "pt") as f:
            out |= {name: f.get_tensor(name) for name in f.keys()}
    return out


def unpack(words, bits):
    """int32 [..., m] -> codes [..., m * 32 / bits], as a stream of bits."""
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
    # The library's own decoder for CPUs is wrong where blocks run on from row to row.
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


def logprobs_of_quire(quire, directory):
    line = json.dumps({"prompt": PROMPT, "prompt_logprobs": 0, "max_tokens": 1})
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(line + "\n")
        file.flush()
        run = subprocess.run([quire, "generate", directory, "--prompts-file", file.name, "--json", "--kv-cache-dtype", "float32"],
                             capture_output=True, text=True, check=True)
    return [p[0]["logprob"] for p in json.loads(run.stdout)["prompt_logprobs"]]


# What vLLM runs on processors, and llama.cpp of GGUF files. Activations that quire keeps as floats are rounded in w8a8.
VLLM_VARIANTS = [("gptq", ["--group-size", "64", "--method", "gptq"]), ("gptq", ["--bits", "8", "--group-size", "64"]),
                 ("awq", ["--group-size", "64", "--method", "awq"]), ("w4a16", ["--group-size", "64"]), ("w8a16", []), ("w8a8", []), ("fp8", []),
                 ("fp8", ["--kv-scales"]), ("nvfp4", []), ("mxfp4", []), ("bnb-nf4", [])]
LLAMA_VARIANTS = [(f"gguf-{kind}", []) for kind in ("f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")]
PROMPTS = [PROMPT, "The robot", "Anna went to the market. She", "In the garden there"]
NEW_TOKENS = 24
# How much less likely than its own choice quire may find another engine's, in nats.
TIE = 0.35

VLLM_WORKER = """
import json, sys
from vllm import LLM, SamplingParams
llm = LLM(model=sys.argv[1], dtype="bfloat16", max_model_len=512, enforce_eager=True, max_num_seqs=4, gpu_memory_utilization=0.2)
prompts = [{"prompt_token_ids": ids} for ids in json.loads(sys.argv[2])]
outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=int(sys.argv[3]), ignore_eos=True))
print("TOKENS " + json.dumps([list(o.outputs[0].token_ids) for o in outputs]))
"""
LLAMA_WORKER = """
import json, pathlib, sys
from llama_cpp import Llama
llm = Llama(model_path=str(next(pathlib.Path(sys.argv[1]).glob("*.gguf"))), n_ctx=512, n_threads=2, verbose=False, logits_all=False)
texts = []
for ids in json.loads(sys.argv[2]):
    llm.reset()
    out = []
    for token in llm.generate(ids, temp=0.0, repeat_penalty=1.0):
        out.append(int(token))
        if len(out) == int(sys.argv[3]):
            break
    texts.append(out)
print("TOKENS " + json.dumps(texts))
"""


def tokens_of_quire(quire, directory, prompts):
    """Token ids of the prompts, and greedy ones after them."""
    lines = [json.dumps({"prompt": p, "max_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True, "prompt_logprobs": 0}) for p in prompts]
    return [(json.loads(line)["prompt_token_ids"], json.loads(line)["outputs"][0]["token_ids"]) for line in run_quire(quire, directory, lines)]


def run_quire(quire, directory, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        run = subprocess.run([quire, "generate", directory, "--prompts-file", file.name, "--json", "--kv-cache-dtype", "float32"],
                             capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if line.startswith("{")]


def how_much_worse(quire, directory, prompt, ours, theirs):
    """Where two continuations part, how many nats less likely quire finds the other one's token."""
    at = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
    logprobs = []
    for token in (ours[at], theirs[at]):
        line = json.dumps({"prompt_token_ids": prompt + ours[:at] + [token], "prompt_logprobs": 0, "max_tokens": 1})
        answer = json.loads(run_quire(quire, directory, [line])[0])
        logprobs.append(answer["prompt_logprobs"][-1][0]["logprob"])
    return logprobs[0] - logprobs[1]


def check_engine(args, engine, python, worker, variants, package):
    probe = subprocess.run([python, "-c", f"import {package}"], capture_output=True, text=True)
    if probe.returncode != 0:
        print(f"{engine}: left out, {python} has no {package} ({probe.stderr.strip().splitlines()[-1]})", flush=True)
        return
    for name, flags in variants:
        with tempfile.TemporaryDirectory() as temporary:
            out = pathlib.Path(temporary) / "out"
            needs_text = "--method" in flags or "--kv-scales" in flags
            text = ["--text", args.model / "validation.txt", "--samples", "32"] if needs_text else []
            subprocess.run([args.quire, "quantize", args.model, "-o", out, "--format", name, *flags, *text], check=True, capture_output=True)
            ours = tokens_of_quire(args.quire, out, PROMPTS)
            run = subprocess.run([python, "-c", worker, out, json.dumps([p for p, _ in ours]), str(NEW_TOKENS)], capture_output=True, text=True)
            title = f"{engine}: {name:10} {' '.join(flags):34}"
            answer = [line for line in run.stdout.splitlines() if line.startswith("TOKENS ")]
            if not answer:
                reasons = [line for line in run.stderr.splitlines() if "Error" in line or "not supported" in line]
                print(f"{title} does not load: {(reasons or run.stderr.splitlines() or ['?'])[-1].strip()[:200]}", flush=True)
                continue
            same, worst = 0, 0.0
            for (prompt, own), other in zip(ours, json.loads(answer[0].removeprefix("TOKENS "))):
                if own == other:
                    same += 1
                else:
                    worst = max(worst, how_much_worse(args.quire, out, prompt, own, other))
            print(f"{title} {same} of {len(ours)} texts the same; where others part, {worst:.3f} nats apart", flush=True)
            assert worst < TIE, f"{engine}, {name}: {worst} nats"


def logprobs_of_transformers(directory):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = torch.tensor([AutoTokenizer.from_pretrained(directory)(PROMPT).input_ids])
    with torch.no_grad():
        logprobs = torch.log_softmax(model(ids).logits[0].float(), -1)
    return [logprobs[i, ids[0, i + 1]].item() for i in range(ids.shape[1] - 1)]


def check_files(args):
    originals = tensors(args.model)
    for name, flags in VARIANTS:
        with tempfile.TemporaryDirectory() as temporary:
            out = pathlib.Path(temporary) / "out"
            subprocess.run([args.quire, "quantize", args.model, "-o", out, "--format", name, *flags], check=True, capture_output=True)
            config = json.loads((out / "config.json").read_text())["quantization_config"]
            t = tensors(out)
            modules = [n.removesuffix(".weight") for n in originals if n.endswith("_proj.weight")]
            error = size = different = 0
            for module in modules:
                w = originals[module + ".weight"].float().numpy()
                decoded = DECODERS[config["quant_method"]](t, module, config)
                assert decoded.shape == w.shape, (module, decoded.shape, w.shape)
                error += float(((decoded - w) ** 2).sum())
                size += float((w**2).sum())
                if config["quant_method"] == "bitsandbytes":
                    different += same_as_bitsandbytes(t, module, originals[module + ".weight"], config)
            relative = (error / size) ** 0.5
            text = f"{name:10} {' '.join(flags):24} relative error {relative:.4f}"
            if config["quant_method"] == "bitsandbytes":
                text += f", {different} bytes differ from bitsandbytes"  # of scales, which it does not always round to the nearest
            # It wants whole groups, and has no right shape for zeros.
            packed = config["quant_method"] == "compressed-tensors" and config["format"] == "pack-quantized"
            if packed and "--asymmetric" not in flags and (name == "w8a16" or flags):
                theirs, ours = logprobs_of_transformers(out), logprobs_of_quire(args.quire, out)
                text += f", transformers' log-probabilities within {max(abs(a - b) for a, b in zip(theirs, ours)):.2e}"
            print(text, flush=True)
            limit = LIMITS[name] * (2.5 if "3" in flags else 1)
            assert relative < limit, f"{name}: {relative} is not below {limit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default=ROOT / "build/release/quire")
    parser.add_argument("--model", default=ROOT / "models/quire-tiny")
    parser.add_argument("--vllm", default=sys.executable)
    parser.add_argument("--llama", default=sys.executable)
    parser.add_argument("--engines-only", action="store_true", help="only vLLM and llama.cpp")
    args = parser.parse_args()
    args.model = pathlib.Path(args.model)
    if not args.engines_only:
        check_files(args)
    check_engine(args, "llama.cpp", args.llama, LLAMA_WORKER, LLAMA_VARIANTS, "llama_cpp")
    check_engine(args, "vLLM", args.vllm, VLLM_WORKER, VLLM_VARIANTS, "vllm")


if __name__ == "__main__":
    main()
