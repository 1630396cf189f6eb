#!/usr/bin/env python3
"""Measures the time to first token of a prompt with a cached prefix: on the device, on the host, and on disk after a restart.

    bench/offline/prefix_ttft.py [--quire build/release/quire] [--prefix 2000] [--runs 3] [--layers 30] [--kill] [MODEL]

Without MODEL it creates one in SmolLM2-135M's shape with random weights (needs torch and transformers). For each of --runs prefixes
of --prefix random tokens, it requests one token after the prefix and 8 other tokens from `quire serve`: with an empty cache, again,
again after other prompts have evicted the prefix from the device, and again after a restart (--kill: with SIGKILL, a second after the
response). It prints the time of the whole HTTP request and the number of cached prompt tokens. Other prompts run first, so that no
time includes the first touch of weights or of the KV pool.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = dict(
    hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
    vocab_size=49152, max_position_embeddings=8192, rope_theta=10000.0, tie_word_embeddings=True,
    bos_token_id=1, eos_token_id=2)
SUFFIX = 8
LIMITS = {"device": 5.0, "host": 5.0, "disk": 15.0}


def make_model(directory, num_layers):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**dict(SHAPE, num_hidden_layers=num_layers))).to(torch.bfloat16).save_pretrained(directory)


class Server:
    def __init__(self, options, model, cache):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        pool_tokens = 3 * (options.prefix + 512)
        command = [options.quire, "serve", model, "--port", self.url.rsplit(":", 1)[1], "--log-level", "warning",
                   "--kv-cache-memory", str(pool_tokens * options.bytes_per_token),
                   "--swap-space", str(4 * pool_tokens * options.bytes_per_token), "--kv-disk-cache", cache, *options.flags]
        self.process = subprocess.Popen(command)
        begin = time.monotonic()
        while True:
            if self.process.poll() is not None:
                sys.exit(f"quire serve ended with exit code {self.process.returncode}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                if time.monotonic() > begin + 120:
                    sys.exit("quire serve does not answer")
                time.sleep(0.05)
        with urllib.request.urlopen(self.url + "/v1/models") as answer:
            self.model = json.load(answer)["data"][0]["id"]

    # Milliseconds to the response with one token, and the number of cached prompt tokens.
    def ask(self, prompt):
        body = json.dumps({"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": True}).encode()
        request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=600) as answer:
            usage = json.load(answer)["usage"]
        elapsed = 1000.0 * (time.perf_counter() - begin)
        return elapsed, (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    def stop(self, how):
        self.process.send_signal(how)
        self.process.wait(timeout=60)


def random_tokens(rng, count, vocab):
    return [rng.randrange(3, vocab) for _ in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model directory")
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--prefix", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"], help="number of layers of the created model")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--cache", help="parent of the cache directory, to measure another disk (default: the temporary directory)")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="further flags of quire serve")
    options = parser.parse_args()
    rng = random.Random(1)

    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryDirectory(dir=options.cache) as cache:
        model = options.model
        if model is None:
            model = str(pathlib.Path(temporary) / "model")
            make_model(model, options.layers)
        config = json.loads((pathlib.Path(model) / "config.json").read_text())
        heads = config.get("num_key_value_heads", config["num_attention_heads"])
        head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        # For two bytes per element. With other formats the pool holds more or fewer prompts.
        options.bytes_per_token = 2 * 2 * config["num_hidden_layers"] * heads * head_dim
        tokens = lambda count: random_tokens(rng, count, config["vocab_size"])

        print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores at the start")
        prefixes = [tokens(options.prefix) for _ in range(options.runs)]
        times = {"cold": [], "device": [], "host": [], "disk": []}

        def measure(server, kind, prefix):
            elapsed, cached = server.ask(prefix + tokens(SUFFIX))
            times[kind].append(elapsed)
            print(f"  {kind:<8}{elapsed:>10.2f} ms, {cached} of {options.prefix + SUFFIX} tokens cached", flush=True)

        server = Server(options, model, cache)
        server.ask(tokens(options.prefix))
        for prefix in prefixes:
            measure(server, "cold", prefix)
            measure(server, "device", prefix)
            for _ in range(4):
                server.ask(tokens(options.prefix))
            measure(server, "host", prefix)
        time.sleep(1)
        server.stop(signal.SIGKILL if options.kill else signal.SIGTERM)
        server = Server(options, model, cache)
        server.ask(tokens(options.prefix))
        for prefix in prefixes:
            measure(server, "disk", prefix)
        server.stop(signal.SIGTERM)

        cold = statistics.median(times["cold"])
        print(f"{'':<10}{'median ms':>10}{'of cold':>9}{'limit':>8}")
        print(f"{'cold':<10}{cold:>10.2f}")
        for kind, limit in LIMITS.items():
            median = statistics.median(times[kind])
            print(f"{kind:<10}{median:>10.2f}{100 * median / cold:>8.2f}%{limit:>7.0f}%")
        print(f"load average {os.getloadavg()[0]:.2f} at the end")


if __name__ == "__main__":
    main()
