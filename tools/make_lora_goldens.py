#!/usr/bin/env python3
"""Writes tests/golden/lora: LoRA adapters of the models in tests/golden/models, and the outputs of PEFT for them.

Each directory NAME has adapter_config.json as PEFT writes it, weights.json, from which tools/golden_weights.py draws the adapter's weights,
and golden.json:
  model     the base, in tests/golden/models
  cases     as in tools/make_model_goldens.py, computed in float32 from the files as they are read back
  base      the logits of the base model for the last case, which differ

Usage: make_lora_goldens.py [--out DIR] [NAME...]       default: all
Needs peft, transformers and torch.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import golden_weights
import lora_expert_forms
import peft
import torch
import transformers
from make_model_goldens import make_case, MIN_MARGIN
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

GOLDEN = golden_weights.GOLDEN
PROMPT_LENGTHS = (1, 23)
SEEDS = 200
# An adapter must change the logits by this fraction of their largest magnitude: one that is applied in part is noticed.
MIN_CHANGE = 0.1
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}

TOKENS = [90, 3, 17, 41, 8, 65, 23, 77, 50, 12, 31, 84]
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]

EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]

# name: (model, arguments of LoraConfig, dtype of the file[, form of the file, changes of its configuration])
ADAPTERS = {
    # Configurations.
    "qwen3-attention": ("qwen3", dict(r=4, lora_alpha=8, target_modules=ATTENTION), "float32"),
    "qwen3-all-linear": ("qwen3", dict(r=3, lora_alpha=6, target_modules="all-linear"), "float32"),
    "qwen3-rank-1": ("qwen3", dict(r=1, lora_alpha=4, target_modules=["q_proj", "down_proj"]), "float32"),
    "qwen3-rslora": ("qwen3", dict(r=9, lora_alpha=6, use_rslora=True, target_modules=ATTENTION), "float32"),
    "qwen3-bfloat16": ("qwen3", dict(r=8, lora_alpha=16, target_modules=ATTENTION + ["gate_proj", "up_proj", "down_proj"]), "bfloat16"),
    "qwen3-float16": ("qwen3", dict(r=8, lora_alpha=16, target_modules="all-linear"), "float16"),
    "llama-patterns": ("llama", dict(
        r=4, lora_alpha=8, target_modules=ATTENTION + ["up_proj"], rank_pattern={"q_proj": 2, "layers.1.self_attn.v_proj": 7},
        alpha_pattern={"^model.layers.0.self_attn.k_proj": 20, "up_proj": 3}), "float32"),
    "llama-regular-expression": ("llama", dict(r=4, lora_alpha=4, target_modules=r".*layers\.1\.(self_attn\.[qv]_proj|mlp\.down_proj)"), "float32"),
    "llama-one-layer": ("llama", dict(r=4, lora_alpha=8, target_modules=ATTENTION, layers_to_transform=1), "float32"),
    "llama-exclusions": ("llama", dict(r=4, lora_alpha=8, target_modules="all-linear", exclude_modules=["k_proj", "gate_proj"]), "float32"),
    "llama-bias-of-b": ("llama", dict(r=4, lora_alpha=8, lora_bias=True, target_modules=["q_proj", "v_proj", "down_proj"]), "float32"),
    "llama-untied-head": ("llama-untied", dict(r=4, lora_alpha=8, target_modules=["lm_head", "o_proj"]), "float32"),
    # Embeddings: tied, of its own, scaled after the lookup, narrower than the hidden states.
    "llama-embedding": ("llama", dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj"]), "float32"),
    "llama-untied-embedding": ("llama-untied", dict(r=3, lora_alpha=6, target_modules=["embed_tokens", "lm_head"]), "bfloat16"),
    "gemma3-embedding": ("gemma3", dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "v_proj"]), "float32"),
    "gpt2-embedding": ("gpt2", dict(r=5, lora_alpha=8, target_modules=["wte"]), "float16"),
    "opt-embedding": ("opt-350m", dict(r=4, lora_alpha=8, target_modules=["embed_tokens"]), "float32"),
    # Saved modules: one of a tied pair, both of an untied one, with a bias, scaled after the lookup.
    "llama-saved-head": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["lm_head"]), "float32"),
    "llama-saved-embedding": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["embed_tokens"]), "float32"),
    "llama-untied-saved": ("llama-untied", dict(r=4, lora_alpha=8, target_modules=ATTENTION, modules_to_save=["lm_head", "embed_tokens"]), "bfloat16"),
    "phi-saved-head": ("phi", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["lm_head"]), "float16"),
    "gemma3-saved-embedding": ("gemma3", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["embed_tokens"]), "float32"),
    # Embeddings that PEFT saves next to adapters on them, with other values than the base's.
    "llama-copied-embedding": ("llama", dict(r=4, lora_alpha=8, target_modules=["embed_tokens"]), "float32"),
    "llama-untied-copied": ("llama-untied", dict(r=4, lora_alpha=8, target_modules=["lm_head"]), "float32"),
    # Trained biases of the base.
    "qwen2-all-biases": ("qwen2", dict(r=4, lora_alpha=8, target_modules=["q_proj", "o_proj"], bias="all"), "float32"),
    "phi-trained-biases": ("phi", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "fc1"], bias="lora_only"), "bfloat16"),
    "gpt2-trained-biases": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_fc"], bias="lora_only", fan_in_fan_out=True), "float32"),
    "gpt_neox-trained-biases": ("gpt_neox", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense"], bias="lora_only"), "float32"),
    # Saved norms: of the hidden states, of queries and keys, with 1 added, with biases; and their trained biases.
    "llama-saved-norms": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["input_layernorm", "model.norm"]), "float32"),
    "qwen3-saved-norms": ("qwen3", dict(
        r=4, lora_alpha=8, target_modules=["o_proj"], modules_to_save=["q_norm", "k_norm", "post_attention_layernorm"]), "bfloat16"),
    "gemma3-saved-norms": ("gemma3", dict(
        r=4, lora_alpha=8, target_modules=["v_proj"], modules_to_save=["post_attention_layernorm", "pre_feedforward_layernorm", "k_norm"]), "float32"),
    "phi-saved-norms": ("phi", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["input_layernorm", "final_layernorm"]), "float16"),
    "gpt2-all-biases": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn"], bias="all", fan_in_fan_out=True), "float32"),
    # Trained tokens, in another order than their numbers.
    "llama-tokens": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj"], trainable_token_indices=TOKENS), "float32"),
    "llama-untied-tokens": ("llama-untied", dict(r=4, lora_alpha=8, target_modules=["q_proj"], trainable_token_indices={"embed_tokens": TOKENS}), "bfloat16"),
    "gemma3-tokens": ("gemma3", dict(r=4, lora_alpha=8, target_modules=["v_proj"], trainable_token_indices=TOKENS), "float32"),
    # Fused, split, interleaved and transposed projections.
    "phi3-fused": ("phi3", dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "gate_up_proj", "down_proj"]), "float32"),
    "gpt2-transposed": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True), "float32"),
    "gpt_neox-interleaved": ("gpt_neox", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense"]), "float32"),
    "bloom-interleaved": ("bloom", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense_h_to_4h"]), "float32"),
    "falcon-grouped": ("falcon-new", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense"]), "float32"),
    # Other architectures.
    "qwen2-bias": ("qwen2", dict(r=4, lora_alpha=8, target_modules="all-linear"), "float32"),
    "gemma3-attention": ("gemma3", dict(r=4, lora_alpha=8, target_modules=ATTENTION), "float32"),
    "olmo2-all-linear": ("olmo2", dict(r=4, lora_alpha=8, target_modules="all-linear"), "float32"),
    "cohere2-parallel": ("cohere2", dict(r=4, lora_alpha=8, target_modules="all-linear"), "float32"),
    "phi-biases": ("phi", dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"]), "float32"),
    "opt-all-linear": ("opt", dict(r=4, lora_alpha=8, target_modules="all-linear"), "float32"),
    "granite-multipliers": ("granite", dict(r=4, lora_alpha=8, target_modules="all-linear"), "float32"),
    "smollm3-attention": ("smollm3", dict(r=4, lora_alpha=8, target_modules=ATTENTION), "float32"),
    "qwen2_moe-shared-expert": ("qwen2_moe", dict(r=4, lora_alpha=8, target_modules=ATTENTION + [
        "shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj", "shared_expert_gate"]), "float32"),
    "deepseek_v3-latent": ("deepseek_v3", dict(r=4, lora_alpha=8, target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"]), "float32"),
    # The projection of latent vectors, alone and with others, with a bias, and of vectors that are scaled.
    "deepseek_v3-latent-heads": ("deepseek_v3", dict(r=3, lora_alpha=6, target_modules=["kv_b_proj"]), "float32"),
    "deepseek_v2-all-latent": ("deepseek_v2", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]), "bfloat16"),
    "deepseek_v3-latent-bias-of-b": ("deepseek_v3", dict(r=4, lora_alpha=8, lora_bias=True, target_modules=["kv_b_proj"]), "float32"),
    "longcat_flash-latent-heads": ("longcat_flash", dict(r=4, lora_alpha=8, target_modules=["kv_b_proj", "q_b_proj"]), "float32"),
    "qwen3_next-linear-attention": ("qwen3_next", dict(r=4, lora_alpha=8, target_modules=[
        "in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj"]), "float32"),
    "mamba2-projections": ("mamba2", dict(r=4, lora_alpha=8, target_modules=["in_proj"]), "float32"),
    # transformers multiplies by the weight of dt_proj itself, so that an adapter on it has no effect in PEFT.
    "mamba-projections": ("mamba", dict(r=4, lora_alpha=8, target_modules=["in_proj", "x_proj"]), "float32"),
    "lfm2-convolution": ("lfm2", dict(r=4, lora_alpha=8, target_modules=["in_proj", "out_proj", "q_proj", "w1", "w2", "w3"]), "float32"),
    "nemotron_h-hybrid": ("nemotron_h", dict(r=4, lora_alpha=8, target_modules=["in_proj", "up_proj", "q_proj", "o_proj"]), "float32"),
    # Experts, stacked in one parameter as in transformers 5.
    "mixtral-experts": ("mixtral", dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj"], target_parameters=EXPERTS), "float32"),
    "mixtral-one-parameter": ("mixtral", dict(r=2, lora_alpha=8, target_modules=[], target_parameters=["gate_up_proj"]), "float32"),
    # PEFT turns these into parameters, with twice the rank for gates and ups.
    "mixtral-converted-modules": ("mixtral", dict(r=2, lora_alpha=4, target_modules=["w1", "w2", "w3", "v_proj"]), "float32"),
    "qwen3_moe-experts": ("qwen3_moe", dict(
        r=4, lora_alpha=8, target_modules=ATTENTION, target_parameters=EXPERTS, rank_pattern={"experts.down_proj": 2, "0.mlp.experts.gate_up_proj": 1},
        alpha_pattern={"gate_up_proj": 4}), "bfloat16"),
    "deepseek_v3-experts": ("deepseek_v3", dict(r=2, lora_alpha=4, target_modules=["q_a_proj", "o_proj"], target_parameters=EXPERTS), "float16"),
    "qwen2_moe-experts": ("qwen2_moe", dict(r=3, lora_alpha=6, target_modules=[
        "shared_expert.up_proj", "shared_expert_gate"], target_parameters=EXPERTS), "float32"),
    "gpt_oss-experts": ("gpt_oss", dict(r=3, lora_alpha=6, target_modules=["q_proj", "o_proj"], target_parameters=EXPERTS), "float32"),
    "olmoe-experts": ("olmoe", dict(r=2, lora_alpha=4, use_rslora=True, target_modules=[], target_parameters=EXPERTS), "float32"),
    "nemotron_h-experts": ("nemotron_h", dict(r=3, lora_alpha=6, target_modules=["in_proj"], target_parameters=[
        "experts.up_proj", "experts.down_proj"]), "float32"),
    "granitemoe-experts": ("granitemoe", dict(r=3, lora_alpha=6, target_modules=["q_proj"], target_parameters=[
        "experts.gate_up_proj", "experts.down_proj"]), "float32"),
    "jetmoe-experts": ("jetmoe", dict(r=3, lora_alpha=6, target_modules=[], target_parameters=[
        "mlp.input_linear.weight", "mlp.output_linear.weight", "experts.input_linear.weight", "experts.output_linear.weight"]), "float32"),
    # PEFT takes [experts, in, out] for [experts, out, in] here.
    "llama4-experts": ("llama4", dict(r=3, lora_alpha=6, target_modules=["q_proj"], target_parameters=[
        "experts.gate_up_proj", "experts.down_proj"]), "float32"),
    # Experts as modules, and adapters of old versions of PEFT.
    "mixtral-expert-modules": ("mixtral", dict(
        r=3, lora_alpha=6, target_modules=["q_proj", "o_proj"], target_parameters=EXPERTS, rank_pattern={"gate_up_proj": 6},
        alpha_pattern={"gate_up_proj": 12}), "float32", lora_expert_forms.Modules("block_sparse_moe.experts", "w1", "w3", "w2", 4, 3), dict(
            target_modules=["o_proj", "q_proj", "w1", "w2", "w3"], target_parameters=None, rank_pattern={}, alpha_pattern={})),
    "olmoe-expert-modules": ("olmoe", dict(
        r=2, lora_alpha=8, target_modules=["v_proj"], target_parameters=EXPERTS, rank_pattern={"gate_up_proj": 4}, alpha_pattern={"gate_up_proj": 16}),
        "bfloat16", lora_expert_forms.Modules("mlp.experts", "gate_proj", "up_proj", "down_proj", 6, 2), dict(
            target_modules=["down_proj", "gate_proj", "up_proj", "v_proj"], target_parameters=None, rank_pattern={}, alpha_pattern={})),
    "mixtral-all-expert-modules": ("mixtral", dict(
        r=2, lora_alpha=4, target_modules=["q_proj", "k_proj"], target_parameters=EXPERTS, rank_pattern={"gate_up_proj": 4},
        alpha_pattern={"gate_up_proj": 8}), "float32", lora_expert_forms.AllModules("block_sparse_moe.experts", "w1", "w3", "w2", 4, 2), dict(
            target_modules=["k_proj", "q_proj", "w1", "w2", "w3"], target_parameters=None, rank_pattern={}, alpha_pattern={})),
    "olmoe-all-expert-modules": ("olmoe", dict(
        r=2, lora_alpha=8, target_modules=["v_proj"], target_parameters=EXPERTS, rank_pattern={"gate_up_proj": 4}, alpha_pattern={"gate_up_proj": 16}),
        "bfloat16", lora_expert_forms.AllModules("mlp.experts", "gate_proj", "up_proj", "down_proj", 6, 2), dict(
            target_modules=["down_proj", "gate_proj", "up_proj", "v_proj"], target_parameters=None, rank_pattern={}, alpha_pattern={})),
    "mixtral-experts-of-peft-0.18": ("mixtral", dict(r=3, lora_alpha=6, target_modules=[], target_parameters=EXPERTS), "float32",
                                     lora_expert_forms.Old(4), dict(peft_version="0.18.1")),
    "qwen3_moe-square-experts-of-peft-0.17": ("qwen3_moe", dict(r=3, lora_alpha=12, target_modules=[], target_parameters=EXPERTS[:1]), "float32",
                                              lora_expert_forms.Old(6), dict(peft_version="0.17.1")),
}

# Adapters whose files have the embeddings of the base too.
WITH_COPIES = {"llama-copied-embedding", "llama-untied-copied"}


def load_base(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def deviation_of(name, shape, config, base):
    scale = config.lora_alpha / config.r
    if name.endswith("bias"):
        return 0.3
    if "lora_" not in name and len(shape) == 1:
        return 0.3
    if "lora_" not in name:
        return base.get_input_embeddings().weight.std().item()
    # B A is about half as large as the rows of the embedding.
    if "lora_embedding_A" in name:
        return 1.0
    if "lora_embedding_B" in name:
        return 0.5 * base.get_input_embeddings().weight.std().item() / (scale * shape[1] ** 0.5)
    # A keeps the size of its input, and B A about a third of that of a base's matrix.
    columns = min(shape[1], config.r) if config.target_parameters and "lora_B" in name else shape[-1]
    return (0.5 / scale if "lora_B" in name else 1.0) / columns ** 0.5


def describe(shapes, config, dtype, base):
    """The tensors of an adapter, as in weights.json."""
    described = {}
    for name, shape in shapes.items():
        deviation = deviation_of(name, shape, config, base)
        norm = len(shape) == 1 and not name.endswith("bias") and not base.config.model_type.startswith("gemma")
        described[name] = [DTYPES[getattr(torch, dtype)], list(shape), "normal", 1.0 if norm else 0.0, round(deviation, 4)]
    return {"adapter_model.safetensors": golden_weights.collapse(described)}


@torch.no_grad()
def make_cases(model, base, vocab_size, seed):
    """A case for each length, or none if greedy tokens are unclear. base: the logits without the adapter are returned for the last."""
    generator = torch.Generator().manual_seed(seed)
    cases = []
    for length in PROMPT_LENGTHS:
        prompt = torch.randint(0, vocab_size, (length,), generator=generator).tolist()
        case, margin = make_case(model, prompt)
        if margin < MIN_MARGIN or len(set(case["greedy"])) < 4:
            return [], []
        cases.append(case)
    unchanged = base(torch.tensor([cases[-1]["prompt"]]), use_cache=False).logits[0, -1].tolist()
    change = max(abs(a - b) for a, b in zip(unchanged, cases[-1]["logits"]))
    return (cases, unchanged) if change > MIN_CHANGE * max(map(abs, unchanged)) else ([], [])


def stack_experts(drawn, folder, form, shapes):
    """The folder of an adapter that PEFT reads, equal to the drawn one."""
    if form is None:
        return drawn
    shutil.copy(folder / "empty" / "adapter_config.json", drawn / "adapter_config.json")
    tensors = {name: value.float() for name, value in load_file(drawn / "adapter_model.safetensors").items()}
    stacked = {name: value.contiguous() for name, value in form.stack(tensors, shapes).items()}
    save_file(stacked, drawn / "adapter_model.safetensors")
    return drawn


def write_config(path, saved, model_name, changes=None):
    """adapter_config.json as PEFT has saved it in a folder."""
    written = json.loads((saved / "adapter_config.json").read_text()) | dict(base_model_name_or_path=model_name) | (changes or {})
    # Sets have no order.
    for key, value in written.items():
        if isinstance(value, list) and key != "trainable_token_indices":
            written[key] = sorted(value)
    (path / "adapter_config.json").write_text(json.dumps(written, indent=1) + "\n")


def write_golden(path, model_name, cases, base):
    golden = dict(peft=peft.__version__, transformers=transformers.__version__, torch=torch.__version__, model=model_name, cases=cases, base=base)
    (path / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def make_adapter(path, model_name, arguments, dtype, form=None, changes=None):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    config = LoraConfig(task_type="CAUSAL_LM", **arguments)
    with tempfile.TemporaryDirectory() as base_folder, tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        golden_weights.write_checkpoint(GOLDEN / "models" / model_name, pathlib.Path(base_folder))
        base = load_base(base_folder)
        get_peft_model(load_base(base_folder), config).save_pretrained(folder / "empty", save_embedding_layers=path.name in WITH_COPIES)
        shapes = {name: tuple(value.shape) for name, value in load_file(folder / "empty" / "adapter_model.safetensors").items()}
        files = describe(form.describe(shapes) if form else shapes, config, dtype, base)
        write_config(path, folder / "empty", model_name, changes)
        for seed in range(SEEDS):
            golden_weights.write_description(path, seed, files)
            drawn = folder / f"drawn{seed}"
            drawn.mkdir()
            golden_weights.write_checkpoint(path, drawn)
            model = PeftModel.from_pretrained(load_base(base_folder), stack_experts(drawn, folder, form, shapes)).eval()
            cases, unchanged = make_cases(model, base, base.config.get_text_config().vocab_size, seed)
            if cases:
                break
        else:
            raise SystemExit(f"{path.name}: no seed gives clear greedy tokens")
    write_golden(path, model_name, cases, [round(x, 6) for x in unchanged])
    print(f"{path.name}: seed {seed}, {sum(f.stat().st_size for f in path.iterdir())} bytes")


def main(doc, folder, adapters, make):
    """Makes the adapters that the command line names, or all. make: a function of a folder and an entry of `adapters`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN / folder)
    parser.add_argument("names", nargs="*", choices=[[], *adapters], metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names or adapters:
        make(args.out / name, *adapters[name])


if __name__ == "__main__":
    main(__doc__, "lora", ADAPTERS, make_adapter)
