#!/usr/bin/env python3
"""Writes tests/golden/lora/modules.json: the modules of each model of tests/golden/models and tests/golden/pooling that PEFT can give an
adapter, under the names that they have in transformers. Models with a class of their own that transformers does not have are left out.

For each model {kind: {name: shape}}, where numbers of layers and experts in a name are {} if all modules that the name then stands for have
the same shape:
  linear      nn.Linear: [out, in]
  conv1d      Conv1D of GPT-2: [out, in], not as it is stored
  embedding   nn.Embedding: [rows, dimensions]
  parameter   other parameters of two or three dimensions, such as those of stacked experts: the shape as it is stored
Modules of vision and audio are left out.

Needs torch and transformers. Usage: make_lora_modules.py [--out FILE] [NAME...]       default: all
"""

import argparse
import json
import pathlib
import re

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.pytorch_utils import Conv1D

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Their config.json has the keys of other code than that of transformers.
OTHER_KEYS = {"pooling/nomic_bert-first"}
OTHER_INPUTS = ("vision", "visual", "vit", "resampler", "projector", "patch_merger", "view_separator", "audio")


def modules_of(model):
    """{kind: {name: shape}} of one model."""
    found = {}
    owned = set()
    for name, module in model.named_modules():
        if any(part in name for part in OTHER_INPUTS):
            continue
        for kind, cls in (("linear", torch.nn.Linear), ("conv1d", Conv1D), ("embedding", torch.nn.Embedding)):
            if isinstance(module, cls):
                shape = list(module.weight.shape)
                found.setdefault(kind, {})[name] = shape[::-1] if kind == "conv1d" else shape
                owned.add(name + ".weight")
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name not in owned and parameter.dim() in (2, 3) and not any(part in name for part in OTHER_INPUTS):
            found.setdefault("parameter", {})[name] = list(parameter.shape)
    return found


def collapse(modules):
    """Replaces the numbers in names by {} where the shapes agree."""
    groups = {}
    for name, shape in modules.items():
        groups.setdefault(re.sub(r"(?<=\.)\d+(?=\.|$)", "{}", name), {})[name] = shape
    out = {}
    for pattern, members in groups.items():
        shapes = list(members.values())
        if all(shape == shapes[0] for shape in shapes):
            out[pattern] = shapes[0]
        else:
            out |= members
    return out


def build(config):
    name = config.get("architectures", [""])[0]
    if hasattr(transformers, name) and "text_config" not in config:
        cls = getattr(transformers, name)
        with torch.device("meta"):
            return cls._from_config(cls.config_class(**config), dtype=torch.float32)
    plain = "text_config" not in config and type(AutoConfig.for_model(**config)) in MODEL_FOR_CAUSAL_LM_MAPPING
    family = AutoModelForCausalLM if plain else AutoModelForImageTextToText
    with torch.device("meta"):
        return family.from_config(AutoConfig.for_model(**config), dtype=torch.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "golden" / "lora" / "modules.json")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    models = {}
    golden = ROOT / "tests" / "golden"
    for path in sorted([*golden.glob("models/*/config.json"), *golden.glob("pooling/*/config.json")]):
        name = str(path.parent.relative_to(golden))
        if name in OTHER_KEYS or args.names and name not in args.names:
            continue
        try:
            found = modules_of(build(json.loads(path.read_text())))
        except Exception as error:  # the others are still written
            print(f"{name}: {type(error).__name__}: {str(error)[:100]}")
            continue
        models[name] = {kind: collapse(modules) for kind, modules in found.items()}
    lines = [f" {json.dumps(name)}: {json.dumps(kinds, separators=(',', ':'))}" for name, kinds in models.items()]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text('{"transformers": "%s", "models": {\n%s\n}}\n' % (transformers.__version__, ",\n".join(lines)))
    print(f"{len(models)} models, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
