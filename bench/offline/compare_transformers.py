#!/usr/bin/env python3
"""Compares quire with transformers' generate on the same random weights: medians of several interleaved runs.

    compare_transformers.py [--quire build/release/quire] [--runs 5] [--threads N] [--json FILE]

Creates a model in SmolLM2-135M's shape (bfloat16 for both; transformers also in float32, which is faster on processors without
bfloat16 arithmetic) and measures tokens per second for a prompt of 512 tokens and for decoding of 64 tokens with 1, 8 and 32 sequences
(prompts of 32 tokens). Needs torch and transformers.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

SHAPE = dict(
    hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
    vocab_size=49152, max_position_embeddings=2048, rope_theta=10000.0, tie_word_embeddings=True,
    bos_token_id=1, eos_token_id=2)
CASES = [("prompt 512", 1, 512, 1), ("decode, 1 sequence", 1, 32, 64), ("decode, 8 sequences", 8, 32, 64),
         ("decode, 32 sequences", 32, 32, 64)]


def make_model(directory):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).to(torch.bfloat16).save_pretrained(directory)


class Transformers:
    def __init__(self, directory, dtype, threads):
        import torch
        from transformers import LlamaForCausalLM
        self.torch = torch
        torch.set_num_threads(threads)
        self.model = LlamaForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype)).eval()

    def measure(self, batch, prompt, output):
        ids = self.torch.randint(3, SHAPE["vocab_size"], (batch, prompt))
        options = dict(do_sample=False, pad_token_id=0, eos_token_id=None)

        def run(tokens):
            begin = time.perf_counter()
            with self.torch.inference_mode():
                self.model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, **options)
            return time.perf_counter() - begin

        first = run(1)
        if output == 1:
            return batch * prompt / first
        return batch * (output - 1) / max(1e-9, run(output) - first)


class Quire:
    def __init__(self, binary, directory, threads):
        self.command = [binary, "bench", "latency", directory, "--threads", str(threads), "--num-iters", "1",
                        "--num-iters-warmup", "1", "--log-level", "error"]

    def measure(self, batch, prompt, output):
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            subprocess.run(self.command + ["--batch-size", str(batch), "--input-len", str(prompt), "--output-len", str(output),
                                           "--json", result.name], check=True, stdout=subprocess.DEVNULL)
            report = json.load(open(result.name))
        return report["prefill_tokens_per_s"] if output == 1 else report["decode_tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/release/quire")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        make_model(directory)
        engines = {"quire bfloat16": Quire(str(pathlib.Path(arguments.quire).resolve()), directory, arguments.threads),
                   "transformers bfloat16": Transformers(directory, "bfloat16", arguments.threads),
                   "transformers float32": Transformers(directory, "float32", arguments.threads)}
        figures = {case[0]: {name: [] for name in engines} for case in CASES}
        for _ in range(arguments.runs):
            for name, *shape in CASES:
                for engine, runner in engines.items():
                    figures[name][engine].append(runner.measure(*shape))
    print("| tokens/s | " + " | ".join(engines) + " | ratio to the faster |")
    print("|---|" + "---|" * (len(engines) + 1))
    medians = {}
    for name, row in figures.items():
        medians[name] = {engine: statistics.median(values) for engine, values in row.items()}
        ours, *theirs = medians[name].values()
        print(f"| {name} | " + " | ".join(f"{v:.0f}" for v in medians[name].values()) + f" | {ours / max(theirs):.2f} |")
    if arguments.json:
        json.dump({"threads": arguments.threads, "runs": figures, "medians": medians}, open(arguments.json, "w"), indent=1)


if __name__ == "__main__":
    main()
