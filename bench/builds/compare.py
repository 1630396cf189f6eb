#!/usr/bin/env python3
"""Compares decode and prefill of two builds of quire on the same random weights, in interleaved runs.

    compare.py BEFORE AFTER [--runs N] [--models NAME,...] [--directory DIR]

BEFORE and AFTER are executables, for example build/release/quire of two commits. The shapes: a dense model (Qwen3 0.6B), a mixture of experts
(Qwen3 MoE) and a hybrid of Mamba-2 and attention (Granite 4.0 H). Weights are written once as bfloat16 and kept. For each workload the script
prints the median of each build and their ratio: above 1, AFTER is faster. Needs numpy.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np

VOCABULARY = 32000


def dense():
    config = dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
        num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936, max_position_embeddings=8192, rms_norm_eps=1e-6,
        rope_theta=1e6, tie_word_embeddings=True, hidden_act="silu")
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        add_attention(tensors, config, f"model.layers.{layer}.")
        for name, shape in (("gate", (3072, 1024)), ("up", (3072, 1024)), ("down", (1024, 3072))):
            tensors[f"model.layers.{layer}.mlp.{name}_proj.weight"] = shape
    return config, tensors


def moe():
    config = dict(
        architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", hidden_size=1024, intermediate_size=3072, moe_intermediate_size=384,
        num_experts=32, num_experts_per_tok=4, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], num_hidden_layers=16,
        num_attention_heads=16, num_key_value_heads=4, head_dim=128, vocab_size=VOCABULARY, max_position_embeddings=8192, rms_norm_eps=1e-6,
        rope_theta=1e6, tie_word_embeddings=True, hidden_act="silu")
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        add_attention(tensors, config, prefix)
        tensors[f"{prefix}mlp.gate.weight"] = (32, 1024)
        for expert in range(32):
            for name, shape in (("gate", (384, 1024)), ("up", (384, 1024)), ("down", (1024, 384))):
                tensors[f"{prefix}mlp.experts.{expert}.{name}_proj.weight"] = shape
    return config, tensors


def hybrid():
    layers = ["attention" if i % 8 == 5 else "mamba" for i in range(24)]
    config = dict(
        architectures=["GraniteMoeHybridForCausalLM"], model_type="granitemoehybrid", hidden_size=1024, intermediate_size=2048,
        shared_intermediate_size=2048, num_local_experts=0, num_experts_per_tok=0, num_hidden_layers=len(layers), layer_types=layers,
        num_attention_heads=16, num_key_value_heads=4, vocab_size=VOCABULARY, max_position_embeddings=8192, rms_norm_eps=1e-5,
        rope_theta=1e4, position_embedding_type="rope", tie_word_embeddings=True, hidden_act="silu", attention_bias=False,
        mamba_n_heads=32, mamba_d_head=64, mamba_n_groups=1, mamba_d_state=128, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=256,
        mamba_conv_bias=True, mamba_proj_bias=False, embedding_multiplier=1.0, attention_multiplier=0.125, logits_scaling=1.0,
        residual_multiplier=1.0)
    inner, state, heads = 2048, 128, 32
    tensors = {}
    for layer, kind in enumerate(layers):
        prefix = f"model.layers.{layer}."
        if kind == "attention":
            add_attention(tensors, {**config, "head_dim": 64}, prefix, norms_of_heads=False)
        else:
            mixer = prefix + "mamba."
            tensors |= {
                mixer + "in_proj.weight": (2 * inner + 2 * state + heads, 1024), mixer + "out_proj.weight": (1024, inner),
                mixer + "conv1d.weight": (inner + 2 * state, 1, 4), mixer + "conv1d.bias": (inner + 2 * state,),
                mixer + "dt_bias": (heads,), mixer + "A_log": (heads,), mixer + "D": (heads,), mixer + "norm.weight": (inner,),
                prefix + "input_layernorm.weight": (1024,), prefix + "post_attention_layernorm.weight": (1024,)}
        tensors[prefix + "shared_mlp.input_linear.weight"] = (4096, 1024)
        tensors[prefix + "shared_mlp.output_linear.weight"] = (1024, 2048)
    return config, tensors


MODELS = {"qwen3-0.6b": dense, "qwen3-moe": moe, "granite-hybrid": hybrid}
# Name: arguments of `quire bench latency`, and the field of its result that is compared.
WORKLOADS = {
    "decode, 1 sequence": (["--batch-size", "1", "--input-len", "16", "--output-len", "64"], "decode_tokens_per_s"),
    "decode, 8 sequences": (["--batch-size", "8", "--input-len", "16", "--output-len", "32"], "decode_tokens_per_s"),
    "prefill of 512 tokens": (["--batch-size", "1", "--input-len", "512", "--output-len", "1"], "prefill_tokens_per_s"),
}


def add_attention(tensors, config, prefix, norms_of_heads=True):
    hidden, head = config["hidden_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    for name, shape in (("q", (queries, hidden)), ("k", (keys, hidden)), ("v", (keys, hidden)), ("o", (hidden, queries))):
        tensors[f"{prefix}self_attn.{name}_proj.weight"] = shape
    if norms_of_heads:
        tensors |= {f"{prefix}self_attn.{name}_norm.weight": (head,) for name in "qk"}
    tensors |= {f"{prefix}{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}


def write_model(name, directory):
    path = directory / name
    if (path / "model.safetensors").exists():
        return path
    print(f"writing {path}", file=sys.stderr)
    config, tensors = MODELS[name]()
    tensors["model.embed_tokens.weight"] = (config["vocab_size"], config["hidden_size"])
    tensors["model.norm.weight"] = (config["hidden_size"],)
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config | {"torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1}))
    header, offset = {}, 0
    for tensor, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(1)
    with open(path / "model.partial", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in tensors.values():
            scale = 0.02 if len(shape) > 1 else 0.5
            values = random.standard_normal(shape, dtype=np.float32) * scale
            file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    (path / "model.partial").rename(path / "model.safetensors")
    return path


def rate(executable, model, arguments, field):
    # The warm-up touches the memory of the KV cache and of recurrent states, which some builds do at start-up.
    output = subprocess.run(
        [executable, "bench", "latency", model, *arguments, "--temperature", "0", "--num-iters", "4", "--num-iters-warmup", "4", "--json", "-",
         "--kv-cache-memory", "256MiB", "--log-level", "error"],
        check=True, capture_output=True, text=True).stdout
    return json.loads(output)[field]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp/quire-compare"))
    args = parser.parse_args()
    print(f"{'':16}{'':24}{'before':>10}{'after':>10}{'ratio':>8}   tokens/s, medians of {args.runs} interleaved runs")
    for name in args.models.split(","):
        model = write_model(name, args.directory)
        for workload, (arguments, field) in WORKLOADS.items():
            rates = {args.before: [], args.after: []}
            for run in range(args.runs):
                # The order alternates, so that a drift of the machine affects both.
                for executable in sorted(rates, key=str, reverse=run % 2 == 1):
                    rates[executable].append(rate(executable.resolve(), model, arguments, field))
            before, after = (statistics.median(rates[executable]) for executable in (args.before, args.after))
            print(f"{name:16}{workload:24}{before:10.1f}{after:10.1f}{after / before:8.3f}", flush=True)


if __name__ == "__main__":
    main()
