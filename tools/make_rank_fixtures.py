#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizers/{tekken,tiktoken,kimi-tiktoken,qwen-tiktoken}: tiny vocabularies of byte strings by rank, and
difficult strings as encoded by mistral-common and tiktoken.

usage: make_rank_fixtures.py OUT_DIR      (pip install mistral-common==1.13.* tiktoken==0.14.*)
"""
import base64
import collections
import json
import random
import sys
import unicodedata
from pathlib import Path

import regex
import tiktoken
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from make_tokenizer_fixtures import CL100K, PIECES, QWEN2, TEXT, strings, write

TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
HAN = "東京へ行く。漢字とカナ、한국어 and 中文混在text's OK'S"


def train(pattern, size):
    """Byte strings by rank: the bytes, then the most frequent pairs."""
    ranks = [bytes([b]) for b in range(256)]
    words = [[bytes([b]) for b in word.encode()] for word in regex.findall("(?V1)" + pattern, TEXT)]
    while len(ranks) < size:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        (left, right), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        if left + right not in ranks:
            ranks.append(left + right)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == (left, right):
                    word[i:i + 2] = [left + right]
                i += 1
    # Strings of one repeated letter can be merged in several ways.
    return ranks + [b"aaa", b"aa"] if b"aa" not in ranks else ranks


def texts():
    return [TEXT, HAN, "", " ", "aaaaaaaaa baaaa", *PIECES, "<s>[INST] hi [/INST]</s>", "<|im_start|>user\nhi<|im_end|>", *strings(11, 60)]


def cases(encode, decode, decode_skip, bos, size):
    out = []
    for text in texts():
        ids = encode(text)
        out.append(dict(text=text, ids=bos + ids, ids_no_special=ids, decoded=decode(bos + ids), decoded_skip_special=decode_skip(bos + ids)))
    rnd = random.Random(5)
    for _ in range(30):
        ids = [rnd.randrange(len(bos) and 100, size) for _ in range(rnd.randrange(1, 20))]
        out.append(dict(ids_no_special=ids, decoded=decode(ids)))
    return out


def make_tekken(out):
    ranks = train(TEKKEN, 440)
    controls = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
                "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
                "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
    special = 100
    write(out / "tekken.json", dict(
        config=dict(pattern=TEKKEN, num_vocab_tokens=len(ranks), default_vocab_size=special + len(ranks) - 3, default_num_special_tokens=special,
                    version="v7"),
        vocab=[dict(rank=i, token_bytes=base64.b64encode(b).decode(), token_str=None) for i, b in enumerate(ranks)],
        special_tokens=[dict(rank=i, token_str=t, is_control=True) for i, t in enumerate(controls)]))
    model = Tekkenizer.from_file(out / "tekken.json")
    write(out / "goldens.json", cases(
        lambda text: model.encode(text, bos=False, eos=False), lambda ids: model.decode(ids, SpecialTokenPolicy.KEEP),
        lambda ids: model.decode(ids, SpecialTokenPolicy.IGNORE), [model.bos_id], special + len(ranks) - 3))


def write_ranks(path, ranks):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(base64.b64encode(b) + b" %d\n" % i for i, b in enumerate(ranks)))


def make_tiktoken(out, file, pattern, specials, form):
    ranks = train(pattern, 440)
    write_ranks(out / file, ranks)
    special = {t: len(ranks) + i for i, t in enumerate(specials)}
    model = tiktoken.Encoding("tiny", pat_str=pattern, mergeable_ranks={b: i for i, b in enumerate(ranks)}, special_tokens=special)
    skip = set(special.values())
    write(out / "goldens.json", cases(
        lambda text: model.encode(form(text), allowed_special="all"), lambda ids: model.decode(ids),
        lambda ids: model.decode([i for i in ids if i not in skip]), [], len(ranks) + len(specials)))
    return special


def main():
    out = Path(sys.argv[1])
    make_tekken(out / "tekken")
    special = make_tiktoken(out / "tiktoken", "tiktoken.model", CL100K, ["<|begin|>", "<|im_start|>", "<|im_end|>"], lambda text: text)
    write(out / "tiktoken" / "tokenizer_config.json", dict(added_tokens_decoder={
        str(i): dict(content=t, special=True, normalized=False, lstrip=False, rstrip=False, single_word=False) for t, i in special.items()}))
    special = make_tiktoken(out / "kimi-tiktoken", "tiktoken.model", KIMI,
                            ["[BOS]", "[EOS]", "<|im_end|>", *(f"<|reserved_token_{len(train(KIMI, 440)) + i}|>" for i in range(3, 256))], lambda text: text)
    write(out / "kimi-tiktoken" / "tokenizer_config.json", dict(tokenizer_class="TikTokenTokenizer", added_tokens_decoder={
        str(i): dict(content=t, special=True, normalized=False, lstrip=False, rstrip=False, single_word=False)
        for t, i in special.items() if "reserved" not in t}))
    make_tiktoken(out / "qwen-tiktoken", "qwen.tiktoken", QWEN2,
                  ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))],
                  lambda text: unicodedata.normalize("NFC", text))


if __name__ == "__main__":
    main()
