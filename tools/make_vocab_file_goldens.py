#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizers/vocab_files.json: tokenizers without tokenizer.json, as transformers converts them.

Each case has the small files next to a vocabulary, whose vocab.json and merges.txt, or vocab.txt, are those of another
fixture, and the ids of texts and of pairs of texts.

Usage: tools/make_vocab_file_goldens.py     (needs transformers 5.24, tokenizers)
"""

import json
import pathlib
import tempfile

import transformers

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/tokenizers"

ADDED = {"content": "<|im_start|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
CASES = [
    {"name": "gpt2 by its model", "source": "byte-level", "config": {"model_type": "gpt2"}},
    {"name": "opt", "source": "byte-level", "config": {"model_type": "opt"},
     "tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "</s>", "eos_token": "</s>",
                          "unk_token": "</s>", "pad_token": "<pad>", "add_prefix_space": False}},
    {"name": "codegen with a space before the text", "source": "byte-level",
     "tokenizer_config": {"tokenizer_class": "CodeGenTokenizer", "add_prefix_space": True}},
    {"name": "qwen2", "source": "byte-level", "config": {"model_type": "qwen2"},
     "tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>",
                          "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
                          "added_tokens_decoder": {"400": ADDED, "401": {**ADDED, "content": "<|im_end|>"},
                                                   "402": {**ADDED, "content": "<tool>", "special": False}}}},
    {"name": "qwen2 with the files of older versions", "source": "byte-level", "config": {"model_type": "qwen2"},
     "added_tokens": {"<|im_start|>": 400, "<|im_end|>": 401, "<tool>": 402},
     "special_tokens_map": {"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}},
    {"name": "roberta", "source": "byte-level", "config": {"model_type": "roberta"}},
    {"name": "roberta with other tokens", "source": "byte-level",
     "tokenizer_config": {"tokenizer_class": "RobertaTokenizerFast", "cls_token": "<b>", "sep_token": "<e>", "add_prefix_space": True,
                          "mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False,
                                         "normalized": False, "single_word": False}}},
    {"name": "bert by its model", "source": "word-piece", "config": {"model_type": "bert"}},
    {"name": "bert with upper case", "source": "word-piece",
     "tokenizer_config": {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": True,
                          "tokenize_chinese_chars": False}},
    {"name": "distilbert with an added token", "source": "word-piece", "config": {"model_type": "distilbert"},
     "tokenizer_config": {"tokenizer_class": "DistilBertTokenizer"}, "added_tokens": {"<tool>": 350}},
    {"name": "mpnet", "source": "word-piece", "tokenizer_config": {"tokenizer_class": "MPNetTokenizer", "model_max_length": 512}},
]
TEXTS = [
    "", " ", "Hello, world!", "It's 12345 words\n\n  of text  ", "don't they'LL WE'VE", "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m", "\u4e2d\u6587\u548c\u0440\u0443\u0441\u0441\u043a\u0438\u0439", "a\tb\r\nc",
    "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "a <mask> b<tool>c <s>d</s> [MASK] [SEP]", "\U0001f600!!  ...", "\u0915\u094d\u0937\u093f \u0e20\u0e32\u0e29\u0e32",
    "THE QUICK brown Fox", "x=1;y=2//z", "   leading and trailing   ", "<TOOL> and <tool>",
]
PAIRS = [["Hello", "world again"], ["a cat", "x"]]


def write(directory, name, value):
    if value is not None:
        (directory / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def tokenizer_of(case):
    source = json.loads((FIXTURES / case["source"] / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        if source["type"] == "BPE":
            merges = [" ".join(m) if isinstance(m, list) else m for m in source["merges"]]
            write(directory, "vocab.json", source["vocab"])
            write(directory, "merges.txt", "#version: 0.2\n" + "".join(m + "\n" for m in merges))
        else:
            tokens = sorted(source["vocab"], key=source["vocab"].get)
            write(directory, "vocab.txt", "".join(t + "\n" for t in tokens))
        write(directory, "config.json", case.get("config", {"model_type": "llama"}))
        for key in ("tokenizer_config", "special_tokens_map", "added_tokens"):
            write(directory, key + ".json", case.get(key))
        return transformers.AutoTokenizer.from_pretrained(directory)


def main():
    out = []
    for case in CASES:
        tokenizer = tokenizer_of(case)
        texts = [{"text": t, "ids": tokenizer(t)["input_ids"], "decoded": tokenizer.decode(tokenizer(t)["input_ids"], skip_special_tokens=True, clean_up_tokenization_spaces=False)} for t in TEXTS]
        pairs = [{"pair": p, "ids": tokenizer(*p)["input_ids"]} for p in PAIRS]
        roles = {role: getattr(tokenizer, role + "_token_id") for role in ("bos", "eos", "unk", "pad")}
        print(case["name"], type(tokenizer).__name__, roles)
        out.append({**case, "roles": roles, "texts": texts, "pairs": pairs})
    text = "[\n" + ",\n".join(json.dumps(case, ensure_ascii=True) for case in out) + "\n]\n"
    (FIXTURES / "vocab_files.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
