#!/usr/bin/env python3
"""Writes tests/golden/gguf/models.json and pooling.json: the output of llama.cpp's converter for the models of tests/golden.

The values of the tensors are those of the models' safetensors in another order, so only their origin is stored:
  NAME: {metadata: [[key, type, value]], tensors: [{name, type, shape, source, ...}]}
    shape       in GGUF's order, the innermost dimension first
    source      the tensor of model.safetensors, or null if the values are in `values`
    slice       index of the matrix, if the source is several matrices
    transposed  true for the transpose of the source
    rows, range the selected rows (elements of a vector); range is first, step and count; if both are missing, all rows
    turned      true for the transpose of the selected rows
    times       factor of the rows, one number or one per row
    plus        number added to each value
    rate        true for minus the exponential of each value (A = -exp(A_log))
    parts       instead of the above: one such object per expert of the tensor

Usage: make_gguf_goldens.py --llama-cpp DIR [NAME...]    default: all; DIR: source of llama.cpp, for example vendor/llama.cpp in the sdist of llama-cpp-python
"""

import argparse
import functools
import json
import logging
import pathlib
import re
import sys
import tempfile

import golden_weights
import numpy as np
import torch
import tqdm
from safetensors.torch import load_file, save_file

GOLDEN = golden_weights.GOLDEN
SETS = ("models", "pooling")
TYPES = {"float16": "MOSTLY_F16", "bfloat16": "MOSTLY_BF16"}
# Names in the converter of architectures that it has under an earlier name.
ARCHITECTURES = {"Mistral4ForCausalLM": "Mistral3ForConditionalGeneration", "PhimoeForCausalLM": "PhiMoEForCausalLM", "RobertaForMaskedLM": "RobertaModel"}
# Not supported by the converter, or (llama-sharded) equal to another model.
LEFT_OUT = ("falcon-alibi", "falcon-old", "flex_olmo", "granitemoe_swa", "granitemoeshared", "mixtral-stacked", "ministral", "qwen2_moe", "qwen2_moe-stacked",
            "gptj", "llama-sharded", "opt", "opt-350m", "bitnet",
            # Encoders with heads that the converter does not support or omits.
            "bert-classifier", "bert-many", "bert-old-flags", "data2vec-text", "ernie", "bert-reranker", "bert-reranker-logits", "distilbert-classifier", "gpt2-classifier",
            "jina_embeddings_v3", "llama-classifier", "modernbert-types", "nomic_bert", "qwen3-classifier", "qwen3-mean",
            "qwen3-untied-reranker",
            # GGUF does not store the settings that these test: old names, activations, windows, NoPE layers, limits, other RoPE types.
            "gpt2-bare-names", "gpt_oss-float16", "llama-bias", "llama-rope-dynamic", "mistral", "mistral-bfloat16", "qwen2-window", "qwen3-bias", "smollm3",
            "dots1", "cohere2_moe-softmax", "falcon_h1", "falcon_h1-norm", "hunyuan_v1_dense", "lfm2", "llama4", "mamba2", "minicpm3", "phimoe", "qwen3_next",
            "youtu-whole-queries",
            # Tensor names that the converter does not support.
            "kimi_linear-default-layers", "mimo_v2_flash-default-layers")
# Metadata that the converter does not write, or writes incorrectly for models of these sizes: [key, type, value].
ADDED = {
    "cohere2": [["cohere2.attention.sliding_window_pattern", ["ARRAY", "BOOL"], [True, False, True]]],
    "gemma2": [["gemma2.attention.scale", ["FLOAT32"], 12**-0.5]],
    "gemma3": [["gemma3.attention.scale", ["FLOAT32"], 12**-0.5],
               ["gemma3.attention.sliding_window_pattern", ["ARRAY", "BOOL"], [True, True, False]]],
    "gemma3-old-fields": [["gemma3.attention.scale", ["FLOAT32"], 12**-0.5],
                          ["gemma3.attention.sliding_window_pattern", ["UINT32"], 2]],
    "gemma3-embedding": [["gemma-embedding.attention.scale", ["FLOAT32"], 12**-0.5],
                         ["gemma-embedding.attention.sliding_window_pattern", ["ARRAY", "BOOL"], [True, False]]],
    "glm": [["chatglm.attention.key_length", ["UINT32"], 8], ["chatglm.rope.dimension_count", ["UINT32"], 4],
            ["chatglm.attention.layer_norm_rms_epsilon", ["FLOAT32"], 1.5625e-07],
            ["chatglm.context_length", ["UINT32"], 128]],
    "gpt_neox-sequential": [["gptneox.rope.freq_base", ["FLOAT32"], 500.0]],
    "deepseek_v3": [["deepseek2.rope.scaling.yarn_attn_factor", ["FLOAT32"], (0.1 * np.log(4.0) + 1.0) / (0.08 * np.log(4.0) + 1.0)]],
    "deepseek_v32": [["deepseek32.rope.scaling.yarn_attn_factor", ["FLOAT32"], (0.1 * np.log(4.0) + 1.0) / (0.08 * np.log(4.0) + 1.0)]],
    "kimi_linear": [["kimi-linear.context_length", ["UINT32"], 128], ["kimi-linear.expert_group_count", ["UINT32"], 3]],
    "mimo_v2_flash": [["mimo2.expert_weights_scale", ["FLOAT32"], 1.5]],
    "mistral4": [["mistral4.attention.temperature_scale", ["FLOAT32"], 0.3]],
    "granitemoehybrid-dense": [["granitehybrid.rope.scaling.finetuned", ["BOOL"], True], ["granitehybrid.context_length", ["UINT32"], 128]],
    "bamba": [["granitehybrid.rope.dimension_count", ["UINT32"], 4]],
    "phi": [["phi2.attention.head_count_kv", ["UINT32"], 2]],
    "starcoder2": [["starcoder2.attention.sliding_window", ["UINT32"], 8]],
}


def complete(hparams, written):
    """Adds fields that the converter needs and that configurations of transformers 5 do not have, or have under another name."""
    if written["model_type"] == "nomic_bert":
        hparams.clear()  # its sizes are stored under other names
    for key, value in written.items():
        hparams.setdefault(key, value)
    if written["model_type"] == "falcon":
        hparams["num_kv_heads"] = written.get("num_kv_heads", 1)
    if written["model_type"] == "granitemoehybrid":
        hparams["layer_types"] = written["layer_types"]
    if written["model_type"] == "hunyuan_v1_moe":
        hparams["moe_intermediate_size"] = [written["intermediate_size"]]
        hparams |= dict(moe_topk=[written["moe_topk"]], num_shared_expert=[1])
    if written["model_type"] == "falcon_h1":
        hparams.setdefault("head_dim", written["hidden_size"] // written["num_attention_heads"])
    if written["model_type"] == "mimo_v2_flash":
        hparams |= {f"swa_{field}": hparams[field] for field in ("head_dim", "num_attention_heads", "v_head_dim")}
        hparams.setdefault("swa_num_key_value_heads", 2 * hparams["num_key_value_heads"])
        hparams["partial_rotary_factor"] = hparams["rope_parameters"]["full_attention"]["partial_rotary_factor"]
        hparams |= dict(topk_method="noaux_tc", hybrid_layer_pattern=[int(kind == "sliding_attention") for kind in hparams["layer_types"]])
    if written["model_type"] in ("deepseek_v3", "dots1", "glm4_moe_lite", "minimax_m2"):
        hparams["scoring_func"] = "sigmoid"
    if written["model_type"] == "nemotron_h":
        hparams["d_head"] = written["mamba_head_dim"]
    if written["model_type"] == "nomic_bert":
        hparams |= dict(n_positions=8192, causal=False, mlp_fc1_bias=False, mlp_fc2_bias=False, rotary_emb_interleaved=False,
                        rotary_emb_scale_base=None)
    if written["model_type"] == "eurobert":
        hparams.pop("classifier_pooling", None)
    hparams.setdefault("n_ctx", hparams.get("n_positions"))
    hparams.setdefault("rotary_pct", written.get("rotary_pct", 1.0))


def with_apart_experts(tensors):
    """Unstacks the experts that transformers stacks."""
    apart = {}
    for key, value in tensors.items():
        prefix, _, kind = key.rpartition(".")
        if kind not in ("gate_up_proj", "down_proj") or not prefix.endswith(".experts"):
            apart[key] = value
            continue
        names = ("gate_proj", "up_proj") if kind == "gate_up_proj" else ("down_proj",)
        for i, expert in enumerate(value):
            for part, matrix in zip(names, expert.chunk(len(names))):
                apart[f"{prefix}.{i}.{part}.weight"] = matrix.contiguous()
    return apart


# Models whose published files have other tensor names.
PUBLISHED = {
    "glm4_moe_lite": with_apart_experts,
    "kimi_linear": lambda tensors: {re.sub(r"block_sparse_moe\.(\w+_proj)", r"mlp.\1", key): value for key, value in tensors.items()},
}


def convert(path, out, conversion):
    """Runs the converter without a tokenizer: the models do not have one."""
    name = path.name
    hparams = conversion.ModelBase.load_hparams(path, False)
    architecture = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    cls = conversion.get_model_class(ARCHITECTURES.get(architecture, architecture))
    cls = getattr(cls, "Mistral4Model" if name == "mistral4" else "Ministral3Model", cls)
    ftype = next((getattr(conversion.gguf.LlamaFileType, TYPES[t]) for t in TYPES if name.endswith("-" + t)),
                 conversion.gguf.LlamaFileType.ALL_F32)

    class Model(cls):
        model_arch = cls.model_arch
        no_mtp = True

        def set_vocab(self):
            pass

        def get_vocab_base(self):
            raise NotImplementedError

        def _is_qwen3_reranker(self):
            return (path / "1_LogitScore").exists()

        def _find_rerank_config(self):
            self.is_rerank, self.is_tied_embeddings = True, self.hparams["tie_word_embeddings"]
            score = json.loads((path / "1_LogitScore" / "config.json").read_text())
            self.token_true_id, self.token_false_id = score["true_token_id"], score["false_token_id"]

    complete(hparams, json.loads((path / "config.json").read_text()))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file in path.iterdir():
            if name in PUBLISHED and file.suffix == ".safetensors":
                save_file(PUBLISHED[name](load_file(file)), folder / file.name)
            elif file.name != "tokenizer.json":
                (folder / file.name).symlink_to(file)
        if architecture.startswith(("Gemma", "Nomic")):
            # The converter reads the vocabulary size from here.
            vocabulary = {str(i): i for i in range(hparams["vocab_size"])}
            (folder / "tokenizer.json").write_text(json.dumps(dict(model=dict(type="WordPiece", vocab=vocabulary), added_tokens=[])))
        model = Model(folder, ftype, out, hparams=hparams, sentence_transformers_dense_modules=True)
        model.rope_parameters.setdefault("original_max_position_embeddings", model.hparams.get("max_position_embeddings", 2048))
        model.rope_parameters.setdefault("partial_rotary_factor", model.hparams.get("partial_rotary_factor", 1.0))
        model.write()


def rows_of(value, source):
    """The index of each row of `value` in `source`, or None if a row is missing."""
    if value.shape[1] != source.shape[1] or len(value) > len(source):
        return None
    known = {}
    for i, row in enumerate(source):
        known.setdefault(row.tobytes(), []).append(i)
    found = []
    for row in value:
        places = known.get(row.tobytes())
        if not places:
            return None
        found.append(places.pop(0) if len(places) > 1 else places[0])
    return found if len(set(found)) > 0.8 * len(found) else None


def as_matrices(sources):
    """Every source as a matrix; of stacked sources, every part."""
    for name, data in sources.items():
        if data.ndim == 3 and data.shape[1] > 1:
            for i, part in enumerate(data):
                yield dict(source=name, slice=i), part
        elif data.ndim > 0:
            yield dict(source=name), data.reshape(len(data), -1)


CHANGES = ((dict(), lambda x: x), (dict(plus=1.0), lambda x: x + np.float32(1.0)), (dict(rate=True), lambda x: -np.exp(x)))


def find_rows(value, sources):
    for change, apply in CHANGES:
        for place, data in as_matrices(sources):
            for transposed in ({}, dict(transposed=True)) if not change and min(data.shape) > 1 else ({},):
                data_rows = np.ascontiguousarray(apply(data.T if transposed else data))
                for turned in ({}, dict(turned=True)) if min(value.shape) > 1 else ({},):
                    rows = rows_of(np.ascontiguousarray(value.T) if turned else value, data_rows)
                    if rows is None:
                        continue
                    step = rows[1] - rows[0] if len(rows) > 1 else 1
                    if rows == list(range(len(data_rows))):
                        order = {}
                    elif step > 0 and rows == list(range(rows[0], rows[-1] + 1, step)):
                        order = dict(range=[rows[0], step, len(rows)])
                    else:
                        order = dict(rows=rows)
                    return place | transposed | order | turned | change
    return None


def find_multiple(value, sources):
    """One source of the same shape, its rows multiplied by factors."""
    for place, data in as_matrices(sources):
        if data.shape != value.shape:
            continue
        factors = np.abs(value).sum(1) / np.abs(data).sum(1)
        if np.allclose(data * factors[:, None], value, rtol=1e-5, atol=0.0):
            factors = [float(f"{x:.7g}") for x in factors]
            return place | dict(times=factors if max(factors) - min(factors) > 1e-5 else factors[:1])
    return None


def find_source(value, sources):
    if value.ndim == 3:
        parts = [find_source(part, sources) for part in value]
        return dict(parts=parts) if all(parts) else None
    matrix = value.reshape(len(value), -1)
    return find_rows(matrix, sources) or find_rows(value.reshape(-1, 1), sources) or find_multiple(matrix, sources)


def describe(path, conversion):
    name = path.name
    gguf = conversion.gguf
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "model.gguf"
        convert(path, out, conversion)
        reader = gguf.GGUFReader(out)
        metadata = []
        for field in reader.fields.values():
            if field.name.startswith(("GGUF.", "tokenizer.chat_template")) or (field.name.startswith("general.") and field.name != "general.architecture"):
                continue
            metadata.append([field.name, [t.name for t in field.types], field.contents()])
        added = ADDED.get(name, [])
        metadata = [entry for entry in metadata if entry[0] not in [key for key, _, _ in added]] + added
        sources = {k: v.float().numpy() for k, v in load_file(path / "model.safetensors").items()}
        tensors = []
        for tensor in reader.tensors:
            value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            value = np.asarray(value, np.float32).reshape([int(n) for n in reversed(tensor.shape)])
            entry = dict(name=tensor.name, type=tensor.tensor_type.name, shape=[int(n) for n in tensor.shape])
            place = find_source(value, sources)
            entry |= place or dict(source=None, values=[float(f"{x:.9g}") for x in value.ravel()])
            if place is None and value.size > (1000 if tensor.name.startswith("dense_") else 256):
                raise ValueError(f"{tensor.name} is made of no tensor of the model")
            tensors.append(entry)
    return dict(metadata=metadata, tensors=tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN / "gguf")
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
    for folder in SETS:
        out = args.out / f"{folder}.json"
        paths = sorted(p for p in (GOLDEN / folder).iterdir() if p.is_dir() and p.name not in LEFT_OUT)
        wanted = [p for p in paths if not args.names or p.name in args.names]
        known = json.loads(out.read_text())["models"] if args.names and out.exists() else {}
        models, failed = {}, []
        for path in wanted:
            with tempfile.TemporaryDirectory() as checkpoints:
                checkpoint = pathlib.Path(checkpoints) / path.name
                golden_weights.write_checkpoint(path, checkpoint)
                try:
                    models[path.name] = describe(checkpoint, conversion)
                except Exception as error:
                    failed.append(f"{path.name}: {type(error).__name__}: {error}")
        models = dict(sorted((known | models).items()))
        versions = json.dumps(dict(llama_cpp=args.llama_cpp.parent.parent.name, torch=torch.__version__))
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in models.items())
        out.write_text(versions[:-1] + ', "models": {\n' + lines + "\n}}\n")
        print(f"{out.name}: {len(models)} models, {out.stat().st_size} bytes")
        print("\n".join(failed))


if __name__ == "__main__":
    main()
