"""Forms of adapters on experts that PEFT no longer writes, for tools/make_lora_goldens.py: PEFT computes with a stacked adapter that is
equal to the one in the files. A form has describe(): the shapes of the tensors in the file, from those of PEFT's; and stack(): PEFT's tensors,
from those of the file."""

import re

import torch

# PEFT wraps a module once for each parameter, the first of them innermost.
STACKED = re.compile(r"(.*)\.(\w+)\.experts(\.base_layer)?\.lora_(A|B)\.weight")


class Modules:
    """Experts as modules with matrices of their own, as before transformers 5, some of which have no adapter. Rank r for each; PEFT has a
    stacked matrix of rank 2 r for gates and ups."""

    def __init__(self, module, gate, up, down, experts, rank):
        self.module, self.parts, self.experts, self.rank = module, (gate, up, down), experts, rank

    def has(self, expert, part):
        return (expert + part) % 3 != 1 and expert != 1

    def name(self, layer, expert, part, factor):
        return f"{layer}.{self.module}.{expert}.{self.parts[part]}.lora_{factor}.weight"

    def describe(self, shapes):
        found = {}
        for name, shape in shapes.items():
            match = STACKED.fullmatch(name)
            if match is None:
                found[name] = shape
                continue
            layer, _, first, factor = match.groups()
            for part in (0, 1) if first else (2,):
                rows = shape[0] // 2 if first else shape[0]
                own = (self.rank, shape[1]) if factor == "A" else (rows, self.rank)
                found |= {self.name(layer, e, part, factor): own for e in range(self.experts) if self.has(e, part)}
        return found

    def stack(self, tensors, shapes):
        found = {}
        for name, shape in shapes.items():
            match = STACKED.fullmatch(name)
            if match is None:
                found[name] = tensors[name]
                continue
            layer, _, first, factor = match.groups()
            rank = (2 if first else 1) * self.rank
            # [experts, rank, in], or [out, rank, experts]
            stacked = torch.zeros(self.experts, rank, shape[1]) if factor == "A" else torch.zeros(shape[0], rank, self.experts)
            for expert in range(self.experts):
                for slot, part in enumerate((0, 1) if first else (2,)):
                    own = tensors.get(self.name(layer, expert, part, factor))
                    ranks = slice(slot * self.rank, (slot + 1) * self.rank)
                    if own is not None and factor == "A":
                        stacked[expert, ranks] = own
                    elif own is not None:
                        stacked[slot * len(own):(slot + 1) * len(own), ranks, expert] = own
            found[name] = stacked.reshape(shape)
        return found


class AllModules(Modules):
    """The same with an adapter for each matrix of each expert."""

    def has(self, expert, part):
        return True


class Old:
    """PEFT before 0.19.1: it takes the dimensions of a parameter [experts, out, in] for [experts, in, out]."""

    def __init__(self, experts):
        self.experts = experts

    def describe(self, shapes):
        found = dict(shapes)
        for name in filter(STACKED.fullmatch, shapes):
            if "lora_A" in name:
                other = name.replace("lora_A", "lora_B")
                found[name], found[other] = (shapes[name][0], shapes[other][0]), (shapes[name][1], shapes[other][1])
        return found

    def stack(self, tensors, shapes):
        found = dict(tensors)
        for name in filter(STACKED.fullmatch, shapes):
            if "lora_A" in name:
                other = name.replace("lora_A", "lora_B")
                a = tensors[name].reshape(self.experts, -1, tensors[name].shape[1])  # [experts, rank, out]
                b = tensors[other].reshape(len(tensors[other]), -1, self.experts)  # [in, rank, experts]
                found[name] = b.permute(2, 1, 0).reshape(shapes[name])
                found[other] = a.permute(2, 1, 0).reshape(shapes[other])
        return found
