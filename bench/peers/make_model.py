#!/usr/bin/env python3
"""Writes a checkpoint with random weights in bfloat16 and a byte-level tokenizer of exactly its vocabulary.

    make_model.py SHAPE DIRECTORY          (SHAPE: a JSON object, see models.SHAPES)

Runs in the environment that converts models: needs torch and transformers.
"""
from __future__ import annotations

import json
import pathlib
import sys

SEED = 20240607


def byte_letters() -> list[str]:
    """The character that represents each byte in byte-level tokenizers."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in shown else chr(next(others)) for b in range(256)]


def write_tokenizer(directory: pathlib.Path, vocab_size: int) -> None:
    letters = byte_letters()
    space = letters[ord(" ")]
    special = ["<|begin|>", "<|end|>", "<|pad|>"]
    words = [*special, *letters, space + "w"]
    # Tokens that no text is encoded to. They fill the vocabulary and are decoded to a word.
    words += [f"{space}w{i:06}" for i in range(len(words), vocab_size)]
    added = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, word in enumerate(special)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {word: i for i, word in enumerate(words)}, "merges": [[space, "w"]]}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": special[0], "eos_token": special[1], "pad_token": special[2],
              "model_max_length": 8192, "clean_up_tokenization_spaces": False,
              "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}"}
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def main() -> None:
    import torch
    import transformers

    shape, directory = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])
    kind = shape.pop("kind")
    config = getattr(transformers, kind + "Config")(**shape, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    torch.manual_seed(SEED)
    torch.set_default_dtype(torch.bfloat16)
    model = getattr(transformers, kind + "ForCausalLM")(config)
    model.to(torch.bfloat16).save_pretrained(directory)
    write_tokenizer(directory, shape["vocab_size"])


if __name__ == "__main__":
    main()
