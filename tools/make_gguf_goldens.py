#!/usr/bin/env python3
"""Makes tests/golden/gguf/models.json: what llama.cpp's converter makes of the models of tests/golden/models.

The tensors' values are those of the models' safetensors in another order, so that only their places are kept:
  NAME: {metadata: [[key, type, value]], tensors: [{name, type, shape, source, ...}]}
    shape       as GGUF has it, the innermost dimension first
    source      the tensor of model.safetensors, or null: the values stand in `values`
    transposed  of the source's transpose
    rows        which rows of the source (elements of a vector); absent: as they are
    plus        what is added to each value
    parts       in place of all that, the same for each expert of the tensor

Usage: make_gguf_goldens.py --llama-cpp DIR [NAME...]    no name: all; DIR: llama.cpp's source, as vendor/llama.cpp of the sdist of llama-cpp-python
"""

import argparse
import functools
import json
import logging
import pathlib
import sys
import tempfile

import numpy as np
import torch
import tqdm
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "golden" / "models"
TYPES = {"float16": "MOSTLY_F16", "bfloat16": "MOSTLY_BF16"}
# Converted by none, or (llama-sharded) the same as another.
LEFT_OUT = ("dots1", "ernie4_5_moe", "falcon-old", "glm4_moe", "gpt_oss", "gpt_oss-float16", "granitemoe", "granitemoeshared",
            "minimax_m2", "mixtral-stacked", "phimoe", "qwen2_moe", "qwen2_moe-stacked", "gptj", "llama-sharded", "opt",
            # The files do not say what these are about: old names, activations, windows, layers without positions.
            "gpt2-bare-names", "llama-bias", "mistral", "mistral-bfloat16", "qwen2-window", "qwen3-bias", "smollm3")
# What the converter does not write, or gets wrong for models of so odd sizes: [key, types, value].
ADDED = {
    "cohere2": [["cohere2.attention.sliding_window_pattern", ["ARRAY", "BOOL"], [True, False, True]]],
    "gemma2": [["gemma2.attention.scale", ["FLOAT32"], 12**-0.5]],
    "gemma3": [["gemma3.attention.scale", ["FLOAT32"], 12**-0.5],
               ["gemma3.attention.sliding_window_pattern", ["ARRAY", "BOOL"], [True, True, False]]],
    "gemma3-old-fields": [["gemma3.attention.scale", ["FLOAT32"], 12**-0.5],
                          ["gemma3.attention.sliding_window_pattern", ["UINT32"], 2]],
    "glm": [["chatglm.attention.key_length", ["UINT32"], 8], ["chatglm.rope.dimension_count", ["UINT32"], 4],
            ["chatglm.attention.layer_norm_rms_epsilon", ["FLOAT32"], 1.5625e-07],
            ["chatglm.context_length", ["UINT32"], 128]],
    "gpt_neox-sequential": [["gptneox.rope.freq_base", ["FLOAT32"], 500.0]],
    "phi": [["phi2.attention.head_count_kv", ["UINT32"], 2]],
    "starcoder2": [["starcoder2.attention.sliding_window", ["UINT32"], 8]],
}


def convert(name, out, conversion):
    """Runs the converter without a tokenizer: the models have none."""
    path = MODELS / name
    hparams = conversion.ModelBase.load_hparams(path, False)
    architecture = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    cls = conversion.get_model_class(architecture)
    ftype = next((getattr(conversion.gguf.LlamaFileType, TYPES[t]) for t in TYPES if name.endswith("-" + t)),
                 conversion.gguf.LlamaFileType.ALL_F32)

    class Model(cls):
        model_arch = cls.model_arch

        def set_vocab(self):
            pass

        def get_vocab_base(self):
            raise NotImplementedError

    # Fields that the converter wants and configurations of transformers 5 do not have.
    written = json.loads((path / "config.json").read_text())
    if written["model_type"] == "falcon":
        hparams["num_kv_heads"] = written.get("num_kv_heads", 1)
    hparams.setdefault("n_ctx", hparams.get("n_positions"))
    hparams.setdefault("rotary_pct", written.get("rotary_pct", 1.0))
    model = Model(path, ftype, out, hparams=hparams)
    model.rope_parameters.setdefault("original_max_position_embeddings", model.hparams.get("max_position_embeddings", 2048))
    model.rope_parameters.setdefault("partial_rotary_factor", model.hparams.get("partial_rotary_factor", 1.0))
    if architecture.startswith("Gemma3"):
        model.modify_tensors = lambda data, tensor, bid: conversion.TextModel.modify_tensors(
            model, data + model.norm_shift(tensor), tensor, bid)
    model.write()


def rows_of(value, source):
    """The index of each row of `value` in `source`; None where one is not there."""
    known = {}
    for i, row in enumerate(source):
        known.setdefault(row.tobytes(), []).append(i)
    found = []
    for row in value:
        places = known.get(row.tobytes())
        if not places:
            return None
        found.append(places.pop(0) if len(places) > 1 else places[0])
    return found


def find_source(value, sources):
    if value.ndim == 3:
        parts = [find_source(part, sources) for part in value]
        return dict(parts=parts) if all(parts) else None
    for plus in (0.0, 1.0):
        for source, data in sources.items():
            for transposed in (False, True):
                if data.ndim != value.ndim or (transposed and data.ndim != 2):
                    continue
                from_data = data.T if transposed else data
                if from_data.shape != value.shape:
                    continue
                rows = rows_of(value, np.ascontiguousarray((from_data + np.float32(plus)).astype(np.float32)))
                if rows is not None and len(set(rows)) > 0.8 * len(rows):
                    entry = dict(source=source)
                    if rows != list(range(len(rows))):
                        entry["rows"] = rows
                    if transposed:
                        entry["transposed"] = True
                    if plus:
                        entry["plus"] = plus
                    return entry
    return None


def describe(name, conversion):
    gguf = conversion.gguf
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "model.gguf"
        convert(name, out, conversion)
        reader = gguf.GGUFReader(out)
        metadata = []
        for field in reader.fields.values():
            if field.name.startswith("GGUF.") or (field.name.startswith("general.") and field.name != "general.architecture"):
                continue
            metadata.append([field.name, [t.name for t in field.types], field.contents()])
        added = ADDED.get(name, [])
        metadata = [entry for entry in metadata if entry[0] not in [key for key, _, _ in added]] + added
        sources = {k: v.float().numpy() for k, v in load_file(MODELS / name / "model.safetensors").items()}
        tensors = []
        for tensor in reader.tensors:
            value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            value = np.asarray(value, np.float32).reshape([int(n) for n in reversed(tensor.shape)])
            entry = dict(name=tensor.name, type=tensor.tensor_type.name, shape=[int(n) for n in tensor.shape])
            place = find_source(value, sources)
            entry |= place or dict(source=None, values=[float(x) for x in value.ravel()])
            if place is None and value.size > 256:
                raise ValueError(f"{tensor.name} is made of no tensor of the model")
            tensors.append(entry)
    return dict(metadata=metadata, tensors=tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "golden" / "gguf" / "models.json")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    sys.path[:0] = [str(args.llama_cpp / "gguf-py"), str(args.llama_cpp)]
    import conversion
    from conversion import base
    for name in ("gguf", "TextModel", "ModelBase", "ModelType", "get_model_architecture"):
        setattr(conversion, name, getattr(base, name))
    logging.disable(logging.WARNING)
    tqdm.tqdm.__init__ = functools.partialmethod(tqdm.tqdm.__init__, disable=True)
    torch.set_num_threads(1)
    names = args.names or sorted(p.name for p in MODELS.iterdir() if p.is_dir() and p.name not in LEFT_OUT)
    known = json.loads(args.out.read_text())["models"] if args.names and args.out.exists() else {}
    models, failed = {}, []
    for name in names:
        try:
            models[name] = describe(name, conversion)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    models = dict(sorted((known | models).items()))
    golden = dict(llama_cpp=args.llama_cpp.parent.parent.name, torch=torch.__version__, models=models)
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in models.items())
    args.out.write_text(json.dumps({k: golden[k] for k in ("llama_cpp", "torch")})[:-1] + ', "models": {\n' + lines + "\n}}\n")
    print(f"{len(models)} models, {args.out.stat().st_size} bytes")
    print("\n".join(failed))


if __name__ == "__main__":
    main()
