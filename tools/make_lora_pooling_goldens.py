#!/usr/bin/env python3
"""Writes tests/golden/lora_pooling: LoRA adapters of the models in tests/golden/pooling, and the outputs of PEFT for them.

Each directory NAME has adapter_config.json and weights.json as in tests/golden/lora, and golden.json:
  model     the base, in tests/golden/pooling
  cases     as in tools/make_pooling_goldens.py
  base      the vector of the base model for the last case, which differs

Usage: make_lora_pooling_goldens.py [--out DIR] [NAME...]       default: all
Needs peft, transformers and torch.
"""

import json
import pathlib
import shutil
import tempfile

import golden_weights
import torch
from make_lora_goldens import DTYPES, GOLDEN, main, write_config, write_golden
from make_pooling_goldens import MODELS, vector_of
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification

# A vector must change by this fraction of its largest magnitude.
MIN_CHANGE = 0.05
SEED = 1

# name: (model, arguments of LoraConfig, dtype of the file)
SCORES = dict(task_type="SEQ_CLS")
VECTORS = dict(task_type="FEATURE_EXTRACTION")
ADAPTERS = {
    # PEFT saves `classifier` and `score` of models for SEQ_CLS.
    "bert-classifier": ("bert-classifier", dict(SCORES, r=4, lora_alpha=8, target_modules=["query", "value", "intermediate.dense"]), "float32"),
    "bert-classifier-bfloat16": ("bert-classifier", dict(SCORES, r=2, lora_alpha=4, target_modules=["key"]), "bfloat16"),
    "bert-classifier-biases": ("bert-classifier", dict(SCORES, r=2, lora_alpha=4, target_modules=["query", "value"], bias="lora_only"), "float32"),
    "xlm-roberta-reranker": ("xlm-roberta-reranker", dict(SCORES, r=4, lora_alpha=8, target_modules=["query", "value"]), "float32"),
    "distilbert-classifier": ("distilbert-classifier", dict(
        SCORES, r=4, lora_alpha=8, target_modules=["q_lin", "lin1"], modules_to_save=["pre_classifier"]), "float32"),
    "modernbert-reranker": ("modernbert-reranker", dict(SCORES, r=4, lora_alpha=8, target_modules=["Wqkv", "Wi"]), "float32"),
    "llama-classifier": ("llama-classifier", dict(SCORES, r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]), "float32"),
    "gpt2-classifier": ("gpt2-classifier", dict(SCORES, r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True), "float32"),
    "bert-embeddings": ("bert", dict(VECTORS, r=4, lora_alpha=8, target_modules=["query", "key", "value", "word_embeddings"]), "float32"),
    "modernbert-embeddings": ("modernbert", dict(VECTORS, r=4, lora_alpha=8, target_modules=["Wqkv", "attn.Wo"]), "float32"),
    "qwen3-embeddings": ("qwen3-embedding", dict(VECTORS, r=4, lora_alpha=8, target_modules=["q_proj", "down_proj", "embed_tokens"]), "float32"),
}


def deviation_of(name, shape, config, base):
    scale = config.lora_alpha / config.r
    if len(shape) == 1:
        return 0.3
    if "lora_embedding_A" in name:
        return 1.0
    if "lora_embedding_B" in name:
        return 0.5 * base.get_input_embeddings().weight.std().item() / (scale * shape[1] ** 0.5)
    return (1.0 / scale if "lora_B" in name else 1.0) / shape[1] ** 0.5


def describe(folder, config, dtype, base):
    described = {name: [DTYPES[getattr(torch, dtype)], list(value.shape), "normal", 0.0, round(deviation_of(name, value.shape, config, base), 4)]
                 for name, value in load_file(folder / "adapter_model.safetensors").items()}
    return {"adapter_model.safetensors": golden_weights.collapse(described)}


def load_base(folder, model_config):
    classifies = model_config["architectures"][0].endswith("ForSequenceClassification")
    auto = AutoModelForSequenceClassification if classifies else AutoModel
    return auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


@torch.no_grad()
def make_adapter(path, model_name, arguments, dtype):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    config = LoraConfig(**arguments)
    model_config, modules, _ = MODELS[model_name]
    asked = json.loads((GOLDEN / "pooling" / model_name / "golden.json").read_text())["cases"]
    with tempfile.TemporaryDirectory() as base_folder, tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        golden_weights.write_checkpoint(GOLDEN / "pooling" / model_name, pathlib.Path(base_folder))
        base = load_base(base_folder, model_config)
        get_peft_model(load_base(base_folder, model_config), config).save_pretrained(folder / "empty", save_embedding_layers=False)
        write_config(path, folder / "empty", model_name)
        golden_weights.write_description(path, SEED, describe(folder / "empty", config, dtype, base))
        golden_weights.write_checkpoint(path, folder / "drawn")
        model = PeftModel.from_pretrained(load_base(base_folder, model_config), folder / "drawn").eval()

        def vector(of, case):
            return vector_of(of, model_config, modules, [], case["prompt"], case["second_text"])

        cases = [case | dict(vector=[round(x, 8) for x in vector(model, case).tolist()]) for case in asked]
        unchanged = vector(base, asked[-1])
    change = (torch.tensor(cases[-1]["vector"]) - unchanged).abs().max()
    if change < MIN_CHANGE * unchanged.abs().max():
        raise SystemExit(f"{path.name}: changes the vector by {change} only")
    write_golden(path, model_name, cases, [round(x, 8) for x in unchanged.tolist()])
    print(f"{path.name}: {sum(f.stat().st_size for f in path.iterdir())} bytes")


if __name__ == "__main__":
    main(__doc__, "lora_pooling", ADAPTERS, make_adapter)
