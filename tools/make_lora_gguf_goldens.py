#!/usr/bin/env python3
"""Writes tests/golden/gguf/adapters.json: what llama.cpp's convert_lora_to_gguf.py makes of adapters in tests/golden/lora.

The values of the tensors are those of the adapters in another order, so only their origin is stored, as in the files of
tools/make_gguf_goldens.py. The outputs must be those of tests/golden/lora.

Usage: make_lora_gguf_goldens.py --llama-cpp DIR [NAME...]    default: all; DIR: source of llama.cpp
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import golden_weights
import make_gguf_goldens
import numpy as np
from safetensors.torch import load_file

GOLDEN = golden_weights.GOLDEN
# Rows of queries and keys in another order, interleaved and stacked projections, embeddings, experts, a tied head.
ADAPTERS = (
    "qwen3-all-linear", "qwen3-bfloat16", "llama-exclusions", "llama-one-layer", "llama-embedding", "llama-untied-embedding", "llama-untied-head",
    "granite-multipliers", "smollm3-attention", "gemma3-attention", "gemma3-embedding", "olmo2-all-linear", "cohere2-parallel", "qwen2-bias",
    "phi3-fused", "phi-biases", "gpt_neox-interleaved", "bloom-interleaved", "falcon-grouped", "qwen2_moe-shared-expert", "mixtral-all-expert-modules",
    "olmoe-all-expert-modules", "deepseek_v3-latent", "lfm2-convolution", "nemotron_h-hybrid", "mamba2-projections",
)
KEPT_METADATA = ("general.architecture", "general.type", "adapter.")


def convert(adapter, base, out, llama_cpp):
    """Runs the converter as people do."""
    done = subprocess.run([sys.executable, llama_cpp / "convert_lora_to_gguf.py", adapter, "--base", base, "--outfile", out, "--outtype", "f32"],
                          capture_output=True, text=True, env=os.environ | dict(CUDA_VISIBLE_DEVICES=""))
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def describe(name, llama_cpp, gguf):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        golden_weights.write_checkpoint(GOLDEN / "lora" / name, folder / name)
        model = json.loads((folder / name / "golden.json").read_text())["model"]
        golden_weights.write_checkpoint(GOLDEN / "models" / model, folder / model)
        if model.startswith("gemma"):
            # The converter reads the size of the vocabulary from here.
            vocabulary = {str(i): i for i in range(json.loads((folder / model / "config.json").read_text())["vocab_size"])}
            (folder / model / "tokenizer.json").write_text(json.dumps(dict(model=dict(type="WordPiece", vocab=vocabulary), added_tokens=[])))
        convert(folder / name, folder / model, folder / "adapter.gguf", llama_cpp)
        reader = gguf.GGUFReader(folder / "adapter.gguf")
        metadata = [[field.name, [t.name for t in field.types], field.contents()] for field in reader.fields.values()
                    if field.name.startswith(KEPT_METADATA)]
        sources = {key: value.float().numpy() for key, value in load_file(folder / name / "adapter_model.safetensors").items()}
        tensors = []
        for tensor in reader.tensors:
            shape = [int(n) for n in tensor.shape]
            value = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(shape[::-1])
            place = make_gguf_goldens.find_source(value, sources)
            if place is None:
                raise ValueError(f"{tensor.name} is made of no tensor of the adapter")
            tensors.append(dict(name=tensor.name, type=tensor.tensor_type.name, shape=shape) | place)
    return dict(metadata=metadata, tensors=tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", choices=[[], *ADAPTERS], metavar="NAME")
    args = parser.parse_args()
    sys.path.insert(0, str(args.llama_cpp / "gguf-py"))
    import gguf

    out = GOLDEN / "gguf" / "adapters.json"
    adapters = json.loads(out.read_text())["models"] if args.names and out.exists() else {}
    for name in args.names or ADAPTERS:
        try:
            adapters[name] = describe(name, args.llama_cpp, gguf)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in sorted(adapters.items()))
    out.write_text(f'{{"llama_cpp": {json.dumps(args.llama_cpp.parent.parent.name)}, "models": {{\n{lines}\n}}}}\n')
    print(f"{out.name}: {len(adapters)} adapters, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
