#!/usr/bin/env python3
"""Writes tests/golden/models: tiny models with random weights, and the outputs of transformers for them. Their
configurations are in tools/model_goldens.

Each directory NAME has config.json, weights.json, from which tools/golden_weights.py draws the weights, and golden.json:
  cases: [{prompt, greedy, logits, logprobs}], computed in float32 on the CPU from the files as they are read back
    greedy    the tokens of greedy decoding after the prompt
    logits    of the last position of the prompt, for the whole vocabulary
    logprobs  of prompt[i + 1] after prompt[: i + 1]
rope.json has inverse frequencies and attention factors of RoPE configurations of real models.

Usage: make_model_goldens.py [--out DIR] [NAME...]       default: all
"""

import argparse
import copy
import json
import pathlib
import shutil
import tempfile

import golden_weights
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from model_goldens import dense, experts, latent, llama, multimodal, recurrent
from model_goldens.weights import describe

NEW_TOKENS = 24
PROMPT_LENGTHS = (1, 11, 41)
PROMPTS = 20  # prompts of each length that are tried with the same weights
# Greedy decoding must not depend on rounding: the best logit leads by this fraction of the largest magnitude.
MIN_MARGIN = 1e-3
# Products of bfloat16 weights may round their inputs to bfloat16. Logits then differ by less than this fraction of the largest magnitude,
# for several random roundings.
MAX_ROUNDING = 4e-2
ROUNDINGS = 8

# Vision modules are not written: those whose names contain one of these.
SEEING = ("vision", "visual", "vit", "resampler", "projector", "patch_merger", "view_separator")

# name: (config.json as written, dtype of the weights, options: "shards", "bare_names", "published": tensor names of the checkpoints on the
# hub, with separate experts; "text": without vision modules, also "text published"; "longest": RoPE of the longest sequence for all lengths;
# "sdpa": not with eager attention, which adds Falcon's biases twice)
MODELS = {}
for family in (llama, dense, experts, latent, recurrent, multimodal):
    MODELS |= family.MODELS

LLAMA_ROPE = dict(model_type="llama", hidden_size=4096, num_attention_heads=32)
ROPES = {
    "llama-3.1-8b": LLAMA_ROPE | dict(max_position_embeddings=131072, rope_theta=500000.0, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)),
    "llama-3.2-1b": dict(model_type="llama", hidden_size=2048, num_attention_heads=32, head_dim=64,
                         max_position_embeddings=131072, rope_theta=500000.0, rope_scaling=dict(
                             rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=8192)),
    "llama-2-7b": LLAMA_ROPE | dict(max_position_embeddings=4096),
    "linear": LLAMA_ROPE | dict(max_position_embeddings=4096, rope_scaling=dict(type="linear", factor=4.0)),
    "yarn-qwen2.5": dict(model_type="qwen2", hidden_size=3584, num_attention_heads=28, max_position_embeddings=32768,
                         rope_theta=1000000.0, rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    "yarn-mscale": LLAMA_ROPE | dict(max_position_embeddings=163840, rope_scaling=dict(
        rope_type="yarn", factor=40.0, beta_fast=32, beta_slow=1, mscale=1.2, mscale_all_dim=0.7,
        original_max_position_embeddings=4096)),
    "yarn-whole": LLAMA_ROPE | dict(max_position_embeddings=131072, rope_scaling=dict(
        rope_type="yarn", factor=32.0, beta_fast=16.0, beta_slow=2.0, truncate=False, attention_factor=1.5,
        original_max_position_embeddings=4096)),
    "yarn-parameters": LLAMA_ROPE | dict(max_position_embeddings=65536, rope_parameters=dict(
        rope_type="yarn", rope_theta=150000.0, factor=16.0, original_max_position_embeddings=4096)),
}


def convert(model, kind):
    """The tensors of a model, as in the checkpoint."""
    config = model.config
    tensors = model.state_dict()
    if kind.endswith("published"):
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    if kind.startswith("text"):
        tensors = {name: value for name, value in tensors.items() if not any(part in name for part in SEEING)}
    if kind == "bare_names":
        tensors = {name.removeprefix("transformer."): value for name, value in tensors.items()}
        for layer in range(config.n_layer):
            # Causal masks, which old versions of the library saved with the weights.
            tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.uint8).tril()
            tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return tensors


def write_index(path, files):
    """Writes model.safetensors.index.json of several files {name: tensors}."""
    weight_map = {name: file for file, tensors in files.items() for pattern in tensors for name in golden_weights.expand(pattern)}
    total = sum(golden_weights.size_of(*entry[:2]) * len(list(golden_weights.expand(pattern)))
                for tensors in files.values() for pattern, entry in tensors.items())
    index = dict(metadata=dict(total_size=total), weight_map=dict(sorted(weight_map.items())))
    (path / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def describe_files(model, dtype, kind):
    """The tensors of each file of the checkpoint, as in weights.json."""
    tensors = describe(model, lambda model: convert(model, kind), getattr(torch, dtype))
    if kind != "shards":
        return {"model.safetensors": tensors}
    described = {name: entry for pattern, entry in tensors.items() for name in golden_weights.expand(pattern)}
    names = sorted(described)
    return {f"model-{i + 1:05}-of-00003.safetensors": golden_weights.collapse({name: described[name] for name in names[i::3]})
            for i in range(3)}


def turn_as_the_longest(model):
    """Replaces RoPE that depends on the sequence length by that of the longest sequence."""
    rope = model.config.rope_parameters
    length = model.config.max_position_embeddings * (rope["factor"] if rope["rope_type"] == "dynamic" else 1)
    rotary = model.model.rotary_emb
    inverse, _ = ROPE_INIT_FUNCTIONS[rope["rope_type"]](model.config, device="cpu", seq_len=int(length))
    rotary.inv_freq = rotary.original_inv_freq = inverse


@torch.no_grad()
def make_case(model, prompt):
    """Returns the golden case and the smallest lead of a greedy token."""
    logits = model(torch.tensor([prompt]), use_cache=False).logits[0].float()
    logprobs = logits.log_softmax(-1)
    case = dict(
        prompt=prompt, greedy=[], logits=[round(x, 6) for x in logits[-1].tolist()],
        logprobs=[round(logprobs[i, prompt[i + 1]].item(), 6) for i in range(len(prompt) - 1)])
    margin = 1.0
    for _ in range(NEW_TOKENS):
        last = model(torch.tensor([prompt + case["greedy"]]), use_cache=False).logits[0, -1].float()
        best = last.topk(2).values
        margin = min(margin, ((best[0] - best[1]) / last.abs().max()).item())
        case["greedy"].append(int(last.argmax()))
        if margin < MIN_MARGIN:
            break
    return case, margin


@torch.no_grad()
def may_be_rounded(model, rounded, case):
    """Returns whether a model that rounds always gives the same greedy tokens, and similar logits and log-probabilities."""
    tokens = torch.tensor([case["prompt"] + case["greedy"]])
    last = len(case["prompt"]) - 1
    logits = model(tokens, use_cache=False).logits[0]
    limit = MAX_ROUNDING * max(map(abs, case["logits"]))
    for _ in range(ROUNDINGS):
        others = rounded(tokens, use_cache=False).logits[0]
        chosen = others[:last].log_softmax(-1).gather(1, tokens[0, 1:last + 1, None])[:, 0]
        changes = (chosen - torch.tensor(case["logprobs"])).abs().tolist()
        if (others[last:-1].argmax(-1).tolist() != case["greedy"] or (logits[last] - others[last]).abs().max() > limit or
                max(changes, default=0.0) > 2 * limit):
            return False
    return True


def rounding(model):
    """A copy of a model that changes the inputs of its linear layers at random by up to 2^-8, twice as much as rounding to bfloat16."""
    other = copy.deepcopy(model)
    for module in other.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: (inputs[0] * (1.0 + (torch.rand_like(inputs[0]) - 0.5) / 128), *inputs[1:]))
    return other


def make_cases(model, vocab_size, generator, dtype="float32", placeholders=()):
    """Returns a case for each length, or an empty list if no prompt of a length gives clear and different greedy tokens. All prompts but
    the shortest contain the placeholders."""
    cases = []
    rounded = rounding(model) if dtype == "bfloat16" else None
    for length in PROMPT_LENGTHS:
        for _ in range(PROMPTS):
            prompt = torch.randint(0, vocab_size, (length,), generator=generator).tolist()
            if length > len(placeholders):
                prompt[1:1 + len(placeholders)] = placeholders
            case, margin = make_case(model, prompt)
            if margin > MIN_MARGIN and len(set(case["greedy"])) >= 6 and (rounded is None or may_be_rounded(model, rounded, case)):
                cases.append(case)
                break
        else:
            return []
    return cases


@torch.no_grad()
def chooses_clearly(model, cases, generator):
    """Returns whether slightly different weights give nearly the same logits, that is, whether no top-k selection is borderline."""
    if not hasattr(model.config, "index_topk") and not hasattr(model.config, "index_topk_blocks"):
        return True
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data.mul_(1.0 + 1e-5 * torch.randn(parameter.shape, generator=generator))
    for case in cases:
        tokens = torch.tensor([case["prompt"] + case["greedy"]])
        change = (model(tokens, use_cache=False).logits - other(tokens, use_cache=False).logits).abs().max()
        if change > 1e-2:
            return False
    return True


def make_model(path, config, dtype, kind):
    # transformers lists Mistral 4 as multimodal, and Mllama as text-only.
    plain = "text_config" not in config and type(AutoConfig.for_model(**config)) in MODEL_FOR_CAUSAL_LM_MAPPING
    family = AutoModelForCausalLM if plain else AutoModelForImageTextToText
    torch.manual_seed(0)
    files = describe_files(family.from_config(AutoConfig.for_model(**config), dtype=torch.float32), dtype, kind)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if len(files) > 1:
        write_index(path, files)
    for seed in range(1000):
        generator = torch.Generator().manual_seed(seed)
        golden_weights.write_description(path, seed, files)
        with tempfile.TemporaryDirectory() as folder:
            golden_weights.write_checkpoint(path, pathlib.Path(folder))
            model = family.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa" if kind == "sdpa" else "eager").eval()
        if kind == "longest":
            turn_as_the_longest(model)
        cases = make_cases(model, config.get("text_config", config)["vocab_size"], generator, dtype,
                           [config[key] for key in ("image_token_id", "video_token_id", "audio_token_id") if key in config])
        if cases and chooses_clearly(model, cases, generator):
            break
    else:
        raise SystemExit(f"{path.name}: no seed gives clear greedy tokens")
    golden = dict(transformers=transformers.__version__, torch=torch.__version__, cases=cases)
    (path / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    size = sum(f.stat().st_size for f in path.iterdir())
    print(f"{path.name}: seed {seed}, {size} bytes, largest logit {max(map(abs, cases[-1]['logits'])):.2f}")


def make_ropes(path):
    out = {}
    for name, fields in ROPES.items():
        config = AutoConfig.for_model(**fields)
        kind = config.rope_parameters["rope_type"]
        if kind == "default":
            dim = config.hidden_size // config.num_attention_heads
            inverse = 1.0 / (config.rope_parameters["rope_theta"] ** (torch.arange(0, dim, 2).float() / dim))
            factor = 1.0
        else:
            inverse, factor = ROPE_INIT_FUNCTIONS[kind](config, device="cpu")
        out[name] = dict(config=fields, inverse_frequencies=inverse.tolist(), attention_factor=factor)
    path.write_text(json.dumps(out, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if not args.names:
        make_ropes(args.out / "rope.json")
    for name in args.names or MODELS:
        make_model(args.out / name, *MODELS[name])


if __name__ == "__main__":
    main()
