#!/usr/bin/env python3
"""Writes tests/golden/pooling: tiny pooling models (embeddings, classification) with random weights, and the outputs of transformers
for them.

Each directory NAME has config.json, the files that sentence-transformers adds to it, weights.json, from which tools/golden_weights.py
draws the weights, and golden.json:
  cases: [{prompt, second_text, vector}], computed in float32 on the CPU from the files as they are read back
    second_text  index of the first token of a pair's second text; 0 = not a pair
    vector       the embedding, or the scores of the labels after the model's activation

Usage: make_pooling_goldens.py [--out DIR] [NAME...]       default: all
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import golden_weights
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from model_goldens.weights import describe

LENGTHS = (2, 7, 23, 61)
SEED = 1

BERT = dict(model_type="bert", architectures=["BertModel"], vocab_size=96, hidden_size=24, intermediate_size=28,
            num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, type_vocab_size=2, pad_token_id=0)
ROBERTA = BERT | dict(model_type="xlm-roberta", architectures=["XLMRobertaModel"], type_vocab_size=1, pad_token_id=1,
                      layer_norm_eps=1e-5, max_position_embeddings=66)
DEBERTA = {k: v for k, v in BERT.items() if k != "type_vocab_size"} | dict(
    model_type="deberta-v2", architectures=["DebertaV2ForSequenceClassification"], type_vocab_size=0, relative_attention=True, share_att_key=True,
    position_biased_input=False, position_buckets=8, max_relative_positions=-1, norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"],
    pooler_hidden_act="gelu", pooler_dropout=0, layer_norm_eps=1e-7)
MODERN = dict(model_type="modernbert", architectures=["ModernBertModel"], vocab_size=96, hidden_size=24, intermediate_size=20,
              num_hidden_layers=4, num_attention_heads=3, max_position_embeddings=64, local_attention=8, global_attn_every_n_layers=3,
              pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
DECODER = dict(vocab_size=96, hidden_size=24, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
QWEN3 = DECODER | dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], tie_word_embeddings=True, head_dim=12, rope_theta=1e6)


def labels(*names):
    return dict(id2label={str(i): name for i, name in enumerate(names)}, label2id={name: i for i, name in enumerate(names)})


# name: (config.json as written, modules after the model: None, or a list for modules.json, options)
# Modules: pooling modes (a list), ("dense", out, activation, bias), "normalize", ("logit_score", true, false).
MODELS = {
    "bert": (BERT, [["mean"], "normalize"], dict(tokenizer=True, prompts=dict(query="query: ", document=""))),
    "bert-bare": (BERT, None, {}),
    "bert-bfloat16": (BERT, [["cls"], "normalize"], dict(dtype="bfloat16")),
    "bert-many": (BERT | dict(hidden_act="relu"), [["cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"],
                                                    ("dense", 20, "Tanh", True)], {}),
    "bert-old-flags": (BERT, [dict(pooling_mode_cls_token=False, pooling_mode_mean_tokens=True, pooling_mode_max_tokens=True)],
                       dict(max_seq_length=32)),
    "bert-reranker": (BERT | dict(architectures=["BertForSequenceClassification"]) | labels("LABEL_0"), None, dict(pairs=True, tokenizer=True)),
    "bert-reranker-logits": (BERT | dict(architectures=["BertForSequenceClassification"], sentence_transformers=dict(
        activation_fn="torch.nn.modules.linear.Identity")) | labels("LABEL_0"), None, dict(pairs=True)),
    "bert-classifier": (BERT | dict(architectures=["BertForSequenceClassification"]) | labels("good", "bad", "neither"), None, dict(tokenizer=True)),
    "xlm-roberta": (ROBERTA, [["cls"], "normalize"], {}),
    "xlm-roberta-reranker": (ROBERTA | dict(architectures=["XLMRobertaForSequenceClassification"]) | labels("LABEL_0"), None, dict(pairs=True)),
    "roberta-masked-lm": (ROBERTA | dict(model_type="roberta", architectures=["RobertaForMaskedLM"]), [["mean"]], {}),
    "distilbert": (dict(model_type="distilbert", architectures=["DistilBertModel"], vocab_size=96, dim=24, hidden_dim=28, n_layers=2,
                        n_heads=4, max_position_embeddings=64, pad_token_id=0), [["mean"]], {}),
    "distilbert-classifier": (dict(model_type="distilbert", architectures=["DistilBertForSequenceClassification"], vocab_size=96, dim=24,
                                   hidden_dim=28, n_layers=2, n_heads=4, max_position_embeddings=64, pad_token_id=0) |
                              labels("NEGATIVE", "POSITIVE"), None, {}),
    "modernbert": (MODERN, [["cls"], "normalize"], {}),
    "modernbert-types": ({k: v for k, v in MODERN.items() if k != "global_attn_every_n_layers"} | dict(
        layer_types=["sliding_attention", "full_attention"] * 2, norm_bias=True, attention_bias=True, mlp_bias=True,
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=8e4),
                             sliding_attention=dict(rope_type="default", rope_theta=500.0))), [["mean"]], {}),
    "modernbert-reranker": (MODERN | dict(architectures=["ModernBertForSequenceClassification"], classifier_pooling="mean") |
                            labels("LABEL_0"), None, {}),
    "nomic_bert": (BERT | dict(model_type="nomic_bert", architectures=["NomicBertModel"], hidden_act="silu"), [["mean"], "normalize"],
                   dict(own_names=True)),
    "nomic_bert-first": (BERT | dict(model_type="nomic_bert", architectures=["NomicBertModel"], hidden_act="silu"), [["mean"]],
                         dict(first_nomic=True)),
    "jina_embeddings_v3": (BERT | dict(model_type="jina_embeddings_v3", architectures=["JinaEmbeddingsV3Model"], type_vocab_size=1),
                           [["mean"], "normalize"], {}),
    "gte": (BERT | dict(model_type="gte", architectures=["GteModel"], type_vocab_size=1), [["cls"], "normalize"], dict(own_names=True)),
    "gte-first": (BERT | dict(model_type="gte", architectures=["GteForSequenceClassification"], rope_theta=500.0,
                              rope_scaling=dict(type="ntk", factor=2.0)) | labels("LABEL_0"), None, dict(first_gte=True, pairs=True)),
    "albert": (BERT | dict(model_type="albert", architectures=["AlbertForMaskedLM"], embedding_size=16, num_hidden_layers=3,
                           inner_group_num=1, num_hidden_groups=1), [["mean"], "normalize"], {}),
    "albert-classifier": (BERT | dict(model_type="albert", architectures=["AlbertForSequenceClassification"], embedding_size=24) |
                          labels("a", "b", "c"), None, dict(pairs=True)),
    "electra-small": (BERT | dict(model_type="electra", architectures=["ElectraModel"], embedding_size=16), [["cls"]], {}),
    "electra-reranker": (BERT | dict(model_type="electra", architectures=["ElectraForSequenceClassification"], embedding_size=24) |
                         labels("LABEL_0"), None, dict(pairs=True)),
    "ernie": (BERT | dict(model_type="ernie", architectures=["ErnieModel"], hidden_act="relu"), [["cls"], "normalize"], {}),
    "ernie-tasks": (BERT | dict(model_type="ernie", architectures=["ErnieModel"], use_task_id=True, task_type_vocab_size=4), [["mean"]], {}),
    "data2vec-text": (ROBERTA | dict(model_type="data2vec-text", architectures=["Data2VecTextForSequenceClassification"]) | labels("a", "b"), None, {}),
    "mpnet": (ROBERTA | dict(model_type="mpnet", architectures=["MPNetModel"]), [["mean"], "normalize"], {}),
    "mpnet-reranker": (ROBERTA | dict(model_type="mpnet", architectures=["MPNetForSequenceClassification"]) | labels("LABEL_0"), None, {}),
    "deberta_v2-classifier": (DEBERTA | labels("entailment", "neutral", "contradiction"), None, {}),
    "deberta_v2-unbucketed": (DEBERTA | dict(architectures=["DebertaV2Model"], position_buckets=-1, norm_rel_ebd="none", type_vocab_size=2,
                                             pos_att_type="p2c|c2p"), [["cls"]], {}),
    "eurobert-classifier": (DECODER | dict(model_type="eurobert", architectures=["EuroBertForSequenceClassification"], classifier_pooling="mean") |
                            labels("a", "b", "c"), None, {}),
    "eurobert": (DECODER | dict(model_type="eurobert", architectures=["EuroBertModel"]), [["mean"]], {}),
    "qwen3-embedding": (QWEN3, [["lasttoken"], "normalize"], dict(prompts=dict(query="Instruct: find it\nQuery:", document=""))),
    "qwen3-model": (QWEN3 | dict(architectures=["Qwen3Model"]), None, {}),
    "qwen3-mean": (QWEN3, [["weightedmean"]], {}),
    "qwen3-reranker": (QWEN3, [("logit_score", 40, 41)], {}),
    "qwen3-untied-reranker": (QWEN3 | dict(tie_word_embeddings=False), [("logit_score", 90, None)], {}),
    "qwen3-classifier": (QWEN3 | dict(architectures=["Qwen3ForSequenceClassification"], tie_word_embeddings=False) |
                         labels("LABEL_0"), None, {}),
    "llama-classifier": (DECODER | dict(model_type="llama", architectures=["LlamaForSequenceClassification"], tie_word_embeddings=False) |
                         labels("a", "b", "c"), None, {}),
    "gpt2-classifier": (dict(model_type="gpt2", architectures=["GPT2ForSequenceClassification"], vocab_size=96, n_embd=24, n_layer=2,
                             n_head=3, n_positions=96, bos_token_id=95, eos_token_id=95, pad_token_id=0,
                             problem_type="multi_label_classification") | labels("a", "b"), None, {}),
    "gemma3-embedding": (DECODER | dict(model_type="gemma3_text", architectures=["Gemma3TextModel"], head_dim=8, sliding_window=12,
                                        query_pre_attn_scalar=12, layer_types=["sliding_attention", "full_attention"],
                                        use_bidirectional_attention=True), [["mean"], ("dense", 40, "Identity", False),
                                                                            ("dense", 24, "Identity", False), "normalize"], {}),
}

CLASSES = [("ForSequenceClassification", AutoModelForSequenceClassification), ("ForCausalLM", AutoModelForCausalLM)]
ST = "sentence_transformers.models"


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_modules(path, modules, extra, size):
    """Writes modules.json and its folders; returns the files of the dense layers {name: tensors}, and their activations."""
    entries, files, activations = [dict(idx=0, name="0", path="", type=f"{ST}.Transformer")], {}, []
    width = size * pooled_parts(modules[0])
    for i, module in enumerate(modules, 1):
        name, folder = str(i), ""
        if isinstance(module, (list, dict)):
            folder, kind = f"{i}_Pooling", "Pooling"
            flags = module if isinstance(module, dict) else dict(pooling_mode=module[0] if len(module) == 1 else module)
            write_json(path / folder / "config.json", dict(word_embedding_dimension=size, include_prompt=True) | flags)
        elif module == "normalize":
            folder, kind = f"{i}_Normalize", "Normalize"
        elif module[0] == "logit_score":
            folder, kind = f"{i}_LogitScore", "LogitScore"
            write_json(path / folder / "config.json", dict(true_token_id=module[1], false_token_id=module[2]))
        else:
            folder, kind = f"{i}_Dense", "Dense"
            _, out, activation, bias = module
            tensors = {"linear.weight": ["F32", [out, width], "normal", 0.0, 0.3]}
            files[f"{folder}/model.safetensors"] = tensors | ({"linear.bias": ["F32", [out], "normal", 0.0, 1.0]} if bias else {})
            where = "linear" if activation == "Identity" else "activation"
            write_json(path / folder / "config.json", dict(in_features=width, out_features=out, bias=bias,
                                                           activation_function=f"torch.nn.modules.{where}.{activation}"))
            activations.append(activation)
            width = out
        entries.append(dict(idx=i, name=name, path=folder, type=f"{ST}.{kind}"))
    write_json(path / "modules.json", entries)
    if "max_seq_length" in extra:
        write_json(path / "sentence_bert_config.json", dict(max_seq_length=extra["max_seq_length"], do_lower_case=False))
    if "prompts" in extra:
        write_json(path / "config_sentence_transformers.json", dict(prompts=extra["prompts"], default_prompt_name=None))
    return files, activations


def pooled_parts(module):
    return len(module) if isinstance(module, list) else sum(v is True for v in module.values()) if isinstance(module, dict) else 1


def modes_of(module):
    if isinstance(module, list):
        return module
    names = ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    return [n.removesuffix("_tokens") if n != "mean_sqrt_len_tokens" else n for n in names if module.get("pooling_mode_" + n)]


WORDS = ("the cat sat on a mat dog ran home rain sun what is how of to in and it good bad query document find").split()


def make_tokenizer():
    """A WordPiece tokenizer with 96 entries and BERT's special tokens around and between texts."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *("##" + c for c in letters), ".", ",", "?", ":"]
    entries += [w for w in WORDS if w not in entries]
    vocab = {token: i for i, token in enumerate(entries[:96])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


TEXTS = ["The cat sat on the mat.", "rain", "A dog ran home, and what is it good for?", "Query: how to find a document of rain and sun"]
PAIRS = [("what is rain?", "rain is what the sun is not"), ("what is rain?", "a dog"), ("what is rain?", "the mat is in the rain, the cat is not")]


def scores_tokens(modules):
    return bool(modules) and isinstance(modules[0], tuple) and modules[0][0] == "logit_score"


def pool(hidden, mode):
    n = hidden.shape[0]
    weights = torch.arange(1, n + 1, dtype=hidden.dtype)
    return {"cls": lambda: hidden[0], "lasttoken": lambda: hidden[-1], "mean": lambda: hidden.mean(0), "max": lambda: hidden.max(0).values,
            "mean_sqrt_len_tokens": lambda: hidden.sum(0) / n ** 0.5,
            "weightedmean": lambda: (weights[:, None] * hidden).sum(0) / weights.sum()}[mode]()


def vector_of(model, config, modules, dense, prompt, second):
    name = config["architectures"][0]
    inputs = dict(input_ids=torch.tensor([prompt]))
    if config.get("type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.tensor([[int(second > 0 and i >= second) for i in range(len(prompt))]])
    out = model(**inputs)
    if name.endswith("ForSequenceClassification"):
        scores = out.logits[0].float()
        if "Identity" in str(config.get("sentence_transformers")):
            return scores
        if len(scores) == 1 or config.get("problem_type") == "multi_label_classification":
            return scores.sigmoid()
        return scores.softmax(-1)
    if scores_tokens(modules):
        last, (_, yes, no) = out.logits[0, -1].float(), modules[0]
        return (last[yes] - (last[no] if no is not None else 0.0)).sigmoid()[None]
    hidden = out.last_hidden_state[0].float()
    if modules is None:
        vector = hidden[0] if config["model_type"] == "bert" else hidden[-1]
        return vector / vector.norm()
    vector = torch.cat([pool(hidden, mode) for mode in modes_of(modules[0])])
    for weight, bias, activation in dense:
        vector = weight @ vector + (bias if bias is not None else 0.0)
        vector = vector.tanh() if activation == "Tanh" else vector
    return vector / vector.norm() if "normalize" in modules else vector


def as_first_nomic(tensors, layers):
    """The tensors of nomic-ai's first checkpoints."""
    renamed = {}
    rules = [("layers.", "encoder.layers."), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"),
             ("up_proj", "fc11"), ("gate_proj", "fc12"), ("down_proj", "fc2"), ("post_attention_layernorm", "norm1"),
             ("post_mlp_layernorm", "norm2")]
    for name, tensor in tensors.items():
        name = name.replace("encoder.layers.", "layers.")
        for old, new in rules:
            name = name.replace(old, new)
        renamed[name] = tensor
    for i in range(layers):
        parts = [renamed.pop(f"encoder.layers.{i}.self_attn.{p}_proj.weight", None) for p in "qkv"]
        if parts[0] is not None:
            renamed[f"encoder.layers.{i}.attn.Wqkv.weight"] = torch.cat(parts)
    return renamed


def first_config(config, extra):
    """The configuration of nomic-ai's or Alibaba's first checkpoints, or `config` for other models."""
    if extra.get("first_nomic"):
        return dict(
            model_type="nomic_bert", architectures=["NomicBertModel"], activation_function="swiglu", n_embd=config["hidden_size"],
            n_head=config["num_attention_heads"], n_inner=config["intermediate_size"], n_layer=config["num_hidden_layers"],
            n_positions=config["max_position_embeddings"], vocab_size=config["vocab_size"], type_vocab_size=config["type_vocab_size"],
            layer_norm_epsilon=1e-12, rotary_emb_base=1000, rotary_emb_fraction=1.0, qkv_proj_bias=False, prenorm=False)
    if extra.get("first_gte"):
        return config | dict(model_type="new", architectures=["NewForSequenceClassification"], layer_norm_type="layer_norm",
                             position_embedding_type="rope", pack_qkv=True, logn_attention_scale=False)
    return config


def convert(model, extra):
    """The tensors of a model, as in the checkpoint."""
    if extra.get("own_names"):
        return model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    if extra.get("first_nomic"):
        return as_first_nomic(tensors, model.config.num_hidden_layers)
    if extra.get("first_gte"):  # transformers writes the other names of these checkpoints itself
        return {name.replace("gte.", "new.", 1): tensor for name, tensor in tensors.items()}
    return tensors


@torch.no_grad()
def set_converted(model, extra, tensors):
    """Gives a model the weights whose conversion is `tensors`. The conversion only moves elements, so that of a model with distinct
    integers shows where each comes from."""
    own = list(model.parameters())
    count = 0
    for parameter in own:
        parameter.copy_(torch.arange(count, count + parameter.numel(), dtype=torch.float32).reshape(parameter.shape))
        count += parameter.numel()
    assert count < 2**24  # exact in float32
    values = torch.full((count,), torch.nan)
    for name, index in convert(model, extra).items():
        values[index.flatten().long()] = tensors[name].float().flatten()
    assert not values.isnan().any()
    for parameter, part in zip(own, values.split([parameter.numel() for parameter in own])):
        parameter.copy_(part.reshape(parameter.shape))


def stretched_as_first_gte(config):
    """RoPE of those checkpoints in the terms of transformers: a larger base, and all angles scaled by one factor."""
    factor, head = config["rope_scaling"]["factor"], config["hidden_size"] // config["num_attention_heads"]
    plain = {k: v for k, v in config.items() if k not in ("rope_scaling", "rope_theta")}
    return plain | dict(rope_parameters=dict(rope_type="linear", factor=factor ** (2 / head), rope_theta=config["rope_theta"] * factor))


@torch.no_grad()
def make_model(path, config, modules, extra):
    generator = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    name = config["architectures"][0]
    auto = next((cls for suffix, cls in CLASSES if name.endswith(suffix)), AutoModel)
    embeds = name.endswith("ForCausalLM") and not scores_tokens(modules)
    full = transformers.__dict__.get(name) if name.endswith("ForMaskedLM") else None
    hf_config = AutoConfig.for_model(**(stretched_as_first_gte(config) if extra.get("first_gte") else config))
    model = full(hf_config) if full else auto.from_config(hf_config, dtype=torch.float32)
    tensors = describe(model, lambda model: convert(model, extra), getattr(torch, extra.get("dtype", "float32")))
    shutil.rmtree(path, ignore_errors=True)
    write_json(path / "config.json", first_config(config, extra))
    dense_files, activations = write_modules(path, modules, extra, hf_config.hidden_size) if modules else ({}, [])
    golden_weights.write_description(path, SEED, {"model.safetensors": tensors} | dense_files)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        golden_weights.write_checkpoint(path, folder)
        if first_config(config, extra) is not config:
            # The names of these checkpoints are not those of transformers.
            set_converted(model, extra, load_file(folder / "model.safetensors"))
            model.save_pretrained(folder)
        read = AutoModel if embeds or full else auto
        model = read.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        layers = [load_file(folder / file) for file in dense_files]
    dense = [(layer["linear.weight"], layer.get("linear.bias"), activation) for layer, activation in zip(layers, activations)]
    cases = []
    for length in LENGTHS:
        if length > extra.get("max_seq_length", length):
            continue
        prompt = torch.randint(3, config["vocab_size"], (length,), generator=generator).tolist()
        second = length // 2 if extra.get("pairs") and length > 2 else 0
        vector = vector_of(model, config, modules, dense, prompt, second)
        cases.append(dict(prompt=prompt, second_text=second, vector=[round(x, 8) for x in vector.tolist()]))
    golden = dict(transformers=transformers.__version__, torch=torch.__version__, cases=cases)
    if extra.get("tokenizer"):
        tokenizer = make_tokenizer()
        tokenizer.save(str(path / "tokenizer.json"))
        write_json(path / "tokenizer_config.json", dict(tokenizer_class="PreTrainedTokenizerFast", cls_token="[CLS]", sep_token="[SEP]",
                                                        pad_token="[PAD]", unk_token="[UNK]", model_max_length=64))
        golden["texts"] = []
        for text in (PAIRS if extra.get("pairs") else TEXTS):
            encoding = tokenizer.encode(*text) if extra.get("pairs") else tokenizer.encode(text)
            second = encoding.type_ids.index(1) if 1 in encoding.type_ids else 0
            vector = vector_of(model, config, modules, dense, encoding.ids, second)
            golden["texts"].append(dict(text=text, ids=encoding.ids, second_text=second, vector=[round(x, 8) for x in vector.tolist()]))
    (path / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    total = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"{path.name}: {total} bytes, {[round(x, 3) for x in cases[-1]['vector'][:4]]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "pooling")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names or MODELS:
        make_model(args.out / name, *MODELS[name])


if __name__ == "__main__":
    main()
