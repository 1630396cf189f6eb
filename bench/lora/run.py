#!/usr/bin/env python3
"""Measures what LoRA adapters cost: decoding and prompts with adapters, as ratios to the base model, in interleaved runs.

    bench/lora/run.py MODEL [CASE...] [--quire build/release/quire] [--threads 2] [--rounds 3] [--quantization auto] [--quantization int8]

MODEL is a checkpoint directory, for example one of Qwen3-0.6B's shape that bench/peers/make_model.py writes. The script makes adapters of
random weights for it. Cases with experts need a model with the names of Qwen3-MoE, and are left out for others. Each case runs `quire bench latency` with and without adapters in turn, and prints the medians of the time per token
(decoding) or of the time to the first token (prompts), with the ratio base / adapters: 1 = adapters cost nothing. Needs only the standard
library.
"""

import argparse
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "peers"))
import machine  # noqa: E402

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
# Parameters with the matrices of all experts, by what PEFT calls the wrapper of each.
EXPERTS = ["experts.base_layer", "experts"]
ALL = ATTENTION + ["gate_proj", "up_proj", "down_proj"]

# name: (ranks of the adapters, modules, batch size, tokens of prompt and output, whether they are used, goal)
CASES = {
    "none-used": ([16], ATTENTION, 32, (32, 64), False, 0.99),
    "one-rank-16": ([16], ATTENTION, 32, (32, 64), True, 0.95),
    "32-of-rank-16": ([16] * 32, ATTENTION, 32, (32, 64), True, 0.85),
    "64-of-ranks-4-to-64": ([4, 8, 16, 24, 32, 40, 48, 64] * 8, ALL, 64, (32, 32), True, None),
    "batch-1": ([16], ATTENTION, 1, (32, 96), True, 0.93),
    "batch-1-all-modules": ([16], ALL, 1, (32, 96), True, None),
    "prompt-of-512": ([16], ATTENTION, 1, (512, 1), True, 0.93),
    "prompt-of-512-all-modules": ([16], ALL, 1, (512, 1), True, None),
    "experts-one-rank-8": ([8], EXPERTS, 8, (32, 64), True, None),
    "experts-8-of-rank-8": ([8] * 8, EXPERTS, 8, (32, 64), True, None),
    "experts-prompt-of-512": ([8], EXPERTS, 1, (512, 1), True, None),
}


def experts_of(config):
    return config.get("num_experts") or config.get("num_local_experts", 0)


def shapes_of(config):
    """The matrices of a layer, [out, in]."""
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = config.get("head_dim") or hidden // heads
    kv = config.get("num_key_value_heads", heads) * head
    return {"q_proj": (heads * head, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, heads * head),
            "experts.base_layer": (2 * config.get("moe_intermediate_size", 0), hidden),
            "experts": (hidden, config.get("moe_intermediate_size", 0)),
            "gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}


def random_bfloat16(count, rng):
    """Values of about 0.01 with both signs."""
    words = rng.getrandbits(16 * count).to_bytes(2 * count, "little")
    return bytes(byte & 0x80 | 0x3C if i % 2 else byte & 0x7F for i, byte in enumerate(words))


def write_adapter(path, config, rank, modules, seed):
    path.mkdir()
    rng, header, data, offset = random.Random(seed), {}, [], 0
    pool = random_bfloat16(1 << 20, rng)
    for layer in range(config["num_hidden_layers"]):
        for module in modules:
            out, size = shapes_of(config)[module]
            block = "self_attn" if module in ATTENTION else "mlp"
            ranks = rank * (experts_of(config) if module in EXPERTS else 1)
            for part, shape in (("A", (ranks, size)), ("B", (out, ranks))):
                length = 2 * shape[0] * shape[1]
                begin = 2 * rng.randrange(len(pool) // 4)
                values = (pool[begin:] + pool * (length // len(pool) + 1))[:length]
                header[f"base_model.model.model.layers.{layer}.{block}.{module}.lora_{part}.weight"] = dict(
                    dtype="BF16", shape=shape, data_offsets=[offset, offset + length])
                data.append(values)
                offset += length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (path / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    (path / "adapter_config.json").write_text(json.dumps(dict(
        peft_type="LORA", r=rank, lora_alpha=2 * rank, target_modules=[m for m in modules if m not in EXPERTS], task_type="CAUSAL_LM",
        target_parameters=["experts.gate_up_proj", "experts.down_proj"] if modules == EXPERTS else None)))
    return offset


def milliseconds(arguments, prompt):
    """Per token of a sequence, or to the first token."""
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stderr}")
    report = json.loads(done.stdout)
    return report["ttft_ms"]["p50"] if prompt else report["tpot_ms"]["p50"]


def measure(args, name, quantization, folder):
    ranks, modules, batch, (prompt, output), used, goal = CASES[name]
    config = json.loads((args.model / "config.json").read_text())
    place = folder / f"{name}-{quantization}"
    place.mkdir()
    adapters, total = [], 0
    for i, rank in enumerate(ranks):
        total += write_adapter(place / f"a{i}", config, rank, modules, i)
        adapters.append(f"a{i}={place / f'a{i}'}")
    base = [args.quire, "bench", "latency", str(args.model), "--threads", str(args.threads), "--batch-size", str(batch), "--input-len", str(prompt),
            "--output-len", str(output), "--num-iters", "2", "--quantization", quantization, "--kv-cache-memory", "1GiB", "--json", "-",
            "--log-level", "error"]
    with_adapters = base + ["--max-lora-rank", "64", "--lora-modules", *adapters] + ([] if used else ["--no-use-loras"])
    times = {"base": [], "adapters": []}
    for _ in range(args.rounds):
        times["base"].append(milliseconds(base, output == 1))
        times["adapters"].append(milliseconds(with_adapters, output == 1))
    median = {kind: statistics.median(values) for kind, values in times.items()}
    ratio = median["base"] / median["adapters"]
    added = median["adapters"] - median["base"]
    print(f"{name:28} {quantization:8} {median['base']:9.2f} {median['adapters']:9.2f} {ratio:7.3f} {goal or '':>6} {total / 1e6:9.1f} MB"
          f" {total / 1e6 / added if added > 0 else 0:8.1f} GB/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--quire", default="build/release/quire")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quantization", action="append", help="default: auto, then int8")
    args = parser.parse_args()
    print(f"{machine.describe()['cpu']}, {args.threads} threads, medians of {args.rounds} interleaved runs, milliseconds")
    print(f"{'case':28} {'weights':8} {'base':>9} {'adapters':>9} {'ratio':>7} {'goal':>6} {'adapters':>12} {'bytes/added time':>13}")
    has_experts = experts_of(json.loads((args.model / "config.json").read_text())) > 0
    fitting = [name for name, (_, modules, *_) in CASES.items() if (modules == EXPERTS) == has_experts]
    with tempfile.TemporaryDirectory() as folder:
        for quantization in args.quantization or ["auto", "int8"]:
            for name in args.cases or fitting:
                measure(args, name, quantization, pathlib.Path(folder))


if __name__ == "__main__":
    main()
